/* The sweep as a whole. */
#include "tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "names.h"
#include "parallel.h"
#include "sweep.h"

/* Shares of the budget: compiling at most, and of each T's share searching (the rest is for the finals). */
static const double COMPILE_SHARE = 0.5, SEARCH_SHARE = 0.7;
static const size_t COMPILE_MEMORY = (size_t)8 << 30;

static mlpbwd_status fill_in(sweep *s, const tune_options *options, mlp_message *why) {
    tune_options *o = &s->options;
    *o = *options;
    s->search_only = o->replay_path && !o->device;
    if (o->jobs <= 0)
        o->jobs = parallel_threads();
    if (o->compile_limit_seconds <= 0)
        o->compile_limit_seconds = 60;
    if (o->compile_memory_bytes == 0)
        o->compile_memory_bytes = COMPILE_MEMORY;
    if (o->repetitions <= 0)
        o->repetitions = 20;
    if (o->warmup <= 0)
        o->warmup = 3;
    if (o->repetitions > MEASURE_MAX_TIMES / 2)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%d repetitions; at most %d are possible", o->repetitions,
                        MEASURE_MAX_TIMES / 2);
    if (o->shard_count > 1 && (o->shard < 1 || o->shard > o->shard_count))
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "shard %d of %d; the first is 1, the last %d", o->shard,
                        o->shard_count, o->shard_count);
    if (o->hidden_size <= 0 || o->hidden_size % 64 || o->intermediate_size <= 0 || o->intermediate_size % 64)
        return mlp_fail(why, MLPBWD_UNSUPPORTED,
                        "hidden size %lld, intermediate size %lld: both must be positive "
                        "multiples of 64",
                        (long long)o->hidden_size, (long long)o->intermediate_size);
    for (size_t i = 0; i < o->token_count; i++)
        if (o->tokens[i] < 1 || o->tokens[i] > 2147483647)
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "cannot tune %lld tokens; 1 to 2147483647 are possible",
                            (long long)o->tokens[i]);
    if (o->compile_only && !o->arch == !o->device)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "compiling alone needs an architecture or a device, not %s",
                        o->arch ? "both" : "neither");
    if (o->compile_only && o->no_compile)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "a sweep that only compiles cannot do without compiling");
    if (!o->compile_only && o->token_count == 0)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "no number of tokens was given to tune for");
    return MLPBWD_OK;
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* How the database calls the machine code of a compiler for a target (dev_image's format). */
static const char *format_of_code(const char *compiler, const char *target) {
    if (strcmp(compiler, "nvrtc") == 0)
        return strncmp(target, "compute_", strlen("compute_")) == 0 ? "ptx" : "cubin";
    return strcmp(compiler, "emulated") == 0 ? "emulated-so" : "elf-so";
}

/* Machine code is known by its compiler's version: this machine's, or, where none is here or wanted, that of what the
 * database has. */
static mlpbwd_status settle_compiler(sweep *s, mlp_message *why) {
    char ready[sizeof s->compiler_version] = "";
    mlp_message missing = {""};
    mlpbwd_status status = dev_compiler_version(s->compiler, s->compiler_version, sizeof s->compiler_version, &missing);
    if (s->options.compile_only || (status != MLPBWD_OK && status != MLPBWD_UNSUPPORTED)) {
        if (status != MLPBWD_OK)
            *why = missing;
        return status;
    }
    mlpbwd_status found = db_ready_compiler(s->database, s->arch, format_of_code(s->compiler, s->compiler_target),
                                            ready, sizeof ready, why);
    if (found != MLPBWD_OK)
        return found;
    if (status == MLPBWD_OK && !s->options.no_compile) {
        if (ready[0] && strcmp(ready, s->compiler_version) != 0)
            sweep_progress(s, true,
                           "most machine code in the database is from %s and is compiled again by this machine's %s; "
                           "--no-compile takes it as it is",
                           ready, s->compiler_version);
        return MLPBWD_OK;
    }
    if (!ready[0])
        return mlp_fail(why, MLPBWD_UNSUPPORTED,
                        "the database has no machine code for %s, and nothing is compiled (%s): `mlpbwd compile` puts "
                        "it there",
                        s->arch, status == MLPBWD_OK ? "--no-compile" : missing.text);
    memcpy(s->compiler_version, ready, sizeof ready);
    s->no_compiler = true;
    sweep_progress(s, true, "nothing is compiled (%s): machine code of %s in the database serves",
                   status == MLPBWD_OK ? "--no-compile" : missing.text, ready);
    return MLPBWD_OK;
}

/* The first architecture of the device's ladder that the templates have. */
static mlpbwd_status settle_arch(sweep *s, mlp_message *why) {
    json_t *archs = gen_describe_archs(s->generator), *arch = NULL;
    const dev_info *device = &s->measurer.device;
    const bool has_device = s->has_measurer || s->options.device;
    const char *name = has_device ? device->arch : s->options.arch;
    for (size_t i = 0; has_device && i < device->ladder_length && !json_object_get(archs, name); i++)
        name = device->ladder[i];
    arch = json_object_get(archs, name);
    mlpbwd_status status = MLPBWD_OK;
    if (!arch)
        status = mlp_fail(why, MLPBWD_UNSUPPORTED, "no architecture file of the templates is named %s", name);
    if (status == MLPBWD_OK) {
        snprintf(s->arch, sizeof s->arch, "%s", name);
        s->own_compiler = s->measurer.compiler[0];
        snprintf(s->compiler, sizeof s->compiler, "%s",
                 s->own_compiler ? s->measurer.compiler : text_of(arch, "compiler"));
        snprintf(s->compiler_target, sizeof s->compiler_target, "%s", text_of(arch, "target"));
        s->compute_capability = (int)json_integer_value(json_object_get(arch, "compute_capability"));
        s->units = has_device ? device->units : (int)json_integer_value(json_object_get(arch, "units"));
        if (s->options.units > 0)
            s->units = s->options.units;
        if (s->units < 1)
            s->units = parallel_threads();
        s->rate =
            json_number_value(json_object_get(json_object_get(arch, "rates"), accuracy_names[s->options.accuracy]));
        s->memory_bandwidth = json_number_value(json_object_get(arch, "memory_bandwidth"));
        s->target = (gen_target){s->arch, s->options.accuracy};
        if (!s->search_only)
            status = settle_compiler(s, why);
    }
    json_decref(archs);
    return status;
}

/* The figures of a device to compile for; nothing runs there. */
static mlpbwd_status read_device(sweep *s, mlp_message *why) {
    dev *device = NULL;
    dev_context *context = NULL;
    mlpbwd_status status = dev_open(s->options.device, &device, why);
    if (status != MLPBWD_OK)
        return status;
    s->measurer.device = *dev_get_info(device);
    status = dev_context_get(device, &context, why);
    if (status == MLPBWD_OK) {
        snprintf(s->measurer.compiler, sizeof s->measurer.compiler, "%s", dev_compiler_of(context, ""));
        dev_context_release(context);
    }
    dev_release(device);
    return status;
}

static mlpbwd_status open_measurer(sweep *s, mlp_message *why) {
    const tune_options *o = &s->options;
    mlpbwd_status status = s->search_only   ? measurer_open_replay(o, &s->measurer, why)
                           : o->replay_path ? measurer_open_checked_replay(o, s->database, &s->measurer, why)
                                            : measurer_open_worker(o, s->database, &s->measurer, why);
    s->has_measurer = status == MLPBWD_OK;
    return status;
}

static mlpbwd_status open_all(sweep *s, mlp_message *why) {
    const tune_options *o = &s->options;
    if (o->accuracy < 0 || o->accuracy > MLPBWD_ACCURACY_BF16)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "accuracy %d; known are 0 (tf32), 1 (fp32) and 2 (bf16)",
                        o->accuracy);
    s->sources = json_object();
    s->default_plans = json_object();
    s->known = json_object();
    s->gated = json_object();
    s->passes_so_far = json_array();
    s->summary = json_pack("{s:[],s:{},s:[]}", "winners", "candidates", "failed");
    if (!s->sources || !s->default_plans || !s->known || !s->gated || !s->passes_so_far || !s->summary)
        return sweep_no_memory(why);
    mlpbwd_status status = gen_open(o->template_folders, o->template_folder_count, NULL, &s->generator, why);
    if (status == MLPBWD_OK)
        status = db_open(o->database_path, DB_READ_WRITE, &s->database, why);
    if (status == MLPBWD_OK && !o->compile_only)
        status = open_measurer(s, why);
    if (status == MLPBWD_OK && o->compile_only && o->device)
        status = read_device(s, why);
    if (status == MLPBWD_OK)
        status = settle_arch(s, why);
    if (status == MLPBWD_OK)
        status = record_load(s, why);
    return status;
}

