/* From noted sources to machine code in the database. */
#include "sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compile_pool.h"

static const char *const NOT_TRIED = "";

static source_state *find_source(const sweep *s, const char *hash) {
    const json_t *index = hash ? json_object_get(s->sources, hash) : NULL;
    return index ? &s->source_states[json_integer_value(index)] : NULL;
}

typedef struct phase {
    sweep *s;
    double deadline, started;
    const char **hashes; /* of the pool's sources */
    source_state **states;
    size_t count, finished;
} phase;

static mlpbwd_status format_of(sweep *s, source_state *state, mlp_message *why) {
    void *bytes = NULL;
    size_t size = 0;
    mlpbwd_status status = db_get_blob(s->database, state->code, &bytes, &size, state->format, why);
    if (status == MLPBWD_OK && bytes)
        state->outcome = "compiled";
    free(bytes);
    return status;
}

/* A source that failed before, with no more time allowed now, fails again without being tried. */
static void recall_failure(const sweep *s, const char *hash, source_state *state) {
    const json_t *failures = json_object_get(s->known, "failed sources"), *row = json_object_get(failures, hash);
    const char *outcome = json_string_value(json_object_get(row, "outcome"));
    if (!outcome)
        return;
    bool late = strcmp(outcome, "compile_timeout") == 0;
    if (late && json_number_value(json_object_get(row, "limit")) < s->options.compile_limit_seconds)
        return;
    const char *reason = json_string_value(json_object_get(row, "reason"));
    state->reason = strdup(reason ? reason : "");
    state->outcome = late ? "compile_timeout" : strcmp(outcome, "crashed") == 0 ? "crashed" : "compile_failed";
}

static mlpbwd_status done(void *user, size_t index, const compile_result *result, mlp_message *why) {
    phase *p = user;
    sweep *s = p->s;
    source_state *state = p->states[index];
    state->outcome = result->outcome;
    free(state->reason);
    state->reason = strdup(result->reason);
    p->finished++;
    mlpbwd_status status = MLPBWD_OK;
    if (strcmp(result->outcome, "compiled") == 0) {
        s->compiled++;
        snprintf(state->format, sizeof state->format, "%s", result->format);
        status = db_begin(s->database, why);
        if (status == MLPBWD_OK)
            status = db_put_blob(s->database, result->format, result->bytes, result->size, state->code, why);
        if (status == MLPBWD_OK)
            status = db_put_compiled(s->database, p->hashes[index], s->arch, s->compiler_version, state->code,
                                     result->log, why);
        if (status == MLPBWD_OK)
            status = db_commit(s->database, why);
        else
            db_rollback(s->database);
    }
    double each = (sweep_now(s) - p->started) / (double)p->finished;
    sweep_progress(s, p->finished == p->count, "compiled %zu of %zu sources, ETA %.0f s", p->finished, p->count,
                   each * (double)(p->count - p->finished));
    return status;
}

static bool stop(void *user) {
    const phase *p = user;
    return p->deadline > 0 && sweep_now(p->s) > p->deadline;
}

static mlpbwd_status run_pool(phase *p, mlp_message *why) {
    const sweep *s = p->s;
    compile_source *sources = calloc(p->count + 1, sizeof *sources);
    if (!sources)
        return sweep_no_memory(why);
    for (size_t i = 0; i < p->count; i++)
        sources[i] = (compile_source){p->states[i]->name, p->states[i]->text};
    compile_settings settings = {.compiler = s->compiler,
                                 .target = s->compiler_target,
                                 .jobs = s->options.jobs,
                                 .limit_seconds = s->options.compile_limit_seconds,
                                 .memory_bytes = s->options.compile_memory_bytes,
                                 .interrupted = s->options.interrupted};
    compile_callbacks callbacks = {done, stop, p};
    p->started = sweep_now(s);
    mlpbwd_status status = compile_all(&settings, sources, p->count, &callbacks, why);
    if (status == MLPBWD_OK && p->finished < p->count && !sweep_interrupted(s))
        p->s->budget_ended = true;
    free(sources);
    return status;
}

/* Looks the source up in the caches, else puts it on the pool's list. */
static mlpbwd_status enqueue(phase *p, const char *hash, mlp_message *why) {
    sweep *s = p->s;
    source_state *state = find_source(s, hash);
    if (!state || state->outcome || state->queued)
        return MLPBWD_OK;
    if (s->search_only) { /* nothing runs, so nothing needs machine code */
        state->outcome = "compiled";
        return MLPBWD_OK;
    }
    mlpbwd_status status = db_get_compiled(s->database, hash, s->arch, s->compiler_version, state->code, why);
    if (status == MLPBWD_OK && state->code[0])
        status = format_of(s, state, why);
    if (status == MLPBWD_OK && !state->outcome)
        recall_failure(s, hash, state);
    if (status == MLPBWD_OK && !state->outcome && s->no_compiler) {
        state->outcome = "invalid";
        state->reason = strdup("the database has no machine code of it, and this sweep compiles nothing");
    }
    if (status == MLPBWD_OK && !state->outcome && state->wanted) {
        state->queued = true;
        p->hashes[p->count] = hash;
        p->states[p->count++] = state;
    }
    return status;
}

