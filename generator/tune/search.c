/* Times the variants of every slot at one T, each inside a whole pass whose other slots are at their defaults.
 *
 * Every variant's whole pass is checked on small shapes (tails, both GELU forms, accumulation) once per source and
 * launches, and the errors found then go into the rows of every T; at the tuned T the variants that reach the finals
 * are checked, on rows of every output against float64.
 *
 * A candidate may take as long as --run-limit says, which is generous, since nothing is known of it. A family of
 * variants that all hang (one value of a parameter that this device cannot stand, say) would cost that much each, so
 * after the first timeout in a slot the others get only many times what the slowest of the slot that passed took: what
 * is slower than that wins nothing. */
#include "sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LEAST_LIMIT = 20, PASSES_ALLOWED = 30;
static const double LEAST_AFTER_TIMEOUT = 2, SLOWEST_ALLOWED = 20;

double search_limit(const sweep *s, double pass_us) {
    if (s->options.run_limit_seconds > 0)
        return s->options.run_limit_seconds;
    return pass_us > 0 ? fmax(LEAST_LIMIT, PASSES_ALLOWED * pass_us * 1e-6) : 600;
}

static record_key key_of(const trial *t, int64_t tokens) {
    const variant *v = t->v;
    return (record_key){tokens, v->pipeline, v->slot, v->kernel, v->canonical, v->source_hash, v->signature};
}

static void settle(trial *t, const char *outcome, const char *reason, double median, json_t *measurement) {
    free(t->reason);
    json_decref(t->measurement);
    t->outcome = outcome;
    t->reason = strdup(reason);
    t->median = median;
    t->measurement = measurement;
}

static mlpbwd_status settle_and_record(sweep *s, int64_t tokens, trial *t, const char *outcome, const char *reason,
                                       double median, json_t *measurement, mlp_message *why) {
    record_key key = key_of(t, tokens);
    settle(t, outcome, reason, median, measurement);
    record_count(s, &key, outcome, reason);
    return record_put(s, &key, outcome, reason, median, measurement, why);
}

/* A stored row's text as one of the tuner's own words. */
static const char *outcome_word(const char *text) {
    static const char *const words[] = {"ok",      "invalid", "spilled",         "wrong",
                                        "crashed", "timeout", "impossible_time", "device_error"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(text, words[i]) == 0)
            return words[i];
    return "device_error";
}

static bool adopt_stored(sweep *s, int64_t tokens, trial *t) {
    record_key key = key_of(t, tokens);
    const json_t *row = record_find(s, &key);
    const char *outcome = json_string_value(json_object_get(row, "outcome"));
    if (!outcome || strcmp(outcome, "invalid") == 0)
        return false;
    const char *reason = json_string_value(json_object_get(row, "reason"));
    settle(t, outcome_word(outcome), reason ? reason : "", json_number_value(json_object_get(row, "median")),
           json_incref(json_object_get(row, "measurement")));
    json_t *errors = json_object_get(t->measurement, "errors");
    if (strcmp(t->outcome, "ok") == 0 && errors) /* without figures the next T checks again, to have them */
        json_object_set(s->gated, t->v->signature, errors);
    record_count(s, &key, t->outcome, t->reason);
    return true;
}

/* The same source with the same launches was timed in another pipeline. */
static const trial *find_twin(const trial_list *list, const trial *t) {
    for (size_t i = 0; i < list->count; i++) {
        const trial *other = &list->items[i];
        if (other != t && other->outcome && strcmp(other->v->signature, t->v->signature) == 0 &&
            (strcmp(other->outcome, "ok") == 0 || strcmp(other->outcome, "timeout") == 0))
            return other;
    }
    return NULL;
}

bool trial_competes(const trial *t, const char *pipeline, const char *slot) {
    return t->outcome && strcmp(t->outcome, "ok") == 0 && t->median > 0 && strcmp(t->v->slot, slot) == 0 &&
           strcmp(t->v->pipeline, pipeline) == 0;
}

double search_best_of_slot(const trial_list *list, const char *pipeline, const char *slot) {
    double best = 0;
    for (size_t i = 0; i < list->count; i++)
        if (trial_competes(&list->items[i], pipeline, slot) && (best == 0 || list->items[i].median < best))
            best = list->items[i].median;
    return best;
}