static void close_all(sweep *s) {
    if (s->has_measurer)
        s->measurer.close(s->measurer.self);
    space_free(s);
    gen_close(s->generator);
    db_close(s->database);
    json_decref(s->known);
    json_decref(s->gated);
    json_decref(s->passes_so_far);
}

static double deadline_in(const sweep *s, double share) {
    return s->options.budget_seconds > 0 ? s->started + share * s->options.budget_seconds : 0;
}

/* One T, within its fair share of what is left of the budget. */
static mlpbwd_status tune_tokens(sweep *s, int64_t tokens, size_t position, trial_list *list, mlp_message *why) {
    double search_end = 0, end = 0, base_us = -1;
    if (s->options.budget_seconds > 0) {
        double now = sweep_now(s), left = fmax(0, deadline_in(s, 1) - now);
        double share = left / (double)(s->options.token_count - position);
        end = now + share;
        search_end = now + SEARCH_SHARE * share;
    }
    sweep_progress(s, true, "T=%lld (%zu of %zu): %zu candidates", (long long)tokens, position + 1,
                   s->options.token_count, list->count);
    mlpbwd_status status = finals_default(s, tokens, &base_us, why);
    if (status == MLPBWD_OK && !sweep_interrupted(s))
        status = search_slots(s, tokens, list, base_us, search_end, why);
    if (status == MLPBWD_OK && !sweep_interrupted(s))
        status = finals_run(s, tokens, list, base_us, end, search_complete(list), why);
    return status;
}