static mlpbwd_status enqueue_plan(phase *p, const json_t *plan, mlp_message *why) {
    mlpbwd_status status = MLPBWD_OK;
    size_t index;
    json_t *module;
    json_array_foreach(json_object_get(plan, "modules"), index, module) if (status == MLPBWD_OK) status =
        enqueue(p, json_string_value(json_object_get(module, "source")), why);
    return status;
}

static void want(const sweep *s, const json_t *plan) {
    size_t index;
    json_t *module;
    json_array_foreach(json_object_get(plan, "modules"), index, module) {
        source_state *state = find_source(s, json_string_value(json_object_get(module, "source")));
        if (state)
            state->wanted = true;
    }
}

static void want_own(const sweep *s) {
    const char *pipeline;
    json_t *plan;
    json_object_foreach(s->default_plans, pipeline, plan) want(s, plan);
    size_t index;
    json_array_foreach(s->defaults_plans, index, plan) want(s, plan);
    for (size_t i = 0; i < s->variant_count; i++)
        if (sweep_in_shard(s, s->variants[i]))
            want(s, s->variants[i]->plan);
}

mlpbwd_status compile_sources(sweep *s, const trial_list *lists, size_t list_count, double deadline, mlp_message *why) {
    phase p = {.s = s, .deadline = deadline};
    p.hashes = calloc(s->source_count + 1, sizeof *p.hashes);
    p.states = calloc(s->source_count + 1, sizeof(source_state *));
    if (!p.hashes || !p.states) {
        free(p.hashes);
        free(p.states);
        return sweep_no_memory(why);
    }
    want_own(s);
    mlpbwd_status status = MLPBWD_OK;
    bool more = true;
    for (size_t i = 0; more && status == MLPBWD_OK; i++) {
        more = false;
        for (size_t l = 0; l < list_count && status == MLPBWD_OK; l++)
            if (i < lists[l].count) {
                more = true;
                status = enqueue_plan(&p, lists[l].items[i].v->plan, why);
            }
    }
    const char *hash;
    json_t *index;
    json_object_foreach(s->sources, hash, index) if (status == MLPBWD_OK) status = enqueue(&p, hash, why);
    if (status == MLPBWD_OK && p.count > 0)
        status = run_pool(&p, why);
    for (size_t i = 0; i < p.count; i++)
        p.states[i]->queued = false;
    free(p.hashes);
    free(p.states);
    return status;
}

mlpbwd_status compile_finish_plan(const sweep *s, json_t *plan, const char **broken, const char **reason,
                                  mlp_message *why) {
    *broken = NULL;
    *reason = "";
    size_t index;
    json_t *module;
    json_array_foreach(json_object_get(plan, "modules"), index, module) {
        const char *hash = json_string_value(json_object_get(module, "source"));
        const source_state *state = find_source(s, hash);
        if (!state)
            return mlp_fail(why, MLPBWD_UNSUPPORTED, "a plan names the source %.64s, which was never emitted",
                            hash ? hash : "(none)");
        if (!state->outcome || strcmp(state->outcome, "compiled") != 0) {
            *broken = state->outcome ? state->outcome : NOT_TRIED;
            *reason = state->reason ? state->reason : "not compiled yet";
            return MLPBWD_OK;
        }
        if (state->code[0]) {
            json_object_set_new(module, "code", json_string(state->code));
            json_object_set_new(module, "code_format", json_string(state->format));
            if (s->own_compiler) /* not what the architecture's file names */
                json_object_set_new(module, "compiler", json_string(s->compiler));
        }
    }
    return MLPBWD_OK;
}

mlpbwd_status compile_store_sources(sweep *s, const json_t *plan, mlp_message *why) {
    size_t index;
    json_t *module;
    json_array_foreach(json_object_get(plan, "modules"), index, module) {
        const source_state *state = find_source(s, json_string_value(json_object_get(module, "source")));
        char hash[DB_HASH_CAPACITY];
        if (!state)
            continue;
        mlpbwd_status status = db_put_blob(s->database, "source", state->text, strlen(state->text), hash, why);
        if (status != MLPBWD_OK)
            return status;
    }
    return MLPBWD_OK;
}
