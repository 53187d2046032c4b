/* Compiles many sources in renewable child processes: each is restarted after COMPILES_PER_CHILD sources (compilers
 * leak), has a memory limit, and is killed when a source takes longer than the limit. */
#ifndef MLP_COMPILE_POOL_H
#define MLP_COMPILE_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "message.h"

enum { COMPILES_PER_CHILD = 50 };

typedef struct compile_settings {
    const char *compiler, *target; /* of the arch file */
    int jobs;                      /* at least 1 */
    double limit_seconds;          /* for one source */
    size_t memory_bytes;           /* RLIMIT_AS of a child; 0: none */
    const volatile int *interrupted;
} compile_settings;

typedef struct compile_source {
    const char *name, *text; /* name: for diagnostics */
} compile_source;

/* outcome: "compiled", "compile_failed", "compile_timeout", "crashed". Valid during the call. */
typedef struct compile_result {
    const char *outcome, *reason, *log;
    const void *bytes; /* machine code when compiled */
    size_t size;
    const char *format;
} compile_result;

typedef struct compile_callbacks {
    /* Called in this thread for each source as it is finished, in any order; not OK stops all. */
    mlpbwd_status (*done)(void *user, size_t index, const compile_result *result, mlp_message *why);
    bool (*stop)(void *user); /* true: start no more sources (those running are still awaited) */
    void *user;
} compile_callbacks;

/* Sources that were not started (stop, interruption) are not reported. OK also when sources failed. */
mlpbwd_status compile_all(const compile_settings *settings, const compile_source *sources, size_t count,
                          const compile_callbacks *callbacks, mlp_message *why);

#endif