/* The limit for another candidate of v's slot. Without one that passed in this sweep there is nothing to go by. */
static double limit_in_slot(const sweep *s, const trial_list *list, const variant *v, double base_us) {
    double limit = search_limit(s, base_us), slowest = 0;
    bool hung = false;
    for (size_t i = 0; i < list->count; i++) {
        const trial *t = &list->items[i];
        if (!t->outcome || strcmp(t->v->slot, v->slot) != 0 || strcmp(t->v->pipeline, v->pipeline) != 0)
            continue;
        hung = hung || strcmp(t->outcome, "timeout") == 0;
        if (strcmp(t->outcome, "ok") == 0)
            slowest = fmax(slowest, t->seconds);
    }
    return hung && slowest > 0 ? fmin(limit, fmax(LEAST_AFTER_TIMEOUT, SLOWEST_ALLOWED * slowest)) : limit;
}

void search_share_errors(sweep *s, const char *signature, bool passed, json_t **errors) {
    json_t *known = json_object_get(s->gated, signature);
    if (passed && (*errors || !known))
        json_object_set_new(s->gated, signature, *errors ? json_incref(*errors) : json_true());
    else if (!*errors && json_is_object(known))
        *errors = json_incref(known);
}

static mlpbwd_status measure(sweep *s, int64_t tokens, const trial_list *list, trial *t, double base_us,
                             mlp_message *why) {
    record_key key = key_of(t, tokens);
    mlpbwd_status status = record_in_flight(s, &key, why);
    if (status != MLPBWD_OK)
        return status;
    measure_request request = {.tokens = tokens,
                               .plan = t->v->plan,
                               .slot = t->v->slot,
                               .parameters = t->v->parameters,
                               .gate_small = !json_object_get(s->gated, t->v->signature),
                               .repetitions = s->options.repetitions,
                               .warmup = s->options.warmup,
                               .best_us = search_best_of_slot(list, t->v->pipeline, t->v->slot),
                               .limit_seconds = limit_in_slot(s, list, t->v, base_us)};
    measure_result *result = calloc(1, sizeof *result);
    if (!result)
        return sweep_no_memory(why);
    status = s->measurer.measure(s->measurer.self, &request, result, why);
    if (status == MLPBWD_OK && result->interrupted) {
        status = record_not_tried(s, &key, why);
    } else if (status == MLPBWD_OK) {
        char text[256];
        double median = result->count > 0 ? measure_median(result->times, result->count) : -1;
        const char *outcome = result->outcome, *reason = result->reason;
        s->timed++;
        t->seconds = result->seconds;
        search_share_errors(s, t->v->signature, strcmp(result->outcome, "ok") == 0, &result->errors);
        if (strcmp(outcome, "ok") == 0) {
            reason = plausible_reason(s, t->v->role, t->v->plan, t->v->slot, tokens, median, text, sizeof text);
            outcome = reason ? "impossible_time" : "ok";
        }
        status = settle_and_record(s, tokens, t, outcome, reason ? reason : "", median,
                                   record_measurement(s, t->v->signature, result), why);
    }
    measure_result_free(result);
    free(result);
    return status;
}

mlpbwd_status search_recheck(sweep *s, int64_t tokens, trial *t, double base_us, mlp_message *why) {
    record_key key = key_of(t, tokens);
    measure_request request = {.tokens = tokens,
                               .plan = t->v->plan,
                               .slot = t->v->slot,
                               .parameters = t->v->parameters,
                               .gate_real = true,
                               .limit_seconds = search_limit(s, base_us)};
    measure_result *result = calloc(1, sizeof *result);
    if (!result)
        return sweep_no_memory(why);
    mlpbwd_status status = record_in_flight(s, &key, why);
    if (status == MLPBWD_OK)
        status = s->measurer.measure(s->measurer.self, &request, result, why);
    if (status == MLPBWD_OK && (result->interrupted || strcmp(result->outcome, "ok") == 0))
        status = record_put(s, &key, t->outcome, t->reason, t->median, t->measurement, why); /* as it was */
    else if (status == MLPBWD_OK)
        status = settle_and_record(s, tokens, t, result->outcome, result->reason, -1,
                                   record_measurement(s, t->v->signature, result), why);
    measure_result_free(result);
    free(result);
    return status;
}

/* The reason why no candidate of this pipeline can be judged: its default pass fails. */
static const char *failed_default(const trial_list *list, const variant *v) {
    for (size_t i = 0; i < list->count; i++) {
        const trial *t = &list->items[i];
        if (t->v->is_default && t->v != v && t->outcome && strcmp(t->v->pipeline, v->pipeline) == 0 &&
            strcmp(t->outcome, "ok") != 0 && strcmp(t->v->slot, v->slot) != 0)
            return t->reason ? t->reason : "";
    }
    return NULL;
}

