/* What the parts of one sweep share. A sweep is: enumerate the variants of every slot of every pipeline (space.c,
 * variant.c), compile their sources (compile_phase.c), and for each T time the slots one by one inside a whole pass
 * (search.c), then the best whole passes in turns (finals.c). Every step reads and writes rows (record.c), so that any
 * of it can be repeated at no cost. */
#ifndef MLP_SWEEP_H
#define MLP_SWEEP_H

#include <jansson.h>
#include <stdbool.h>

#include "db.h"
#include "generator.h"
#include "measure.h"
#include "tune.h"

enum { DATE_CAPACITY = 24 };

/* One kernel with parameters in one slot of one pipeline, everything else at its default. */
typedef struct variant {
    char *pipeline, *slot, *role, *kernel;
    json_t *parameters; /* with "kernel" */
    char *canonical;    /* without, sorted keys: the row's key */
    json_t *plan;       /* machine code named once compiled */
    char source_hash[DB_HASH_CAPACITY];
    char signature[DB_HASH_CAPACITY]; /* of source and launches: equal ones run equally */
    uint64_t order;                   /* seeded pseudo-random rank; also what --shard divides by */
    bool is_default;
} variant;

/* What is known of a variant at one T. */
typedef struct trial {
    variant *v;
    const char *outcome; /* NULL: not known yet */
    char *reason;
    double median;  /* < 0: not timed */
    double seconds; /* that checking and timing it took; 0: not done in this sweep */
    json_t *measurement;
} trial;

typedef struct trial_list {
    trial *items;
    size_t count;
} trial_list;

typedef struct source_state {
    char *text, *name;
    const char *outcome; /* NULL: not tried */
    char *reason;
    char code[DB_HASH_CAPACITY];
    char format[16];
    bool queued;
    bool wanted; /* a variant of this shard or a default pass needs it */
} source_state;

typedef struct sweep {
    tune_options options; /* defaults filled in */
    gen *generator;
    db *database;
    measurer measurer;
    bool has_measurer;
    gen_target target;
    char compiler[16], compiler_target[64]; /* of the arch file, but for a device with a compiler of its own */
    char compiler_version[64];              /* of machine code: this machine's compiler, or what the database has */
    bool own_compiler;                      /* of the device: its machine code is for no other */
    bool search_only;                       /* recorded times without a device: nothing is compiled or run */
    bool no_compiler;                       /* what has no machine code in the database gets none */
    char arch[32];
    int compute_capability;        /* of the arch file */
    int units;                     /* of the device; without one, of the arch file or this machine: never 0 */
    double rate, memory_bandwidth; /* of the arch file: flop per clock and unit in this class; bytes/s; 0 unknown */
    variant **variants;
    size_t variant_count;
    json_t *default_plans;                   /* pipeline -> stored plan with every slot at its default */
    gen_default defaults[GEN_MOST_DEFAULTS]; /* of the architecture; each with its plan */
    json_t *defaults_plans;                  /* list of stored plans */
    size_t defaults_count;
    json_t *sources; /* hash -> index into source_states */
    source_state *source_states;
    size_t source_count;
    json_t *known;         /* row key -> stored row */
    json_t *gated;         /* signature -> errors on the small shapes, which passed; true: no figures are known */
    json_t *passes_so_far; /* plans that won at other T, in the order of the sweep: their variants are tried early at
                              the next T, and the last of them enter its finals as they are */
    json_t *summary;
    double started; /* measurer's or monotonic seconds */
    int64_t timed, compiled;
    double last_progress;
    bool pending;      /* rows in an open transaction */
    bool budget_ended; /* before all was tried that there was to try */
} sweep;

/* Seconds since some fixed moment: the measurer's, so that recorded times have a clock of their own; without one,
 * monotonic. Budgets and deadlines go by it. */
double sweep_now(const sweep *s);
/* True once the caller's flag (tune_options) is set: begin nothing new, keep what there is. */
bool sweep_interrupted(const sweep *s);
/* At most one line a second unless important. */
void sweep_progress(sweep *s, bool important, const char *format, ...) __attribute__((format(printf, 3, 4)));
void sweep_date(char date[DATE_CAPACITY]); /* ISO 8601, UTC */
mlpbwd_status sweep_no_memory(mlp_message *why);
/* True when this sweep's --shard is to try the variant; defaults are in every shard. */
bool sweep_in_shard(const sweep *s, const variant *v);
/* Compact JSON with sorted keys; malloc'ed, NULL without memory. */
char *sweep_canonical(const json_t *value);
/* The same of slot parameters without their "kernel". */
char *sweep_canonical_parameters(const json_t *parameters);

/* ---- space.c ---- */
/* Trials of one T, in the order they should be tried: slots in turns, in each the default first, then what won at other
 * T, then pseudo-random. tokens < 0: without pruning. */
mlpbwd_status space_trials(sweep *s, int64_t tokens, trial_list *out, mlp_message *why);
/* Neighbours of a variant (one parameter one step further) that are in no list yet, appended to the list. */
mlpbwd_status space_neighbours(sweep *s, int64_t tokens, const variant *centre, trial_list *list, mlp_message *why);
/* What a list owns; not the variants. Leaves it empty. */
void space_free_trials(trial_list *list);

/* ---- variant.c ---- */
/* The plan of a pipeline with every slot at its default; borrowed. NULL pipeline: the default pipeline. */
mlpbwd_status space_default_plan(sweep *s, const char *pipeline, json_t **plan, mlp_message *why);
/* Builds a plan and takes note of its sources. selection: slot -> parameters. */
mlpbwd_status space_plan(sweep *s, const char *pipeline, const json_t *selection, json_t **plan, mlp_message *why);
/* All variants, default plans and sources, at the sweep's end. */
void space_free(sweep *s);

