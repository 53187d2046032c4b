/* Which variants a sweep tries. */
#include "sweep.h"

#include <stdlib.h>
#include <string.h>

/* A slot with more variants than ALL_OF tries SOME_OF at random, then the neighbours of the best. */
enum { ALL_OF = 160, SOME_OF = 96, MOST_NEIGHBOURS = 24 };

static uint64_t hash_text(uint64_t seed, const char *text) { /* FNV-1a, then a final mix */
    uint64_t hash = 14695981039346656037u ^ (seed * 0x9e3779b97f4a7c15u);
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    hash ^= hash >> 31;
    hash *= 0x94d049bb133111ebu;
    return hash ^ (hash >> 29);
}

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

typedef struct slot_of {
    const char *pipeline, *slot, *role;
} slot_of;

static bool is_default(const sweep *s, const slot_of *where, const json_t *parameters) {
    const json_t *plan = json_object_get(s->default_plans, where->pipeline);
    return json_equal(json_object_get(json_object_get(plan, "parameters"), where->slot), parameters);
}

/* Finds the variant or makes it, with its plan. */
static mlpbwd_status get_variant(sweep *s, const slot_of *where, json_t *parameters, variant **out, mlp_message *why) {
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
                   .order = hash_text(hash_text(s->options.seed, kernel), canonical),
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

static bool won_elsewhere(const sweep *s, const variant *v) {
    const json_t *slot = json_object_get(json_object_get(s->winners_so_far, v->pipeline), v->slot);
    const json_t *kernels = json_object_get(slot, v->kernel);
    return json_object_get(kernels, v->canonical) != NULL;
}

typedef struct ranked {
    variant *v;
    int group; /* 0 default, 1 won at another T, 2 others */
    size_t position, slot;
} ranked;

static int by_rank(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->group != y->group)
        return x->group - y->group;
    if (x->v->order != y->v->order)
        return x->v->order < y->v->order ? -1 : 1;
    return strcmp(x->v->canonical, y->v->canonical);
}

static int by_turn(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

typedef struct collection {
    ranked *items;
    size_t count, capacity, slots;
    bool default_taken; /* of the current slot */
} collection;

static mlpbwd_status collect(collection *c, variant *v, int group, mlp_message *why) {
    if (c->count == c->capacity) {
        size_t capacity = c->capacity ? 2 * c->capacity : 256;
        ranked *more = realloc(c->items, capacity * sizeof *more);
        if (!more)
            return sweep_no_memory(why);
        c->items = more;
        c->capacity = capacity;
    }
    c->items[c->count++] = (ranked){v, group, 0, c->slots};
    return MLPBWD_OK;
}

static gen_problem problem_at(const sweep *s, int64_t tokens) {
    return (gen_problem){tokens, s->options.hidden_size, s->options.intermediate_size, s->units};
}

/* Pseudo-random order of variants that are not plans yet, so that those left out cost no plan. */
typedef struct draft {
    json_t *parameters;
    uint64_t order;
} draft;

static int by_order(const void *a, const void *b) {
    const draft *x = a, *y = b;
    return x->order < y->order ? -1 : x->order > y->order;
}

static mlpbwd_status take(sweep *s, const slot_of *where, json_t *parameters, collection *c, mlp_message *why) {
    variant *v = NULL;
    mlpbwd_status status = get_variant(s, where, parameters, &v, why);
    if (status != MLPBWD_OK || (v->is_default && c->default_taken))
        return status;
    c->default_taken = c->default_taken || v->is_default;
    return collect(c, v, v->is_default ? 0 : won_elsewhere(s, v) ? 1 : 2, why);
}

static mlpbwd_status take_drafts(sweep *s, const slot_of *where, draft *drafts, size_t count, collection *c,
                                 mlp_message *why) {
    qsort(drafts, count, sizeof *drafts, by_order);
    mlpbwd_status status = MLPBWD_OK;
    for (size_t i = 0; i < (count > ALL_OF ? SOME_OF : count) && status == MLPBWD_OK; i++)
        status = take(s, where, drafts[i].parameters, c, why);
    return status;
}

static mlpbwd_status collect_kernel(sweep *s, const slot_of *where, const char *kernel, int64_t tokens, collection *c,
                                    mlp_message *why) {
    json_t *variants = NULL;
    gen_problem problem = problem_at(s, tokens);
    mlpbwd_status status = gen_space(s->generator, kernel, where->role, &s->target, &problem, &variants, NULL, why);
    if (status != MLPBWD_OK)
        return status;
    size_t count = json_array_size(variants);
    draft *drafts = calloc(count + 1, sizeof *drafts);
    if (!drafts)
        status = sweep_no_memory(why);
    for (size_t i = 0; i < count && status == MLPBWD_OK; i++) {
        json_t *parameters = json_array_get(variants, i);
        if (!json_object_get(parameters, "kernel"))
            json_object_set_new(parameters, "kernel", json_string(kernel));
        char *canonical = sweep_canonical_parameters(parameters);
        if (canonical)
            drafts[i] = (draft){parameters, hash_text(hash_text(s->options.seed, kernel), canonical)};
        else
            status = sweep_no_memory(why);
        free(canonical);
    }
    if (status == MLPBWD_OK)
        status = take_drafts(s, where, drafts, count, c, why);
    free(drafts);
    json_decref(variants);
    return status;
}

static mlpbwd_status collect_slot(sweep *s, const char *pipeline, const json_t *slot, int64_t tokens, collection *c,
                                  mlp_message *why) {
    slot_of where = {pipeline, json_string_value(json_object_get(slot, "slot")),
                     json_string_value(json_object_get(slot, "role"))};
    if (!where.slot || !where.role)
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "pipeline %s has a slot without name or role", pipeline);
    size_t first = c->count, index;
    json_t *kernel, *plan = NULL;
    c->default_taken = false;
    mlpbwd_status status = space_default_plan(s, pipeline, &plan, why);
    if (status == MLPBWD_OK) /* also where it is pruned */
        status = take(s, &where, json_object_get(json_object_get(plan, "parameters"), where.slot), c, why);
    json_array_foreach(json_object_get(slot, "kernels"), index, kernel) if (status == MLPBWD_OK) status =
        collect_kernel(s, &where, json_string_value(kernel), tokens, c, why);
    if (status != MLPBWD_OK)
        return status;
    qsort(c->items + first, c->count - first, sizeof *c->items, by_rank);
    for (size_t i = first; i < c->count; i++)
        c->items[i].position = i - first;
    c->slots++;
    return MLPBWD_OK;
}