static mlpbwd_status attempt(sweep *s, int64_t tokens, const trial_list *list, trial *t, double base_us,
                             mlp_message *why) {
    variant *v = t->v;
    if (t->outcome || adopt_stored(s, tokens, t) || !sweep_in_shard(s, v))
        return MLPBWD_OK;
    const char *broken, *reason;
    mlpbwd_status status = compile_finish_plan(s, v->plan, &broken, &reason, why);
    if (status != MLPBWD_OK || (broken && !*broken)) /* not compiled yet: left for the next sweep */
        return status;
    if (broken)
        return settle_and_record(s, tokens, t, broken, reason, -1, record_measurement(s, v->signature, NULL), why);
    const char *bad = failed_default(list, v);
    if (bad) {
        char text[1200];
        snprintf(text, sizeof text, "not tried, because the default pass of pipeline %s fails: %s", v->pipeline, bad);
        return settle_and_record(s, tokens, t, "invalid", text, -1, record_measurement(s, v->signature, NULL), why);
    }
    const trial *twin = find_twin(list, t);
    if (twin)
        return settle_and_record(s, tokens, t, twin->outcome, twin->reason, twin->median,
                                 json_incref(twin->measurement), why);
    return measure(s, tokens, list, t, base_us, why);
}

static mlpbwd_status attempt_from(sweep *s, int64_t tokens, trial_list *list, size_t first, double base_us,
                                  double deadline, mlp_message *why) {
    double started = sweep_now(s);
    for (size_t i = first; i < list->count; i++) {
        trial *t = &list->items[i];
        if (sweep_interrupted(s))
            return MLPBWD_OK;
        if (deadline > 0 && sweep_now(s) > deadline) {
            s->budget_ended = true;
            return MLPBWD_OK;
        }
        mlpbwd_status status = attempt(s, tokens, list, t, base_us, why);
        if (status != MLPBWD_OK)
            return status;
        double now = sweep_now(s), left = (now - started) / (double)(i - first + 1) * (double)(list->count - i - 1);
        if (deadline > 0 && now + left > deadline)
            left = fmax(0, deadline - now);
        if (t->outcome && strcmp(t->outcome, "ok") != 0)
            sweep_progress(s, true, "T=%lld %s %s %s: %s %s", (long long)tokens, t->v->slot, t->v->kernel,
                           t->v->canonical, t->outcome, t->reason ? t->reason : "");
        char figure[40] = "has no time";
        if (t->median >= 0)
            snprintf(figure, sizeof figure, "%.1f us", t->median);
        sweep_progress(s, i + 1 == list->count, "T=%lld: %zu of %zu candidates, %s %s %s, ETA %.0f s",
                       (long long)tokens, i + 1, list->count, t->v->slot, t->v->kernel, figure, left);
    }
    return MLPBWD_OK;
}

static const trial *best_trial(const trial_list *list, const variant *like) {
    const trial *best = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const trial *t = &list->items[i];
        if (t->outcome && strcmp(t->outcome, "ok") == 0 && (!best || t->median < best->median) &&
            strcmp(t->v->slot, like->slot) == 0 && strcmp(t->v->pipeline, like->pipeline) == 0)
            best = t;
    }
    return best;
}

static mlpbwd_status attempt_and_flush(sweep *s, int64_t tokens, trial_list *list, size_t first, double base_us,
                                       double deadline, mlp_message *why) {
    mlpbwd_status status = attempt_from(s, tokens, list, first, base_us, deadline, why);
    return status == MLPBWD_OK ? record_flush(s, why) : status;
}

mlpbwd_status search_slots(sweep *s, int64_t tokens, trial_list *list, double base_us, double deadline,
                           mlp_message *why) {
    mlpbwd_status status = attempt_and_flush(s, tokens, list, 0, base_us, deadline, why);
    for (int round = 0; round < 2 && status == MLPBWD_OK; round++) {
        size_t before = list->count;
        for (size_t i = 0; i < before && status == MLPBWD_OK; i++) {
            const variant *v = list->items[i].v;
            if (best_trial(list, v) != &list->items[i])
                continue;
            if (sweep_interrupted(s))
                return MLPBWD_OK;
            if (deadline > 0 && sweep_now(s) > deadline) {
                s->budget_ended = true;
                return MLPBWD_OK;
            }
            status = space_neighbours(s, tokens, v, list, why);
        }
        if (status != MLPBWD_OK || list->count == before)
            return status;
        status = compile_sources(s, NULL, 0, deadline, why);
        if (status == MLPBWD_OK)
            status = attempt_and_flush(s, tokens, list, before, base_us, deadline, why);
    }
    return status;
}

bool search_complete(const trial_list *list) {
    for (size_t i = 0; i < list->count; i++)
        if (!list->items[i].outcome)
            return false;
    return true;
}
