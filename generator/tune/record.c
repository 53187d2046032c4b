/* Rows of candidates: written before and after each is tried, read back by the next sweep. */
#include "sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const ONCE = "in flight when a sweep was interrupted", *const AGAIN = "for the second time",
                         *const TWICE = "in flight when two sweeps were interrupted";

static char *key_text(int64_t tokens, const char *pipeline, const char *slot, const char *kernel,
                      const char *canonical) {
    char *text = NULL;
    return asprintf(&text, "%lld|%s|%s|%s|%s", (long long)tokens, pipeline, slot, kernel, canonical) < 0 ? NULL : text;
}

static char *text_of_key(const record_key *key) {
    return key_text(key->tokens, key->pipeline, key->slot, key->kernel, key->canonical);
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

json_t *record_measurement(const sweep *s, const char *signature, const measure_result *result) {
    json_t *m = json_pack("{s:s,s:s,s:i,s:i,s:f,s:f,s:s}", "driver", s->measurer.device.driver, "compiler",
                          s->compiler_version, "repetitions", s->options.repetitions, "warmup", s->options.warmup,
                          "run_limit_seconds", s->options.run_limit_seconds, "compile_limit_seconds",
                          s->options.compile_limit_seconds, "signature", signature);
    if (m && s->options.replay_path)
        json_object_set_new(m, "replayed", json_true());
    if (!m || !result)
        return m;
    if (s->measurer.device.power_limit_w > 0)
        json_object_set_new(m, "power_limit_w", json_real(s->measurer.device.power_limit_w));
    if (result->errors)
        json_object_set(m, "errors", result->errors);
    if (result->count == 0)
        return m;
    json_t *times = json_array();
    for (int i = 0; i < result->count; i++)
        json_array_append_new(times, json_real(result->times[i]));
    json_object_set_new(m, "times_us", times);
    json_object_set_new(m, "spread_us", json_real(measure_mad(result->times, result->count)));
    json_object_set_new(m, "protocol", json_string(result->protocol));
    json_object_set_new(m, "clock_mhz", json_real(result->clock_mhz));
    return m;
}

/* ---- reading ---- */

static void note_failed_source(sweep *s, const db_candidate *row, const json_t *measurement) {
    bool failed = strcmp(row->outcome, "compile_failed") == 0 || strcmp(row->outcome, "compile_timeout") == 0 ||
                  (row->device_name[0] == '\0' && strcmp(row->outcome, "crashed") == 0);
    /* another compiler may well accept it */
    if (!failed || strcmp(text_of(measurement, "compiler"), s->compiler_version) != 0 || s->options.retry_failed)
        return;
    json_t *failures = json_object_get(s->known, "failed sources");
    if (!failures) {
        failures = json_object();
        json_object_set_new(s->known, "failed sources", failures);
    }
    const json_t *limit = json_object_get(measurement, "compile_limit_seconds");
    json_object_set_new(
        failures, row->source_hash,
        json_pack("{s:s,s:s,s:f}", "outcome", row->outcome, "reason", row->reason, "limit", json_number_value(limit)));
}

static mlpbwd_status note_row(void *user, const db_candidate *row, mlp_message *why) {
    sweep *s = user;
    json_t *measurement = json_loads(row->measurement[0] ? row->measurement : "{}", 0, NULL);
    char *key = key_text(row->tokens, row->pipeline, row->slot, row->kernel, row->parameters);
    json_t *stored = json_pack("{s:s,s:s,s:f,s:s,s:s,s:o?}", "outcome", row->outcome, "reason", row->reason, "median",
                               row->median_us, "source_hash", row->source_hash, "code_hash", row->code_hash,
                               "measurement", measurement);
    bool noted = key && stored && json_object_set_new(s->known, key, stored) == 0;
    if (noted)
        note_failed_source(s, row, measurement);
    free(key);
    return noted ? MLPBWD_OK : sweep_no_memory(why);
}

typedef struct flights {
    db_candidate *rows; /* deep copies */
    size_t count;
} flights;

static const db_candidate *const ANY =
    &(db_candidate){.units = -1, .tokens = -1, .hidden_size = -1, .intermediate_size = -1, .accuracy = -1};

static db_candidate rows_of_sweep(const sweep *s) {
    db_candidate like = *ANY;
    like.device_name = s->has_measurer ? s->measurer.device.name : "";
    like.arch = s->arch;
    like.units = s->has_measurer ? s->measurer.device.units : 0;
    like.hidden_size = s->options.hidden_size;
    like.intermediate_size = s->options.intermediate_size;
    like.accuracy = s->options.accuracy;
    return like;
}

/* Copies the row's texts: rows cannot be written while they are visited. */
static mlpbwd_status copy_row(void *user, const db_candidate *row, mlp_message *why) {
    flights *f = user;
    db_candidate *more = realloc(f->rows, (f->count + 1) * sizeof *more);
    if (!more)
        return sweep_no_memory(why);
    f->rows = more;
    db_candidate *copy = &more[f->count++];
    *copy = *row;
    const char **texts[] = {&copy->device_name, &copy->arch,       &copy->pipeline,    &copy->slot,
                            &copy->kernel,      &copy->parameters, &copy->source_hash, &copy->measurement,
                            &copy->code_hash,   &copy->date,       &copy->outcome,     &copy->reason};
    bool complete = true;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        *texts[i] = strdup(*texts[i] ? *texts[i] : "");
        complete = complete && *texts[i];
    }
    return complete ? MLPBWD_OK : sweep_no_memory(why);
}