static mlpbwd_status collect_all(sweep *s, int64_t tokens, collection *c, mlp_message *why) {
    json_t *pipelines = NULL;
    mlpbwd_status status = gen_pipelines_for(s->generator, &s->target, &pipelines, why);
    size_t p, i;
    json_t *name, *slot;
    json_array_foreach(pipelines, p, name) {
        json_t *slots = NULL;
        const char *pipeline = json_string_value(name);
        if (status == MLPBWD_OK)
            status = gen_slots(s->generator, pipeline, &s->target, &slots, why);
        json_array_foreach(slots, i, slot) if (status == MLPBWD_OK) status =
            collect_slot(s, pipeline, slot, tokens, c, why);
        json_decref(slots);
    }
    json_decref(pipelines);
    return status;
}

mlpbwd_status space_trials(sweep *s, int64_t tokens, trial_list *out, mlp_message *why) {
    *out = (trial_list){NULL, 0};
    collection c = {0};
    mlpbwd_status status = collect_all(s, tokens, &c, why);
    if (status == MLPBWD_OK && c.count > 0) {
        qsort(c.items, c.count, sizeof *c.items, by_turn);
        out->items = calloc(c.count, sizeof *out->items);
        if (!out->items)
            status = sweep_no_memory(why);
        for (size_t i = 0; out->items && i < c.count; i++)
            out->items[out->count++] = (trial){.v = c.items[i].v, .median = -1};
    }
    free(c.items);
    return status;
}

/* ---- neighbours ---- */

static size_t differences(const json_t *a, const json_t *b) {
    size_t count = 0;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)a, name, value) count += !json_equal(value, json_object_get(b, name));
    return count;
}

static bool is_listed(const trial_list *list, const variant *v) {
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].v == v)
            return true;
    return false;
}

static mlpbwd_status append(trial_list *list, variant *v, mlp_message *why) {
    trial *more = realloc(list->items, (list->count + 1) * sizeof *more);
    if (!more)
        return sweep_no_memory(why);
    list->items = more;
    list->items[list->count++] = (trial){.v = v, .median = -1};
    return MLPBWD_OK;
}

mlpbwd_status space_neighbours(sweep *s, int64_t tokens, const variant *centre, trial_list *list, mlp_message *why) {
    json_t *variants = NULL;
    gen_problem problem = problem_at(s, tokens);
    mlpbwd_status status =
        gen_space(s->generator, centre->kernel, centre->role, &s->target, &problem, &variants, NULL, why);
    slot_of where = {centre->pipeline, centre->slot, centre->role};
    size_t index, found = 0;
    json_t *parameters;
    if (json_array_size(variants) > ALL_OF) /* else all are listed */
        json_array_foreach(variants, index, parameters) {
            if (status != MLPBWD_OK || found == MOST_NEIGHBOURS || differences(centre->parameters, parameters) != 1)
                continue;
            variant *v = NULL;
            status = get_variant(s, &where, parameters, &v, why);
            if (status != MLPBWD_OK || is_listed(list, v))
                continue;
            status = append(list, v, why);
            found++;
        }
    json_decref(variants);
    return status;
}

void space_free_trials(trial_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].reason);
        json_decref(list->items[i].measurement);
    }
    free(list->items);
    *list = (trial_list){NULL, 0};
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
}
