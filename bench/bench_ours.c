/* Our own plan: the whole pass, and each slot alone. */
#include <string.h>

#include "bench_run.h"

dev_timing bench_timing(bench_run *run) {
    return (dev_timing){.microseconds = run->times,
                        .repetitions = (int)run->options->repetitions,
                        .warmup = (int)run->options->warmup,
                        .cold = !run->options->warm};
}

json_t *bench_timing_json(bench_run *run, dev_timing *timing, mlpbwd_status status, const mlp_message *why) {
    if (status != MLPBWD_OK) {
        return json_pack("{s:s}", "error", why->text);
    }
    json_t *times = json_array();
    for (int i = 0; i < timing->repetitions; i++) {
        (void)json_array_append_new(times, json_real(timing->microseconds[i]));
    }
    double spread = 0.0;
    double median = bench_median(timing->microseconds, (size_t)timing->repetitions, &spread);
    (void)snprintf(run->protocol, sizeof run->protocol, "%s", timing->protocol);
    return json_pack("{s:f, s:f, s:f, s:o}", "median_us", median, "spread_us", spread, "clock_mhz", timing->clock_mhz,
                     "times_us", times);
}

typedef struct pass {
    const plan_image *image;
    mlpbwd_tensors tensors;
    void *workspace;
    const char *slot;
} pass;

static mlpbwd_status enqueue(void *user, dev_stream stream, mlp_message *why) {
    const pass *work = user;
    return plan_image_run(work->image, &work->tensors, work->workspace, work->slot, stream, why);
}

static json_t *time_pass(bench_run *run, pass *work) {
    mlp_message why = {""};
    dev_timing timing = bench_timing(run);
    mlpbwd_status status = dev_time(run->source.context, enqueue, work, &timing, &why);
    return bench_timing_json(run, &timing, status, &why);
}

static json_t *time_slots(bench_run *run, pass *work) {
    json_t *slots = json_object();
    for (size_t i = 0; i < plan_image_launch_count(work->image) && *cli_interrupted() == 0; i++) {
        const char *slot = plan_image_launch_slot(work->image, i);
        if (json_object_get(slots, slot) == NULL) {
            work->slot = slot;
            (void)json_object_set_new(slots, slot, time_pass(run, work));
        }
    }
    work->slot = NULL;
    return slots;
}

json_t *bench_time_ours(bench_run *run, int64_t tokens) {
    const cli_options *common = &run->options->common;
    mlpbwd_problem problem = {.batch_size = 1,
                              .seq_len = tokens,
                              .hidden_size = common->hidden_size,
                              .intermediate_size = common->intermediate_size,
                              .activation = common->activation < 0 ? 0 : common->activation,
                              .accuracy = common->accuracy < 0 ? 0 : common->accuracy};
    mlp_message why = {""};
    json_t *names = NULL;
    ready_plan plan = {0};
    mlpbwd_status status = plan_source_pipelines(&run->source, problem.accuracy, &names, &why);
    if (status == MLPBWD_OK) {
        status = plan_source_load(&run->source, json_string_value(json_array_get(names, 0)), &problem, &plan, &why);
    }
    json_decref(names);
    if (status == MLPBWD_OK) {
        status = bench_data_workspace(&run->data, plan_image_workspace(plan.image), &why);
    }
    if (status != MLPBWD_OK) {
        ready_plan_free(&plan);
        return json_pack("{s:s}", "error", why.text);
    }
    pass work = {plan.image, bench_data_tensors(&run->data), run->data.workspace, NULL};
    json_t *result = time_pass(run, &work);
    (void)json_object_set_new(result, "match", json_string(plan.match));
    (void)json_object_set_new(result, "pipeline", json_string(plan.pipeline));
    (void)json_object_set(result, "parameters", json_object_get(plan.description, "parameters"));
    (void)json_object_set_new(result, "launches", json_integer((json_int_t)plan_image_launch_count(plan.image)));
    (void)json_object_set_new(result, "workspace_bytes", json_integer((json_int_t)plan_image_workspace(plan.image)));
    bool host_peers = run->options->peers && strcmp(run->source.info.backend, "host") == 0;
    if ((run->options->slots || host_peers) && json_object_get(result, "error") == NULL) {
        (void)json_object_set_new(result, "slots", time_slots(run, &work));
    }
    ready_plan_free(&plan);
    return result;
}
