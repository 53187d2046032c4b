/* Variants: each with a plan whose other slots are at their defaults, and the sources of such plans. */
#include "variant.h"

#include <stdlib.h>
#include <string.h>

/* ---- plans and their sources ---- */

static mlpbwd_status note_source(sweep *s, const char *hash, const char *text, const char *name, mlp_message *why) {
    if (json_object_get(s->sources, hash))
        return MLPBWD_OK;
    source_state *more = realloc(s->source_states, (s->source_count + 1) * sizeof *more);
    if (!more)
        return sweep_no_memory(why);
    s->source_states = more;
    more[s->source_count] = (source_state){.text = strdup(text), .name = strdup(name)};
    if (!more[s->source_count].text || !more[s->source_count].name)
        return sweep_no_memory(why);
    json_object_set_new(s->sources, hash, json_integer((json_int_t)s->source_count++));
    return MLPBWD_OK;
}

static const char *kernel_of_slot(const json_t *plan, const char *slot) {
    const json_t *parameters = json_object_get(json_object_get(plan, "parameters"), slot ? slot : "");
    const char *kernel = json_string_value(json_object_get(parameters, "kernel"));
    return kernel ? kernel : "kernel";
}

mlpbwd_status space_plan(sweep *s, const char *pipeline, const json_t *selection, json_t **plan, mlp_message *why) {
    json_t *sources = NULL;
    mlpbwd_status status = gen_build_plan(s->generator, pipeline, &s->target, selection, plan, &sources, why);
    if (status != MLPBWD_OK)
        return status;
    size_t index;
    json_t *module;
    json_array_foreach(json_object_get(*plan, "modules"), index, module) {
        const char *hash = json_string_value(json_object_get(module, "source"));
        const char *text = hash ? json_string_value(json_object_get(sources, hash)) : NULL;
        const char *slot = json_string_value(json_object_get(module, "slot"));
        if (text && status == MLPBWD_OK)
            status = note_source(s, hash, text, kernel_of_slot(*plan, slot), why);
    }
    json_decref(sources);
    if (status != MLPBWD_OK) {
        json_decref(*plan);
        *plan = NULL;
    }
    return status;
}

mlpbwd_status space_default_plan(sweep *s, const char *pipeline, json_t **plan, mlp_message *why) {
    json_t *pipelines = NULL;
    mlpbwd_status status = MLPBWD_OK;
    if (!pipeline) {
        status = gen_pipelines_for(s->generator, &s->target, &pipelines, why);
        pipeline = json_string_value(json_array_get(pipelines, 0));
        if (status == MLPBWD_OK && !pipeline)
            status = mlp_fail(why, MLPBWD_UNSUPPORTED, "no pipeline of these templates runs on %s", s->target.arch);
    }
    *plan = status == MLPBWD_OK ? json_object_get(s->default_plans, pipeline) : NULL;
    if (status == MLPBWD_OK && !*plan) {
        json_t *nothing = json_object();
        status = space_plan(s, pipeline, nothing, plan, why);
        json_decref(nothing);
        if (status == MLPBWD_OK)
            json_object_set_new(s->default_plans, pipeline, *plan);
    }
    json_decref(pipelines);
    return status;
}

/* Source and launches of the variant's slot, without what depends on the rest of the plan. */
static mlpbwd_status sign(variant *v, mlp_message *why) {
    json_t *own = json_array();
    size_t index;
    json_t *launch;
    const json_t *modules = json_object_get(v->plan, "modules");
    json_array_foreach(json_object_get(v->plan, "launches"), index, launch) {
        const char *slot = json_string_value(json_object_get(launch, "slot"));
        if (!slot || strcmp(slot, v->slot) != 0)
            continue;
        const json_t *module = json_array_get(modules, (size_t)json_integer_value(json_object_get(launch, "module")));
        const char *source = json_string_value(json_object_get(module, "source"));
        json_t *copy = json_copy(launch);
        json_object_del(copy, "module");
        json_object_del(copy, "after");
        json_object_del(copy, "stream");
        json_object_set_new(copy, "source", json_string(source ? source : ""));
        json_array_append_new(own, copy);
        if (source && !v->source_hash[0])
            memcpy(v->source_hash, source, strnlen(source, DB_HASH_CAPACITY - 1));
    }
    char *text = sweep_canonical(own);
    json_decref(own);
    if (!text)
        return sweep_no_memory(why);
    db_hash(text, strlen(text), v->signature);
    free(text);
    return MLPBWD_OK;
}

