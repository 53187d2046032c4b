/* The least time a backward pass can take: the larger of 8*T*H*I flop at a peak rate and the compulsory fp32 bytes
 * (every input that is read and every output, once) at the memory's bandwidth. */
#ifndef MLP_ROOFLINE_H
#define MLP_ROOFLINE_H

#include "cli.h"
#include "device/device.h"

typedef struct roofline {
    double flop_rate, byte_rate; /* per second; 0: unknown */
    char source[192];            /* where the two figures come from */
} roofline;

/* Measured ceilings for devices that we have measured, else the architecture file's datasheet rates. What cannot be
 * found is 0 and `source` says so. */
void roofline_find(const dev_info *device, int accuracy, const cli_options *options, roofline *out);
/* Microseconds; 0 when neither rate is known. */
double roofline_us(const roofline *line, int64_t tokens, int64_t hidden_size, int64_t intermediate_size);

#endif
