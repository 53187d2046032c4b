/* Whole passes: the default one, and the best combinations against each other, in turns. */
#include "finals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5 };
/* TIE_BAND: too near for a difference; NEAR: to the fastest, of those that run again beside a refined pass. */
static const double TIE_BAND = 0.01, NEAR = 0.02;

static record_key key_of(const finalist *f, int64_t tokens) {
    return (record_key){tokens, f->pipeline, "", "", f->canonical, f->signature, f->signature};
}

void finalist_free(finalist *f) {
    free(f->pipeline);
    free(f->canonical);
    json_decref(f->plan);
    json_decref(f->errors);
    *f = (finalist){0};
}

bool finalist_is_timed(const finalist *f) {
    return !f->interrupted && strcmp(f->outcome, "ok") == 0 && f->median > 0;
}

mlpbwd_status finalist_create(sweep *s, const char *pipeline, const json_t *selection, finalist *f, mlp_message *why) {
    *f = (finalist){.pipeline = strdup(pipeline), .outcome = "ok"};
    mlpbwd_status status = f->pipeline ? space_plan(s, pipeline, selection, &f->plan, why) : sweep_no_memory(why);
    if (status == MLPBWD_OK) { /* signed before machine code is named in it */
        char *text = sweep_canonical(f->plan);
        f->canonical = sweep_canonical(json_object_get(f->plan, "parameters"));
        if (text)
            db_hash(text, strlen(text), f->signature);
        if (!text || !f->canonical)
            status = sweep_no_memory(why);
        free(text);
    }
    const char *broken = NULL, *reason = "";
    if (status == MLPBWD_OK)
        status = compile_finish_plan(s, f->plan, &broken, &reason, why);
    if (status != MLPBWD_OK) {
        finalist_free(f);
        return status;
    }
    if (broken && !*broken) {
        f->interrupted = true; /* the time for compiling ended first: nothing is known of it */
    } else if (broken) {
        f->outcome = broken;
        snprintf(f->reason, sizeof f->reason, "%s", reason);
    }
    return MLPBWD_OK;
}

static void keep_times(finalist *f, const measure_result *result) {
    for (int i = 0; i < result->count && f->count < MEASURE_MAX_TIMES; i++)
        f->times[f->count++] = result->times[i];
    f->turns += result->count > 0;
    f->clock_mhz = result->clock_mhz;
    snprintf(f->protocol, sizeof f->protocol, "%s", result->protocol);
    if (result->errors) {
        json_decref(f->errors);
        f->errors = json_incref(result->errors);
    }
}

mlpbwd_status finalist_measure(sweep *s, int64_t tokens, finalist *f, finalist_check check, int repetitions,
                               double pass_us, mlp_message *why) {
    record_key key = key_of(f, tokens);
    mlpbwd_status status = record_in_flight(s, &key, why);
    if (status != MLPBWD_OK)
        return status;
    measure_request request = {.tokens = tokens,
                               .plan = f->plan,
                               .parameters = json_object_get(f->plan, "parameters"),
                               .gate_small = check != CHECK_NOTHING && !json_object_get(s->gated, f->signature),
                               .gate_real = check == CHECK_ALL,
                               .repetitions = repetitions,
                               .warmup = repetitions > 1 ? s->options.warmup : 1,
                               .limit_seconds = search_limit(s, pass_us)};
    measure_result *result = calloc(1, sizeof *result);
    if (!result)
        return sweep_no_memory(why);
    status = s->measurer.measure(s->measurer.self, &request, result, why);
    if (status == MLPBWD_OK && result->interrupted) {
        f->interrupted = true;
        status = record_not_tried(s, &key, why);
    } else if (status == MLPBWD_OK) {
        s->timed += result->count > 0;
        f->outcome = result->outcome;
        snprintf(f->reason, sizeof f->reason, "%s", result->reason);
        keep_times(f, result);
        if (strcmp(f->outcome, "ok") == 0 && check != CHECK_NOTHING)
            search_share_errors(s, f->signature, true, &f->errors);
    }
    measure_result_free(result);
    free(result);
    return status;
}

/* Judges the times gathered and writes the candidate's row. */
mlpbwd_status finalist_conclude(sweep *s, int64_t tokens, finalist *f, mlp_message *why) {
    if (f->interrupted)
        return MLPBWD_OK;
    char text[256];
    f->median = f->count > 0 ? measure_median(f->times, f->count) : -1;
    if (strcmp(f->outcome, "ok") == 0) {
        const char *reason = plausible_reason(s, NULL, f->plan, NULL, tokens, f->median, text, sizeof text);
        if (reason) {
            f->outcome = "impossible_time";
            snprintf(f->reason, sizeof f->reason, "%s", reason);
        }
    }
    record_key key = key_of(f, tokens);
    json_t *measurement = finalist_measurement(s, f);
    mlpbwd_status status =
        measurement ? record_put(s, &key, f->outcome, f->reason, f->median, measurement, why) : sweep_no_memory(why);
    json_decref(measurement);
    if (!f->counted)
        record_count(s, &key, f->outcome, f->reason);
    f->counted = true;
    return status;
}