/* ---- variants ---- */

static uint64_t hash_text(uint64_t seed, const char *text) { /* FNV-1a, then a final mix */
    uint64_t hash = 14695981039346656037u ^ (seed * 0x9e3779b97f4a7c15u);
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    hash ^= hash >> 31;
    hash *= 0x94d049bb133111ebu;
    return hash ^ (hash >> 29);
}

uint64_t variant_order(const sweep *s, const char *kernel, const char *canonical) {
    return hash_text(hash_text(s->options.seed, kernel), canonical);
}

static void variant_free(variant *v) {
    if (!v)
        return;
    free(v->pipeline);
    free(v->slot);
    free(v->role);
    free(v->kernel);
    free(v->canonical);
    json_decref(v->parameters);
    json_decref(v->plan);
    free(v);
}

static variant *find_variant(const sweep *s, const char *pipeline, const char *slot, const char *kernel,
                             const char *canonical) {
    for (size_t i = 0; i < s->variant_count; i++) {
        variant *v = s->variants[i];
        if (strcmp(v->canonical, canonical) == 0 && strcmp(v->slot, slot) == 0 && strcmp(v->kernel, kernel) == 0 &&
            strcmp(v->pipeline, pipeline) == 0)
            return v;
    }
    return NULL;
}

static bool is_default(const sweep *s, const slot_of *where, const json_t *parameters) {
    const json_t *plan = json_object_get(s->default_plans, where->pipeline);
    return json_equal(json_object_get(json_object_get(plan, "parameters"), where->slot), parameters);
}

mlpbwd_status variant_get(sweep *s, const slot_of *where, json_t *parameters, variant **out, mlp_message *why) {
    const char *kernel = json_string_value(json_object_get(parameters, "kernel"));
    char *canonical = sweep_canonical_parameters(parameters);
    if (!canonical || !kernel) {
        free(canonical);
        return sweep_no_memory(why);
    }
    *out = find_variant(s, where->pipeline, where->slot, kernel, canonical);
    if (*out) {
        free(canonical);
        return MLPBWD_OK;
    }
    variant *v = calloc(1, sizeof *v);
    variant **more = realloc(s->variants, (s->variant_count + 1) * sizeof(variant *));
    if (more)
        s->variants = more;
    if (!v || !more) {
        free(v);
        free(canonical);
        return sweep_no_memory(why);
    }
    *v = (variant){.pipeline = strdup(where->pipeline),
                   .slot = strdup(where->slot),
                   .role = strdup(where->role),
                   .kernel = strdup(kernel),
                   .parameters = json_incref(parameters),
                   .canonical = canonical,
                   .order = variant_order(s, kernel, canonical),
                   .is_default = is_default(s, where, parameters)};
    mlpbwd_status status = v->pipeline && v->slot && v->role && v->kernel ? MLPBWD_OK : sweep_no_memory(why);
    json_t *selection = json_pack("{s:O}", where->slot, parameters);
    if (status == MLPBWD_OK)
        status = space_plan(s, where->pipeline, selection, &v->plan, why);
    json_decref(selection);
    if (status == MLPBWD_OK)
        status = sign(v, why);
    if (status != MLPBWD_OK) {
        mlp_prefix(why, "pipeline %s, slot %s, kernel %s %s", where->pipeline, where->slot, kernel, canonical);
        variant_free(v);
        return status;
    }
    s->variants[s->variant_count++] = v;
    *out = v;
    return MLPBWD_OK;
}

void space_free(sweep *s) {
    for (size_t i = 0; i < s->variant_count; i++)
        variant_free(s->variants[i]);
    free(s->variants);
    for (size_t i = 0; i < s->source_count; i++) {
        free(s->source_states[i].text);
        free(s->source_states[i].name);
        free(s->source_states[i].reason);
    }
    free(s->source_states);
    json_decref(s->sources);
    json_decref(s->default_plans);
    json_decref(s->defaults_plans);
    gen_defaults_free(s->defaults, s->defaults_count);
}
