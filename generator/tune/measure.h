/* Measuring one candidate, by whatever means: the worker process on a device, or recorded times (tests of the search).
 * A measurement never fails the sweep: what goes wrong with a candidate is its outcome. */
#ifndef MLP_MEASURE_H
#define MLP_MEASURE_H

#include <jansson.h>
#include <stdbool.h>

#include "db.h"
#include "device/device.h"
#include "tune.h"

enum { MEASURE_MAX_TIMES = 256 };

typedef struct measure_request {
    int64_t tokens;
    json_t *plan;             /* stored plan, machine code named in "code" */
    const char *slot;         /* NULL: the whole pass */
    const json_t *parameters; /* of the slot, or slot -> parameters: what recorded times go by */
    bool gate_small;          /* check small shapes with tails, both GELU forms, accumulation */
    bool gate_real;           /* check at these tokens, rows of every output against float64, every element written */
    int repetitions;          /* 0: only check */
    int warmup;
    double best_us; /* slower than 1.5 times this: 3 repetitions are enough; 0: none */
    double limit_seconds;
} measure_request;

typedef struct measure_result {
    const char *outcome; /* static text: "ok", "wrong", "spilled", "crashed", "timeout", "device_error" */
    char reason[1024];
    double times[MEASURE_MAX_TIMES];
    int count;
    double clock_mhz;
    char protocol[96];
    json_t *errors;   /* gate_errors_json of the last check and "shape", what it was checked at; NULL; the result's */
    double seconds;   /* that checking and timing took: what limit_seconds bounds */
    bool interrupted; /* not measured, nothing is known */
} measure_result;

typedef struct measurer {
    void *self;
    /* Status not OK: the sweep cannot go on (no worker can be started). */
    mlpbwd_status (*measure)(void *self, const measure_request *request, measure_result *result, mlp_message *why);
    double (*now)(void *self); /* seconds */
    void (*close)(void *self);
    dev_info device;
    char compiler[16]; /* of the device, where it has one of its own; else "" */
} measurer;

void measure_result_free(measure_result *result); /* errors */

/* Starts `mlpbwd __worker` on options->device. database: where machine code is looked up (this process reads it and
 * sends it over). With options->replay_path the device must be one without times of its own, and only checks. */
mlpbwd_status measurer_open_worker(const tune_options *options, db *database, measurer *out, mlp_message *why);
/* Candidates are checked by such a worker and get the times of options->replay_path. */
mlpbwd_status measurer_open_checked_replay(const tune_options *options, db *database, measurer *out, mlp_message *why);
/* options->replay_path:
 * {"device":{"name","arch","units","max_clock_mhz" (or none)},"times":{"SLOT/KERNEL/{canonical parameters}/TOKENS":us
 * or "outcome: reason"}, "passes":{"PIPELINE/{canonical slot ->
 * parameters}/TOKENS":us},"otherwise":us,"seconds_each":s} A whole pass that is not in passes takes the sum of its
 * slots. Time stands still but for seconds_each a measurement (a "timeout": its limit).
 */
mlpbwd_status measurer_open_replay(const tune_options *options, measurer *out, mlp_message *why);

double measure_median(const double *values, int count); /* 0 for none */
double measure_mad(const double *values, int count);    /* median absolute deviation */

#endif
