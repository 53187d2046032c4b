/* The sweep: emit, compile (renewable child processes), gate and time (a worker process owns the device), record.
 * The parent owns the database. */
#ifndef MLP_TUNE_H
#define MLP_TUNE_H

#include <jansson.h>
#include <stdbool.h>

#include "db.h"
#include "device/device.h"
#include "generator.h"

typedef struct tune_options {
    const char *device; /* "cuda:0", "host"; compile_only: NULL, or the device to compile for */
    const char *database_path;
    const char *const *template_folders;
    size_t template_folder_count;
    const int64_t *tokens; /* distinct T to tune, any order */
    size_t token_count;
    int64_t hidden_size, intermediate_size;
    int accuracy, activation;
    double budget_seconds;                           /* of the whole sweep; 0: none */
    int jobs;                                        /* compile processes; 0: processors */
    int shard, shard_count;                          /* 1-based; 0/0: all */
    double compile_limit_seconds, run_limit_seconds; /* per candidate; 0: 60 and 20 */
    size_t compile_memory_bytes;                     /* RLIMIT_AS of compile children; 0: 8 GiB */
    int repetitions, warmup;                         /* 0: 20 and 3 */
    bool compile_only; /* `mlpbwd compile`: fills the database with ready machine code, of every variant that a sweep
                          with any seed may come to */
    const char *arch;  /* compile_only: target, where device is NULL; else NULL */
    int units;         /* compile_only: multiprocessors to prune for; 0: the device's, else the arch file's */
    bool no_compile;   /* take machine code from the database alone, whichever compiler made it */
    /* Recorded times, for tests. Without a device (NULL): of the search alone. With one: candidates are compiled and
     * checked there; refused where a device gives times of its own. The rows are marked as replayed. */
    const char *replay_path;
    unsigned seed;
    void (*progress)(void *user, const char *line); /* human-readable, with ETA; one line a call; may be NULL */
    void *user;
    const volatile int *interrupted; /* set non-zero by a signal handler; NULL: never */
    const char *exhaustive;          /* slot of which every valid variant is tried, pruned or not; NULL: none */
    bool retry_failed;               /* also candidates that crashed, timed out or were wrong before */
} tune_options;

/* *summary: {"winners":[{tokens, pipeline, parameters, median_us, default_us}], "candidates":{outcome: count},
 * "timed":n, "compiled":n, "failed":[{...reason}], "interrupted":bool, "seconds":..,
 * "budget_ended":bool (before all was tried)}. */
mlpbwd_status tune_run(const tune_options *options, json_t **summary, mlp_message *why);

/* Child processes: `mlpbwd __worker ...`, `mlpbwd __compile`; JSON lines on standard input and output. */
int tune_worker_main(int argc, char **argv);
int tune_compile_main(int argc, char **argv);

/* ---- the gate: float64 reference and acceptance (also `mlpbwd verify`) ---- */
typedef struct gate_errors { /* per output, in the order of mlpbwd_tensors */
    double frobenius[5], worst_row[5], worst_column[5];
    const char *failed; /* NULL, or a sentence naming output, index, value and limit */
    char failed_text[512];
} gate_errors;

#endif
