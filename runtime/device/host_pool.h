/* Threads that run one grid of a host kernel at a time. A second caller does not wait: it runs its grid alone. */
#ifndef DEVICE_HOST_POOL_H
#define DEVICE_HOST_POOL_H

#include <stdint.h>

typedef struct host_pool host_pool;
typedef void (*host_entry)(void *const *arguments, unsigned x, unsigned y, unsigned z);

/* A pool that runs grids in up to `threads` threads, the caller included. Fewer when the system gives no more; with a
 * pool of one, or NULL (no memory), everything runs in the caller. */
host_pool *host_pool_create(int threads);
/* No grid may be running. NULL is harmless; so is a forked child's copy, which only leaks. */
void host_pool_destroy(host_pool *pool);

/* Calls entry once for each of the `points` = grid[0] * grid[1] * grid[2] points, in any order, from at most `most`
 * threads, and returns when all calls have. Takes no lock and allocates nothing. Works in a forked child (alone). */
void host_pool_run(host_pool *pool, host_entry entry, void *const *arguments, const uint32_t grid[3], uint64_t points,
                   unsigned most);

#endif
