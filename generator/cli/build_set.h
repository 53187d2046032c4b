/* Plans turned into machine code, outside a sweep: default plans, imported winners, every pipeline to verify. Collects
 * the sources of many plans, compiles each distinct one once in child processes, and hands the code back. */
#ifndef MLP_CLI_BUILD_SET_H
#define MLP_CLI_BUILD_SET_H

#include <jansson.h>

#include "db.h"
#include "message.h"

typedef struct build_set build_set;

build_set *build_set_new(void); /* NULL: out of memory */
void build_set_free(build_set *set);

/* Adds the modules of a plan of gen_build_plan (sources: hash -> text). What is there already is not added twice. */
mlpbwd_status build_set_add(build_set *set, const json_t *plan, const json_t *sources, mlp_message *why);

/* Compiles what has not been compiled yet, in `jobs` child processes (0: one a processor) of at most `limit_seconds`
 * each (0: 120). cache (may be NULL) is asked first. Refused sources and missing compilers are no failure of this call:
 * build_set_apply tells. interrupted (may be NULL): ends early when it becomes non-zero. */
mlpbwd_status build_set_compile(build_set *set, int jobs, double limit_seconds, db *cache,
                                const volatile int *interrupted, mlp_message *why);
typedef struct build_counts {
    size_t compiled, cached, failed;
} build_counts;
build_counts build_set_counts(const build_set *set);

/* Calls visit once for every distinct reason why something has no code: which compiler and target, how many. */
void build_set_each_failure(const build_set *set,
                            void (*visit)(void *user, const char *compiler, const char *target, const char *reason,
                                          size_t count),
                            void *user);

/* Fills "code" and "code_format" of the plan's modules; returns how many have none. */
size_t build_set_apply(const build_set *set, json_t *plan);
/* Puts the plan's sources and machine code into the database, and the compilations into its cache. */
mlpbwd_status build_set_store(const build_set *set, const json_t *plan, db *database, mlp_message *why);

/* A plan_blob_source over the set; user is the set. */
mlpbwd_status build_set_blob(void *user, const char *hash, void **bytes, size_t *size, mlp_message *why);

#endif