json_t *finalist_measurement(const sweep *s, const finalist *f) {
    measure_result *result = calloc(1, sizeof *result);
    if (!result)
        return NULL;
    result->outcome = f->outcome;
    result->count = f->count;
    memcpy(result->times, f->times, sizeof result->times);
    result->clock_mhz = f->clock_mhz;
    result->errors = f->errors;
    if (f->turns > 1)
        snprintf(result->protocol, sizeof result->protocol, "%.60s, in each of %d turns", f->protocol, f->turns);
    else
        snprintf(result->protocol, sizeof result->protocol, "%s", f->protocol);
    json_t *m = record_measurement(s, f->signature, result);
    free(result);
    return m;
}

mlpbwd_status finals_default(sweep *s, int64_t tokens, double *us, mlp_message *why) {
    json_t *plan = NULL;
    finalist f;
    *us = -1;
    mlpbwd_status status = space_default_plan(s, NULL, &plan, why);
    if (status == MLPBWD_OK)
        status = finalist_create(s, json_string_value(json_object_get(plan, "pipeline")),
                                 json_object_get(plan, "parameters"), &f, why);
    if (status != MLPBWD_OK)
        return status;
    if (f.interrupted && !sweep_interrupted(s))
        sweep_progress(s, true, "T=%lld: the default pass is not compiled yet", (long long)tokens);
    if (strcmp(f.outcome, "ok") == 0 && !f.interrupted)
        status = finalist_measure(s, tokens, &f, CHECK_ALL, 3, 0, why);
    if (status == MLPBWD_OK && strcmp(f.outcome, "ok") == 0 && !f.interrupted)
        *us = measure_median(f.times, f.count);
    if (status == MLPBWD_OK && !f.interrupted) {
        record_key key = key_of(&f, tokens);
        json_t *measurement = finalist_measurement(s, &f);
        status = record_put(s, &key, f.outcome, f.reason, *us, measurement, why);
        json_decref(measurement);
        if (*us < 0)
            sweep_progress(s, true, "T=%lld: the default pass fails: %s %s", (long long)tokens, f.outcome, f.reason);
    }
    finalist_free(&f);
    return status == MLPBWD_OK ? record_flush(s, why) : status;
}

/* ---- the rounds ---- */

/* True when times[] of all have settled the deadline question: at least one round, then as many as fit. */
static mlpbwd_status run_rounds(sweep *s, int64_t tokens, finalist *list, size_t count, double pass_us, double deadline,
                                mlp_message *why) {
    mlpbwd_status status = MLPBWD_OK;
    int each = (s->options.repetitions + ROUNDS - 1) / ROUNDS;
    for (int round = 0; round < ROUNDS && status == MLPBWD_OK; round++) {
        double started = sweep_now(s);
        for (size_t i = 0; i < count && status == MLPBWD_OK; i++) {
            finalist *f = &list[i];
            if (f->interrupted || strcmp(f->outcome, "ok") != 0)
                continue;
            if (sweep_interrupted(s)) {
                f->interrupted = true;
                continue;
            }
            status = finalist_measure(s, tokens, f, round == 0 ? CHECK_ALL : CHECK_NOTHING, each, pass_us, why);
            if (round == 0 && strcmp(f->outcome, "ok") != 0 && !f->interrupted)
                sweep_progress(s, true, "T=%lld: a finalist fails: %s %s", (long long)tokens, f->outcome, f->reason);
        }
        sweep_progress(s, round + 1 == ROUNDS, "T=%lld: finals, round %d of %d, %zu passes", (long long)tokens,
                       round + 1, ROUNDS, count);
        double now = sweep_now(s);
        const bool late = deadline > 0 && now + (now - started) > deadline;
        s->budget_ended = s->budget_ended || (late && round + 1 < ROUNDS);
        if (sweep_interrupted(s) || late)
            break;
    }
    for (size_t i = 0; i < count && status == MLPBWD_OK; i++)
        status = finalist_conclude(s, tokens, &list[i], why);
    return status;
}

/* ---- the choice ---- */

static int differences(const json_t *a, const json_t *b) {
    int count = 0;
    const char *slot, *name;
    json_t *parameters, *value;
    json_object_foreach((json_t *)a, slot, parameters) {
        const json_t *other = json_object_get(b, slot);
        json_object_foreach(parameters, name, value) count += !json_equal(value, json_object_get(other, name));
    }
    return count;
}

static bool preferred(const finalist *a, const finalist *b, const finalist *standard) {
    if (standard) {
        int first = strcmp(a->pipeline, standard->pipeline) != 0, second = strcmp(b->pipeline, standard->pipeline) != 0;
        if (first != second)
            return first < second;
        const json_t *reference = json_object_get(standard->plan, "parameters");
        first = differences(json_object_get(a->plan, "parameters"), reference);
        second = differences(json_object_get(b->plan, "parameters"), reference);
        if (first != second)
            return first < second;
    }
    int order = strcmp(a->pipeline, b->pipeline);
    return order ? order < 0 : strcmp(a->canonical, b->canonical) < 0;
}