static int by_tokens(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static mlpbwd_status tune_all(sweep *s, int64_t *tokens, trial_list *lists, mlp_message *why) {
    size_t count = s->options.token_count;
    bool *tuned = calloc(count + 1, sizeof *tuned);
    if (!tuned)
        return sweep_no_memory(why);
    mlpbwd_status status = MLPBWD_OK;
    bool all = true;
    for (size_t i = 0; i < count && status == MLPBWD_OK; i++) {
        status = winner_stored(s, tokens[i], &tuned[i], why);
        if (status == MLPBWD_OK && !tuned[i])
            status = space_trials(s, tokens[i], &lists[i], why);
        all = all && tuned[i];
    }
    json_t *plan = NULL;
    if (status == MLPBWD_OK)
        status = space_default_plan(s, NULL, &plan, why);
    if (status == MLPBWD_OK)
        status = winner_plan_defaults(s, why);
    if (status == MLPBWD_OK)
        status = compile_sources(s, lists, count, deadline_in(s, COMPILE_SHARE), why);
    if (status == MLPBWD_OK && !all && !sweep_interrupted(s))
        status = winner_default_rows(s, why);
    for (size_t i = 0; i < count && status == MLPBWD_OK && !sweep_interrupted(s); i++)
        if (!tuned[i])
            status = tune_tokens(s, tokens[i], i, &lists[i], why);
    free(tuned);
    return status;
}

/* Rows of a sweep without a device: what compiled and what did not. */
static mlpbwd_status record_compiled(sweep *s, const trial_list *list, mlp_message *why) {
    for (size_t i = 0; i < list->count; i++) {
        const variant *v = list->items[i].v;
        const char *broken, *reason;
        record_key key = {0, v->pipeline, v->slot, v->kernel, v->canonical, v->source_hash, v->signature};
        mlpbwd_status status = compile_finish_plan(s, v->plan, &broken, &reason, why);
        if (status != MLPBWD_OK)
            return status;
        if (broken && !*broken)
            continue;
        record_count(s, &key, broken ? broken : "compiled", reason);
        status = record_put(s, &key, broken ? broken : "compiled", reason, -1, NULL, why);
        if (status != MLPBWD_OK)
            return status;
    }
    return MLPBWD_OK;
}

static mlpbwd_status compile_everything(sweep *s, const int64_t *tokens, trial_list *lists, mlp_message *why) {
    size_t count = s->options.token_count > 0 ? s->options.token_count : 1;
    mlpbwd_status status = MLPBWD_OK;
    json_t *plan = NULL;
    for (size_t i = 0; i < count && status == MLPBWD_OK; i++)
        status = space_trials(s, s->options.token_count > 0 ? tokens[i] : -1, &lists[i], why);
    if (status == MLPBWD_OK)
        status = space_default_plan(s, NULL, &plan, why);
    if (status == MLPBWD_OK)
        status = winner_plan_defaults(s, why);
    if (status == MLPBWD_OK)
        status = compile_sources(s, lists, count, deadline_in(s, 1), why);
    if (status == MLPBWD_OK && !sweep_interrupted(s))
        status = winner_default_rows(s, why);
    for (size_t i = 0; i < count && status == MLPBWD_OK;
         i++) /* after an interruption, too: what failed is known then */
        status = record_compiled(s, &lists[i], why);
    return status;
}

static mlpbwd_status run(sweep *s, mlp_message *why) {
    size_t count = s->options.token_count;
    int64_t *tokens = calloc(count + 1, sizeof *tokens);
    trial_list *lists = calloc(count + 1, sizeof *lists);
    mlpbwd_status status = MLPBWD_OK;
    if (!tokens || !lists) {
        status = sweep_no_memory(why);
    } else {
        if (count > 0)
            memcpy(tokens, s->options.tokens, count * sizeof *tokens);
        qsort(tokens, count, sizeof *tokens, by_tokens);
        status = s->options.compile_only ? compile_everything(s, tokens, lists, why) : tune_all(s, tokens, lists, why);
    }
    for (size_t i = 0; lists && i <= count; i++)
        space_free_trials(&lists[i]);
    free(lists);
    free(tokens);
    return status;
}

mlpbwd_status tune_run(const tune_options *options, json_t **summary, mlp_message *why) {
    *summary = NULL;
    double started = monotonic_seconds();
    sweep s = {0};
    mlpbwd_status status = fill_in(&s, options, why);
    if (status == MLPBWD_OK)
        status = open_all(&s, why);
    if (status == MLPBWD_OK) {
        s.started = sweep_now(&s);
        status = run(&s, why);
        /* also after a failure and an interruption, what was measured is kept */
        mlpbwd_status flushed = record_flush(&s, status == MLPBWD_OK ? why : NULL);
        status = status == MLPBWD_OK ? flushed : status;
    }
    if (s.summary) {
        json_object_set_new(s.summary, "timed", json_integer(s.timed));
        json_object_set_new(s.summary, "compiled", json_integer(s.compiled));
        json_object_set_new(s.summary, "interrupted", json_boolean(sweep_interrupted(&s)));
        json_object_set_new(s.summary, "budget_ended", json_boolean(s.budget_ended));
        json_object_set_new(s.summary, "seconds", json_real(monotonic_seconds() - started));
    }
    close_all(&s);
    if (status == MLPBWD_OK)
        *summary = json_incref(s.summary);
    json_decref(s.summary);
    return status;
}
