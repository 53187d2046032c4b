/* What finals.c, entrants.c, refine.c and winner.c share. */
#ifndef MLP_FINALS_H
#define MLP_FINALS_H

#include "sweep.h"

/* One whole pass in the finals. */
typedef struct finalist {
    char *pipeline, *canonical; /* canonical: of all slots' parameters */
    json_t *plan;
    char signature[DB_HASH_CAPACITY];
    const char *outcome; /* "ok" until something fails */
    char reason[1024];
    double times[MEASURE_MAX_TIMES], median, clock_mhz;
    int count, turns;
    char protocol[96];
    json_t *errors;
    bool interrupted; /* or never compiled: no row says anything of it */
    bool counted;     /* in the summary */
} finalist;

/* selection: slot -> parameters. */
mlpbwd_status finalist_create(sweep *s, const char *pipeline, const json_t *selection, finalist *f, mlp_message *why);
void finalist_free(finalist *f);
/* Right, and with a median. */
bool finalist_is_timed(const finalist *f);
/* What is checked before times are taken: nothing (it has been), the pass at small shapes, or also at these tokens. */
typedef enum { CHECK_NOTHING, CHECK_SMALL, CHECK_ALL } finalist_check;
/* Adds times. */
mlpbwd_status finalist_measure(sweep *s, int64_t tokens, finalist *f, finalist_check check, int repetitions,
                               double pass_us, mlp_message *why);
mlpbwd_status finalist_conclude(sweep *s, int64_t tokens, finalist *f, mlp_message *why);
json_t *finalist_measurement(const sweep *s, const finalist *f); /* new reference; NULL without memory */

/* Who takes part: the default pass first, the winners of the last T before, each pipeline with the best variant in
 * every slot, and mixes with a close second one. *out is malloc'ed, its items are the caller's too. */
mlpbwd_status entrants_choose(sweep *s, const trial_list *list, finalist **out, size_t *count, mlp_message *why);

/* Looks for a faster pass than `best` by changing one slot at a time, and times passes as a whole (refine.c).
 * *improved: *out is a new finalist without times, the caller's. deadline: in seconds of sweep_now, 0: none. */
mlpbwd_status refine_pass(sweep *s, int64_t tokens, const trial_list *list, const finalist *best, double pass_us,
                          double deadline, finalist *out, bool *improved, mlp_message *why);

/* Stores the winner as the plan of these tokens, and adds it to the summary. */
mlpbwd_status winner_store(sweep *s, int64_t tokens, const finalist *winner, double default_us, bool complete,
                           mlp_message *why);

#endif