static finalist *fastest(finalist *list, size_t count) {
    finalist *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (finalist_is_timed(&list[i]) && (!best || list[i].median < best->median))
            best = &list[i];
    return best;
}

/* Within the tie band of the fastest: fewest departures from the default, then the smaller text. */
static finalist *choose(finalist *list, size_t count, const finalist *standard) {
    finalist *winner = fastest(list, count);
    const double limit = winner ? winner->median * (1 + TIE_BAND) : 0;
    for (size_t i = 0; i < count; i++)
        if (finalist_is_timed(&list[i]) && list[i].median <= limit && preferred(&list[i], winner, standard))
            winner = &list[i];
    return winner;
}

/* Which variant made a mix fail? Each that is not the default is checked alone; *found: one was to blame. */
static mlpbwd_status find_culprits(sweep *s, int64_t tokens, trial_list *list, const finalist *failed, double pass_us,
                                   bool *found, mlp_message *why) {
    mlpbwd_status status = MLPBWD_OK;
    const json_t *selection = json_object_get(failed->plan, "parameters");
    for (size_t i = 0; i < list->count && status == MLPBWD_OK; i++) {
        trial *t = &list->items[i];
        if (!t->outcome || strcmp(t->outcome, "ok") != 0 || t->v->is_default ||
            strcmp(t->v->pipeline, failed->pipeline) != 0 ||
            !json_equal(json_object_get(selection, t->v->slot), t->v->parameters))
            continue;
        status = search_recheck(s, tokens, t, pass_us, why);
        *found = *found || strcmp(t->outcome, "ok") != 0;
    }
    return status;
}

static void free_finalists(finalist *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        finalist_free(&list[i]);
    free(list);
}

/* Refines the fastest; what comes of it then runs against all that were near, and against the default, anew. */
static mlpbwd_status refine(sweep *s, int64_t tokens, const trial_list *list, finalist **finalists, size_t *count,
                            double pass_us, double deadline, mlp_message *why) {
    finalist *best = fastest(*finalists, *count);
    finalist found;
    bool improved = false;
    if (!best)
        return MLPBWD_OK;
    mlpbwd_status status = refine_pass(s, tokens, list, best, pass_us, deadline, &found, &improved, why);
    if (status == MLPBWD_OK) /* it was in flight again */
        status = finalist_conclude(s, tokens, best, why);
    if (status != MLPBWD_OK || !improved) {
        if (improved)
            finalist_free(&found);
        return status;
    }
    const double limit = best->median * (1 + NEAR);
    finalist *more = realloc(*finalists, (*count + 1) * sizeof *more);
    if (!more) {
        finalist_free(&found);
        return sweep_no_memory(why);
    }
    *finalists = more;
    size_t running = 0;
    for (size_t i = 0; i < *count; i++) { /* the default stays the first */
        if (i > 0 && !(more[i].median > 0 && more[i].median <= limit)) {
            finalist_free(&more[i]);
            continue;
        }
        more[i].count = more[i].turns = 0;
        more[running++] = more[i];
    }
    more[running++] = found;
    *count = running;
    return run_rounds(s, tokens, more, running, pass_us, deadline, why);
}

mlpbwd_status finals_run(sweep *s, int64_t tokens, trial_list *list, double default_us, double deadline, bool complete,
                         mlp_message *why) {
    finalist *finalists = NULL;
    size_t count = 0;
    mlpbwd_status status = MLPBWD_OK;
    /* A variant that is right at small shapes and wrong at these tokens is found out here: without it once more. */
    for (bool again = true; again && status == MLPBWD_OK;) {
        free_finalists(finalists, count);
        finalists = NULL;
        count = 0;
        again = false;
        status = entrants_choose(s, list, &finalists, &count, why);
        if (status == MLPBWD_OK)
            status = run_rounds(s, tokens, finalists, count, default_us, deadline, why);
        for (size_t i = 1; i < count && status == MLPBWD_OK && !sweep_interrupted(s); i++)
            if (strcmp(finalists[i].outcome, "ok") != 0 && strcmp(finalists[i].outcome, "impossible_time") != 0)
                status = find_culprits(s, tokens, list, &finalists[i], default_us, &again, why);
    }
    if (status == MLPBWD_OK && complete && !sweep_interrupted(s))
        status = refine(s, tokens, list, &finalists, &count, default_us, deadline, why);
    if (status == MLPBWD_OK)
        status = record_flush(s, why);
    if (status == MLPBWD_OK && !sweep_interrupted(s)) {
        /* the default is the first entrant */
        const finalist *standard = count > 0 ? &finalists[0] : NULL;
        const finalist *winner = choose(finalists, count, standard);
        double standard_us =
            standard && !standard->interrupted && strcmp(standard->outcome, "ok") == 0 ? standard->median : -1;
        if (winner)
            status = winner_store(s, tokens, winner, standard_us, complete && !s->budget_ended, why);
        else
            sweep_progress(s, true, "T=%lld: %s, nothing is stored", (long long)tokens,
                           s->budget_ended ? "the budget ended before a pass was right" : "no pass is right");
    }
    free_finalists(finalists, count);
    return status;
}