static void free_row(db_candidate *row) {
    free((char *)row->device_name);
    free((char *)row->arch);
    free((char *)row->pipeline);
    free((char *)row->slot);
    free((char *)row->kernel);
    free((char *)row->parameters);
    free((char *)row->source_hash);
    free((char *)row->measurement);
    free((char *)row->code_hash);
    free((char *)row->date);
    free((char *)row->outcome);
    free((char *)row->reason);
}

static mlpbwd_status settle_flights(sweep *s, mlp_message *why) {
    flights f = {NULL, 0};
    db_candidate like = rows_of_sweep(s);
    like.outcome = "in_flight";
    mlpbwd_status status = db_each_candidate(s->database, &like, copy_row, &f, why);
    for (size_t i = 0; i < f.count; i++) {
        if (status == MLPBWD_OK) {
            db_candidate row = f.rows[i];
            bool again = strcmp(row.reason, AGAIN) == 0;
            row.outcome = row.median_us > 0 && !again ? "ok" : "crashed";
            row.reason = again ? TWICE : ONCE;
            status = db_record_candidate(s->database, &row, why);
        }
        free_row(&f.rows[i]);
    }
    free(f.rows);
    return status;
}

/* Of a sweep without a device only the sources that do not compile are of interest. */
static mlpbwd_status note_compiled_row(void *user, const db_candidate *row, mlp_message *why) {
    (void)why;
    json_t *measurement = json_loads(row->measurement[0] ? row->measurement : "{}", 0, NULL);
    note_failed_source(user, row, measurement);
    json_decref(measurement);
    return MLPBWD_OK;
}

mlpbwd_status record_load(sweep *s, mlp_message *why) {
    mlpbwd_status status = settle_flights(s, why);
    db_candidate like = rows_of_sweep(s);
    if (status == MLPBWD_OK)
        status = db_each_candidate(s->database, &like, note_row, s, why);
    if (status != MLPBWD_OK || !s->has_measurer)
        return status;
    db_candidate compiled = *ANY;
    compiled.device_name = "";
    compiled.arch = s->arch;
    compiled.accuracy = s->options.accuracy;
    return db_each_candidate(s->database, &compiled, note_compiled_row, s, why);
}

static bool is_final(const sweep *s, const json_t *row) {
    static const char *const open[] = {"in_flight", "compiled", "compile_failed", "compile_timeout"};
    const char *outcome = text_of(row, "outcome");
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
        if (strcmp(outcome, open[i]) == 0)
            return false;
    if (strcmp(outcome, "ok") == 0)
        return true;
    if (s->options.retry_failed || strcmp(text_of(row, "reason"), ONCE) == 0)
        return false;
    const json_t *limit = json_object_get(json_object_get(row, "measurement"), "run_limit_seconds");
    return strcmp(outcome, "timeout") != 0 || json_number_value(limit) >= s->options.run_limit_seconds;
}

/* The row of this very source and these launches under these options, whatever its outcome; borrowed, else NULL. */
static json_t *find_same(const sweep *s, const record_key *key) {
    char *text = text_of_key(key);
    json_t *row = text ? json_object_get(s->known, text) : NULL;
    free(text);
    const json_t *m = json_object_get(row, "measurement");
    bool same = row && strcmp(text_of(row, "source_hash"), key->source_hash) == 0 &&
                strcmp(text_of(m, "signature"), key->signature) == 0 &&
                strcmp(text_of(m, "driver"), s->measurer.device.driver) == 0 &&
                strcmp(text_of(m, "compiler"), s->compiler_version) == 0 &&
                json_integer_value(json_object_get(m, "repetitions")) == s->options.repetitions &&
                json_integer_value(json_object_get(m, "warmup")) == s->options.warmup;
    return same ? row : NULL;
}

json_t *record_find(const sweep *s, const record_key *key) {
    json_t *row = find_same(s, key);
    return row && is_final(s, row) ? row : NULL;
}

/* ---- writing ---- */

mlpbwd_status record_flush(sweep *s, mlp_message *why) {
    if (!s->pending)
        return MLPBWD_OK;
    s->pending = false;
    return db_commit(s->database, why);
}

/* An outcome waits for the next candidate's "in flight" and is committed with it: one wait for the disk instead of two,
 * and nothing can go wrong in between but this process's own end. */
