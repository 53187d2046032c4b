/* One run of `bench`: what was asked, what it works on, what came out. */
#ifndef MLP_BENCH_RUN_H
#define MLP_BENCH_RUN_H

#include "bench_data.h"
#include "cli.h"
#include "plan_source.h"
#include "roofline.h"

typedef struct bench_options {
    cli_options common; /* first: see cli_parse */
    plan_choice choice;
    bool peers, slots, warm;
    json_t *only; /* names of --peer; empty: all */
    int64_t repetitions, warmup;
    double peer_limit;
    const char *python, *torch_script, *torch_mode;
} bench_options;

typedef struct bench_run {
    const bench_options *options;
    plan_source source;
    bench_data data;
    roofline line;
    json_t *rows, *peers, *notes; /* the result's "rows", "peers", "notes" */
    double *times;                /* room for the repetitions */
    char protocol[96];
} bench_run;

/* The protocol that was asked for, with room for the repetitions (of one timing at a time). */
dev_timing bench_timing(bench_run *run);
/* {"median_us","spread_us","clock_mhz","times_us"}, or {"error"} when the timing failed. New reference. */
json_t *bench_timing_json(bench_run *run, dev_timing *timing, mlpbwd_status status, const mlp_message *why);
/* Our plan at one T: the same with "match", "pipeline", "parameters", "launches", "workspace_bytes" and, where asked
 * for, "slots" (each slot alone); or {"error"}. New reference. */
json_t *bench_time_ours(bench_run *run, int64_t tokens);

#endif
