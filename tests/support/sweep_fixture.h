/* Sweeps for tests: run in this program, which is also the program of their child processes. */
#ifndef SWEEP_FIXTURE_H
#define SWEEP_FIXTURE_H

#include <jansson.h>
#include <stdbool.h>

#include "tune.h"

/* Runs it or fails the test with the message; the summary, a new reference. */
json_t *sweep_run(const tune_options *options);

/* Is there a C compiler for the device "host"? */
bool sweep_host_compiles(void);

/* For main: true when a sweep has started this program as its worker or compiler, which has then been and ended with
 * *code. */
bool sweep_was_child(int argc, char **argv, int *code);

#endif
