/* A loop over independent pieces of work on all processors this process may use. */
#ifndef MLP_PARALLEL_H
#define MLP_PARALLEL_H

#include <stdint.h>

/* Calls body(user, index) once for each index in [0, count), in any order, from up to parallel_threads() threads (the
 * caller's is one of them), and returns when all have run. Threads that cannot be started only make it slower. */
void parallel_for(int64_t count, void (*body)(void *user, int64_t index), void *user);

/* Processors this process may run on, at least 1 and at most 64. */
int parallel_threads(void);

#endif
