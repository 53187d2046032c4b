/* A simulated asynchronous device: launches and waits are only recorded, and run, when asked, in an order that obeys
 * the streams and is otherwise as unkind as a seed makes it. Machine code is ignored: entries are the functions of
 * tiny_kernels.inc. */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include "device/device.h"

enum { FAKE_STREAMS = 64 };

/* The one fake device and its context. arch is the only rung of its ladder. */
dev *fake_device(const char *arch);
dev_context *fake_context(void);
/* Its compute capability from now on; 90 before. */
void fake_capability(int capability);

/* A caller's stream. Handles are never NULL. */
dev_stream fake_stream(void);

/* Runs all that is recorded. Returns the number of launches run; *streams (may be NULL): how many streams they used. */
size_t fake_run(unsigned seed, size_t *streams);

/* Puts a stream into the capture of this id (0: none); a side stream that waits for a captured one is drawn in. */
void fake_capture(dev_stream stream, uint64_t id);
/* Ends every capture. */
void fake_end_captures(void);

/* The launch after the next n fails with DEVICE_ERROR (-1: none does); a change of a recorded one counts as well. */
void fake_fail_after(int launches);

/* Recorded graphs that have been enqueued so far. */
int fake_graph_launches(void);

#endif
