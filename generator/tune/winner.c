/* Rows of stored plans: winners, and the default of the architecture. */
#include "finals.h"

#include <stdlib.h>
#include <string.h>

static int64_t token_limit(const json_t *plan, const char *which, int64_t otherwise) {
    const json_t *value = json_object_get(json_object_get(plan, "tokens"), which);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static mlpbwd_status put_row(sweep *s, const db_plan_row *row, const json_t *plan, mlp_message *why) {
    mlpbwd_status status = db_begin(s->database, why);
    if (status == MLPBWD_OK)
        status = compile_store_sources(s, plan, why);
    if (status == MLPBWD_OK)
        status = db_put_plan(s->database, row, why);
    if (status == MLPBWD_OK)
        return db_commit(s->database, why);
    db_rollback(s->database);
    return status;
}

/* partial: device, problem and median; the rest is the plan's. */
static mlpbwd_status put_plan(sweep *s, const db_plan_row *partial, const json_t *plan, const json_t *measurement,
                              mlp_message *why) {
    char date[DATE_CAPACITY];
    sweep_date(date);
    char *text = json_dumps(plan, JSON_COMPACT), *parameters = sweep_canonical(json_object_get(plan, "parameters"));
    char *measured = measurement ? sweep_canonical(measurement) : strdup("");
    db_plan_row row = *partial;
    row.arch = s->arch;
    row.accuracy = s->options.accuracy;
    row.min_tokens = token_limit(plan, "min", 1);
    row.max_tokens = token_limit(plan, "max", 2147483647);
    row.pipeline = json_string_value(json_object_get(plan, "pipeline"));
    row.parameters = parameters;
    row.plan = text;
    row.measurement = measured;
    row.origin = "tune";
    row.date = date;
    mlpbwd_status status = text && parameters && measured ? put_row(s, &row, plan, why) : sweep_no_memory(why);
    free(text);
    free(parameters);
    free(measured);
    return status;
}

static void add_to_summary(sweep *s, int64_t tokens, const char *pipeline, const json_t *parameters, double median,
                           double default_us) {
    json_array_append_new(json_object_get(s->summary, "winners"),
                          json_pack("{s:I,s:s,s:O,s:f,s:o}", "tokens", (json_int_t)tokens, "pipeline", pipeline,
                                    "parameters", parameters, "median_us", median, "default_us",
                                    default_us > 0 ? json_real(default_us) : json_null()));
}

mlpbwd_status winner_store(sweep *s, int64_t tokens, const finalist *winner, double default_us, bool complete,
                           mlp_message *why) {
    char date[DATE_CAPACITY];
    sweep_date(date);
    json_t *measurement = finalist_measurement(s, winner);
    if (!measurement)
        return sweep_no_memory(why);
    json_object_set_new(measurement, "templates", json_string(gen_templates_hash(s->generator)));
    json_object_set_new(measurement, "complete", json_boolean(complete));
    json_object_set_new(measurement, "seed", json_integer((json_int_t)s->options.seed));
    if (s->options.exhaustive)
        json_object_set_new(measurement, "exhaustive", json_string(s->options.exhaustive));
    json_object_set_new(measurement, "default_us", default_us > 0 ? json_real(default_us) : json_null());
    json_object_set_new(measurement, "date", json_string(date));
    db_plan_row row = {.device_name = s->measurer.device.name,
                       .units = s->measurer.device.units,
                       .compute_capability = s->measurer.device.compute_capability,
                       .tokens = tokens,
                       .hidden_size = s->options.hidden_size,
                       .intermediate_size = s->options.intermediate_size,
                       .median_us = winner->median};
    mlpbwd_status status = put_plan(s, &row, winner->plan, measurement, why);
    json_decref(measurement);
    if (status != MLPBWD_OK)
        return status;
    add_to_summary(s, tokens, winner->pipeline, json_object_get(winner->plan, "parameters"), winner->median,
                   default_us);
    json_array_append(s->passes_so_far, winner->plan);
    sweep_progress(s, true, "T=%lld: %s, %.1f us (default %.1f us)", (long long)tokens, winner->pipeline,
                   winner->median, default_us);
    return MLPBWD_OK;
}

/* ---- stored winners ---- */

typedef struct stored {
    const sweep *s;
    json_t *plan, *measurement;
    double median;
} stored;

static mlpbwd_status note_stored(void *user, const db_plan_row *row, mlp_message *why) {
    (void)why;
    stored *found = user;
    json_decref(found->plan);
    json_decref(found->measurement);
    found->plan = row->plan ? json_loads(row->plan, 0, NULL) : NULL;
    found->measurement = row->measurement && row->measurement[0] ? json_loads(row->measurement, 0, NULL) : NULL;
    found->median = row->median_us;
    return MLPBWD_OK;
}

static bool is_text(const json_t *object, const char *key, const char *expected) {
    const char *text = json_string_value(json_object_get(object, key));
    return text && strcmp(text, expected) == 0;
}

static bool is_current(const sweep *s, const json_t *m) {
    return json_is_true(json_object_get(m, "complete")) && is_text(m, "templates", gen_templates_hash(s->generator)) &&
           is_text(m, "driver", s->measurer.device.driver) && is_text(m, "compiler", s->compiler_version) &&
           json_integer_value(json_object_get(m, "seed")) == (json_int_t)s->options.seed &&
           json_integer_value(json_object_get(m, "repetitions")) == s->options.repetitions &&
           json_integer_value(json_object_get(m, "warmup")) == s->options.warmup &&
           (!s->options.exhaustive || is_text(m, "exhaustive", s->options.exhaustive));
}

mlpbwd_status winner_stored(sweep *s, int64_t tokens, bool *found, mlp_message *why) {
    *found = false;
    db_plan_filter filter = {.arch = s->arch,
                             .device_name = s->measurer.device.name,
                             .units = s->measurer.device.units,
                             .accuracy = s->options.accuracy,
                             .tokens = tokens,
                             .hidden_size = s->options.hidden_size,
                             .intermediate_size = s->options.intermediate_size};
    stored row = {.s = s};
    mlpbwd_status status = db_each_plan(s->database, &filter, note_stored, &row, why);
    if (status == MLPBWD_OK && row.plan && is_current(s, row.measurement) && !s->options.retry_failed) {
        *found = true;
        add_to_summary(s, tokens, json_string_value(json_object_get(row.plan, "pipeline")),
                       json_object_get(row.plan, "parameters"), row.median,
                       json_number_value(json_object_get(row.measurement, "default_us")));
        json_array_append(s->passes_so_far, row.plan);
        record_count_known(s, tokens);
        sweep_progress(s, true, "T=%lld: tuned before, %.1f us", (long long)tokens, row.median);
    }
    json_decref(row.plan);
    json_decref(row.measurement);
    return status;
}

mlpbwd_status winner_plan_defaults(sweep *s, mlp_message *why) {
    json_t *plan = NULL;
    if (s->own_compiler || s->search_only)
        return MLPBWD_OK;
    mlpbwd_status status = space_default_plan(s, NULL, &plan, why);
    const char *pipeline = json_string_value(json_object_get(plan, "pipeline"));
    if (status == MLPBWD_OK)
        status = gen_defaults(s->generator, pipeline, &s->target, s->defaults, &s->defaults_count, why);
    s->defaults_plans = json_array();
    for (size_t i = 0; i < s->defaults_count && status == MLPBWD_OK; i++) {
        status = space_plan(s, pipeline, s->defaults[i].selection, &plan, why);
        if (status == MLPBWD_OK && json_array_append_new(s->defaults_plans, plan) != 0)
            status = sweep_no_memory(why);
    }
    return status;
}

/* tokens: of the row, by which those of an architecture and class are told apart. */
static mlpbwd_status put_default(sweep *s, const gen_default *item, int64_t tokens, json_t *plan, mlp_message *why) {
    const char *broken = NULL, *reason = "";
    mlpbwd_status status = compile_finish_plan(s, plan, &broken, &reason, why);
    if (status != MLPBWD_OK)
        return status;
    if (broken) {
        sweep_progress(s, true, "no default plan is stored: %s %s", broken, reason);
        return MLPBWD_OK;
    }
    db_plan_filter filter = {
        .arch = s->arch, .device_name = "", .units = 0, .accuracy = s->options.accuracy, .tokens = tokens};
    stored row = {.s = s};
    json_t *measurement = gen_default_measurement(item);
    json_t *range = json_object_get(plan, "tokens");
    json_object_set_new(range, "min", json_integer((json_int_t)item->min_tokens));
    json_object_set_new(range, "max", json_integer((json_int_t)item->max_tokens));
    status = measurement ? db_each_plan(s->database, &filter, note_stored, &row, why) : sweep_no_memory(why);
    bool same = row.plan && json_equal(row.plan, plan) && json_equal(row.measurement, measurement);
    db_plan_row stored_row = {
        .device_name = "", .compute_capability = s->compute_capability, .tokens = tokens, .median_us = -1};
    if (status == MLPBWD_OK && !same)
        status = put_plan(s, &stored_row, plan, measurement, why);
    json_decref(row.plan);
    json_decref(row.measurement);
    json_decref(measurement);
    return status;
}

mlpbwd_status winner_default_rows(sweep *s, mlp_message *why) {
    mlpbwd_status status = MLPBWD_OK;
    for (size_t i = 0; i < s->defaults_count && status == MLPBWD_OK; i++)
        status = put_default(s, &s->defaults[i], i == 0 ? 0 : s->defaults[i].tokens,
                             json_array_get(s->defaults_plans, i), why);
    return status;
}
