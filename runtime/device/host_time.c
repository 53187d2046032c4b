/* Timing on the host: each repetition with cold caches, between two readings of CLOCK_MONOTONIC. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host.h"

enum { FLUSH_PIECE = 1 << 20, FLUSH_MOST = 256 << 20 };

static double now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time); /* cannot fail: the clock exists and the pointer is good */
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static void flush_piece(void *const *arguments, unsigned x, unsigned y, unsigned z) {
    (void)y;
    (void)z;
    unsigned char *buffer = *(unsigned char **)arguments[0];
    int byte = *(int *)arguments[1];
    memset(buffer + (size_t)x * FLUSH_PIECE, byte, FLUSH_PIECE);
}

/* By all threads, because each core's own cache also holds what the last repetition left. */
static void flush(host_device *device, unsigned char *buffer, size_t size, int byte) {
    void *arguments[] = {&buffer, &byte};
    uint32_t grid[3] = {(uint32_t)(size / FLUSH_PIECE), 1, 1};
    host_pool_run(device->pool, flush_piece, arguments, grid, grid[0], (unsigned)device->base.info.units);
}

mlpbwd_status host_time(dev_context *context, mlpbwd_status (*enqueue)(void *user, dev_stream stream, mlp_message *why),
                        void *user, dev_timing *timing, mlp_message *why) {
    host_device *device = host_of(context);
    int64_t wanted = 2 * device->base.info.l2_bytes;
    size_t size = wanted <= 0 ? 64 << 20 : wanted > FLUSH_MOST ? FLUSH_MOST : (size_t)wanted;
    size = (size + FLUSH_PIECE - 1) / FLUSH_PIECE * FLUSH_PIECE;
    unsigned char *buffer = NULL;
    if (timing->cold && !(buffer = malloc(size)))
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for the %zu bytes that empty the caches", size);
    mlpbwd_status status = MLPBWD_OK;
    for (int i = -timing->warmup; i < timing->repetitions && !status; i++) {
        if (buffer)
            flush(device, buffer, size, i & 0xff);
        double start = now_us();
        status = enqueue(user, NULL, why);
        double stop = now_us();
        if (i >= 0)
            timing->microseconds[i] = stop - start;
    }
    free(buffer);
    snprintf(timing->protocol, sizeof timing->protocol, "%s, direct call, %d repetitions after %d",
             timing->cold ? "cold cache" : "warm cache", timing->repetitions, timing->warmup);
    return status;
}