/* ---- compile_phase.c ---- */
/* Compiles what has no machine code yet, the first trials' sources first, at most until `deadline` (sweep_now; 0:
 * none). What only variants of other shards need is taken from the database or left. */
mlpbwd_status compile_sources(sweep *s, const trial_list *lists, size_t list_count, double deadline, mlp_message *why);
/* Puts machine code's names into a plan. *broken: NULL or the outcome of the source that has none ("": not tried). */
mlpbwd_status compile_finish_plan(const sweep *s, json_t *plan, const char **broken, const char **reason,
                                  mlp_message *why);
/* Stores the sources of a plan as blobs, so that it can be compiled again elsewhere. */
mlpbwd_status compile_store_sources(sweep *s, const json_t *plan, mlp_message *why);

/* ---- record.c ---- */
/* Reads the rows of this device and problem. Those in flight when their sweep ended become crashed, which counts only
 * the second time: the first may well have been a kill that had nothing to do with the candidate. One that had been
 * timed before keeps its time then. */
mlpbwd_status record_load(sweep *s, mlp_message *why);
typedef struct record_key {
    int64_t tokens;
    const char *pipeline, *slot, *kernel, *canonical; /* slot and kernel "" : a whole pass */
    const char *source_hash, *signature;              /* a row of other source or launches is another candidate's */
} record_key;
/* Before a candidate is tried: commits this and all before. */
mlpbwd_status record_in_flight(sweep *s, const record_key *key, mlp_message *why);
/* Commits what was put since the last candidate in flight. */
mlpbwd_status record_flush(sweep *s, mlp_message *why);
/* measurement: borrowed; NULL: what every row has. Committed by the next record_in_flight or record_flush. */
mlpbwd_status record_put(sweep *s, const record_key *key, const char *outcome, const char *reason, double median,
                         const json_t *measurement, mlp_message *why);
/* Forgets that the candidate is in flight, after an interruption. */
mlpbwd_status record_not_tried(sweep *s, const record_key *key, mlp_message *why);
/* The stored row {outcome, reason, median, measurement} if it holds under these options (same source, launches, driver,
 * compiler and repetitions; limits no shorter than now); borrowed, else NULL. */
json_t *record_find(const sweep *s, const record_key *key);
/* Adds the stored rows of one T to the summary's counts. */
void record_count_known(sweep *s, int64_t tokens);
/* Adds one candidate to the summary's counts, and to "failed" if it failed. */
void record_count(sweep *s, const record_key *key, const char *outcome, const char *reason);
/* {times_us, spread_us, errors, protocol, clock_mhz} and what every row has: {driver, compiler, repetitions, warmup,
 * limits, signature, power limit}. result NULL: only that. errors say the shape they were taken at: of a slot's variant
 * a small one, at whichever T its source and launches were first tried. New reference. */
json_t *record_measurement(const sweep *s, const char *signature, const measure_result *result);

/* ---- plausible.c ---- */
/* NULL, or why such a time cannot be: more flop than the arithmetic units can do at the maximum clock, or more
 * compulsory bytes than the memory delivers. role NULL: the whole pass. text: where the sentence goes. */
const char *plausible_reason(const sweep *s, const char *role, const json_t *plan, const char *slot, int64_t tokens,
                             double us, char *text, size_t capacity);

/* ---- search.c, finals.c ---- */
/* Times the trials of one T until `deadline`. base_us: the default pass, for time limits (0 unknown). */
mlpbwd_status search_slots(sweep *s, int64_t tokens, trial_list *list, double base_us, double deadline,
                           mlp_message *why);
double search_limit(const sweep *s, double pass_us);
/* Of this slot, right, and timed. */
bool trial_competes(const trial *t, const char *pipeline, const char *slot);
/* Microseconds of the fastest of the slot; 0: none has a time. */
double search_best_of_slot(const trial_list *list, const char *pipeline, const char *slot);
/* What is checked at small shapes is checked once a signature: errors found then (the caller's reference, or NULL) are
 * kept if it passed, and *errors becomes a reference to what is known where there are none. */
void search_share_errors(sweep *s, const char *signature, bool passed, json_t **errors);
/* Checks a timed variant at the tuned T, which search_slots leaves to the finals; its row changes if it fails. */
mlpbwd_status search_recheck(sweep *s, int64_t tokens, trial *t, double base_us, mlp_message *why);
/* True when every trial has an outcome (or belongs to another shard and has none yet: then false). */
bool search_complete(const trial_list *list);

/* The default pass: checked and timed. *us < 0 when it failed. */
mlpbwd_status finals_default(sweep *s, int64_t tokens, double *us, mlp_message *why);
/* list: a variant that proves wrong at these tokens is marked so. */
mlpbwd_status finals_run(sweep *s, int64_t tokens, trial_list *list, double default_us, double deadline, bool complete,
                         mlp_message *why);
/* ---- winner.c ---- */
/* The winner of a finished sweep under these templates and options goes into the summary; none: *found = false. */
mlpbwd_status winner_stored(sweep *s, int64_t tokens, bool *found, mlp_message *why);
/* The default plans of the architecture, and their sources, before these are compiled. Of a device with a compiler of
 * its own there are none: its machine code is no architecture's. */
mlpbwd_status winner_plan_defaults(sweep *s, mlp_message *why);
/* Stores them, where missing or stale. */
mlpbwd_status winner_default_rows(sweep *s, mlp_message *why);

#endif