static mlpbwd_status write_row(sweep *s, const db_candidate *row, mlp_message *why) {
    mlpbwd_status status = s->pending ? MLPBWD_OK : db_begin(s->database, why);
    if (status != MLPBWD_OK)
        return status;
    s->pending = true;
    status = db_record_candidate(s->database, row, why);
    if (status == MLPBWD_OK && strcmp(row->outcome, "in_flight") == 0)
        status = record_flush(s, why);
    return status;
}

mlpbwd_status record_in_flight(sweep *s, const record_key *key, mlp_message *why) {
    if (s->search_only) /* recorded times cannot crash */
        return MLPBWD_OK;
    json_t *before = find_same(s, key);
    bool timed = strcmp(text_of(before, "outcome"), "ok") == 0;
    json_t *measurement = timed ? json_incref(json_object_get(before, "measurement")) : NULL;
    mlpbwd_status status =
        record_put(s, key, "in_flight", strcmp(text_of(before, "reason"), ONCE) == 0 ? AGAIN : "",
                   timed ? json_number_value(json_object_get(before, "median")) : -1, measurement, why);
    json_decref(measurement);
    return status;
}

mlpbwd_status record_put(sweep *s, const record_key *key, const char *outcome, const char *reason, double median,
                         const json_t *measurement, mlp_message *why) {
    char date[DATE_CAPACITY];
    sweep_date(date);
    json_t *basic = measurement ? NULL : record_measurement(s, key->signature, NULL);
    char *text = sweep_canonical(measurement ? measurement : basic), *known = text_of_key(key);
    const json_t *index = json_object_get(s->sources, key->source_hash);
    db_candidate row = {.device_name = s->has_measurer ? s->measurer.device.name : "",
                        .arch = s->arch,
                        .units = s->has_measurer ? s->measurer.device.units : 0,
                        .tokens = key->tokens,
                        .hidden_size = s->options.hidden_size,
                        .intermediate_size = s->options.intermediate_size,
                        .accuracy = s->options.accuracy,
                        .pipeline = key->pipeline,
                        .slot = key->slot,
                        .kernel = key->kernel,
                        .parameters = key->canonical,
                        .source_hash = key->source_hash,
                        .outcome = outcome,
                        .reason = reason,
                        .median_us = median > 0 ? median : -1,
                        .measurement = text ? text : "",
                        .code_hash = index ? s->source_states[json_integer_value(index)].code : "",
                        .date = date};
    mlpbwd_status status = text && known ? write_row(s, &row, why) : sweep_no_memory(why);
    if (status == MLPBWD_OK)
        json_object_set_new(s->known, known,
                            json_pack("{s:s,s:s,s:f,s:s,s:s,s:O}", "outcome", outcome, "reason", reason, "median",
                                      row.median_us, "source_hash", key->source_hash, "code_hash", row.code_hash,
                                      "measurement", measurement ? measurement : basic));
    free(known);
    free(text);
    json_decref(basic);
    return status;
}

mlpbwd_status record_not_tried(sweep *s, const record_key *key, mlp_message *why) {
    return record_put(s, key, "compiled", "interrupted before it was timed", -1, NULL, why);
}

/* ---- the summary ---- */

static void count(sweep *s, int64_t tokens, const char *pipeline, const char *slot, const char *kernel,
                  const char *parameters, const char *outcome, const char *reason) {
    json_t *counts = json_object_get(s->summary, "candidates");
    json_int_t before = json_integer_value(json_object_get(counts, outcome));
    json_object_set_new(counts, outcome, json_integer(before + 1));
    if (strcmp(outcome, "ok") == 0 || strcmp(outcome, "compiled") == 0 || strcmp(outcome, "in_flight") == 0)
        return;
    json_t *entry =
        json_pack("{s:I,s:s,s:s,s:s,s:s,s:s,s:o}", "tokens", (json_int_t)tokens, "pipeline", pipeline, "slot", slot,
                  "kernel", kernel, "parameters", parameters, "outcome", outcome, "reason", json_string(reason));
    if (entry)
        json_array_append_new(json_object_get(s->summary, "failed"), entry);
}

void record_count(sweep *s, const record_key *key, const char *outcome, const char *reason) {
    count(s, key->tokens, key->pipeline, key->slot, key->kernel, key->canonical, outcome, reason ? reason : "");
}

void record_count_known(sweep *s, int64_t tokens) {
    const char *key;
    json_t *row;
    json_object_foreach(s->known, key, row) {
        char *copy = json_object_get(row, "outcome") ? strdup(key) : NULL, *rest = copy, *field[4] = {NULL};
        for (int i = 0; rest && i < 4; i++)
            field[i] = strsep(&rest, "|");
        if (rest && field[0] && strtoll(field[0], NULL, 10) == tokens)
            count(s, tokens, field[1], field[2], field[3], rest, text_of(row, "outcome"), text_of(row, "reason"));
        free(copy);
    }
}
