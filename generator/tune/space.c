/* Which variants a sweep tries. */
#include "variant.h"

#include <stdlib.h>
#include <string.h>

/* A slot with more variants than ALL_OF tries SOME_OF at random, then the neighbours of the best. A sweep that only
 * compiles takes all: which neighbours are wanted is known only when times are, and which ones chance picks only with
 * the seed. */
enum { ALL_OF = 160, SOME_OF = 96, MOST_NEIGHBOURS = 24 };

static bool won_elsewhere(const sweep *s, const variant *v) {
    size_t index;
    json_t *plan;
    json_array_foreach(s->passes_so_far, index, plan) {
        const char *pipeline = json_string_value(json_object_get(plan, "pipeline"));
        if (pipeline && strcmp(pipeline, v->pipeline) == 0 &&
            json_equal(json_object_get(json_object_get(plan, "parameters"), v->slot), v->parameters))
            return true;
    }
    return false;
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
    bool default_taken;   /* of the current slot */
    bool exhaustive_seen; /* the slot of tune_options.exhaustive is one of some pipeline */
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

static bool is_exhaustive(const sweep *s, const char *slot) {
    return s->options.exhaustive && strcmp(s->options.exhaustive, slot) == 0;
}

/* By which a slot's variants are pruned: T below 0 where none may be left out. */
static gen_problem problem_at(const sweep *s, const char *slot, int64_t tokens) {
    return (gen_problem){is_exhaustive(s, slot) ? -1 : tokens, s->options.hidden_size, s->options.intermediate_size,
                         s->units};
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
    mlpbwd_status status = variant_get(s, where, parameters, &v, why);
    if (status != MLPBWD_OK || (v->is_default && c->default_taken))
        return status;
    c->default_taken = c->default_taken || v->is_default;
    return collect(c, v, v->is_default ? 0 : won_elsewhere(s, v) ? 1 : 2, why);
}

static mlpbwd_status take_drafts(sweep *s, const slot_of *where, draft *drafts, size_t count, collection *c,
                                 mlp_message *why) {
    qsort(drafts, count, sizeof *drafts, by_order);
    mlpbwd_status status = MLPBWD_OK;
    const bool all = s->options.compile_only || is_exhaustive(s, where->slot);
    const size_t taken = count > ALL_OF && !all ? SOME_OF : count;
    for (size_t i = 0; i < taken && status == MLPBWD_OK && !sweep_interrupted(s); i++)
        status = take(s, where, drafts[i].parameters, c, why);
    return status;
}

static mlpbwd_status collect_kernel(sweep *s, const slot_of *where, const char *kernel, int64_t tokens, collection *c,
                                    mlp_message *why) {
    json_t *variants = NULL;
    gen_problem problem = problem_at(s, where->slot, tokens);
    mlpbwd_status status = gen_space(s->generator, kernel, where->role, &s->target, &problem, &variants, NULL, why);
    if (status != MLPBWD_OK)
        return status;
    size_t count = json_array_size(variants);
    draft *drafts = calloc(count + 1, sizeof *drafts);
    if (!drafts) {
        json_decref(variants);
        return sweep_no_memory(why);
    }
    for (size_t i = 0; i < count && status == MLPBWD_OK; i++) {
        json_t *parameters = json_array_get(variants, i);
        if (!json_object_get(parameters, "kernel"))
            json_object_set_new(parameters, "kernel", json_string(kernel));
        char *canonical = sweep_canonical_parameters(parameters);
        if (canonical)
            drafts[i] = (draft){parameters, variant_order(s, kernel, canonical)};
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
    c->exhaustive_seen = c->exhaustive_seen || is_exhaustive(s, where.slot);
    mlpbwd_status status = space_default_plan(s, pipeline, &plan, why);
    if (status == MLPBWD_OK) /* also where it is pruned */
        status = take(s, &where, json_object_get(json_object_get(plan, "parameters"), where.slot), c, why);
    json_array_foreach(json_object_get(slot, "kernels"), index, kernel) if (status == MLPBWD_OK) status =
        collect_kernel(s, &where, json_string_value(kernel), tokens, c, why);
    if (status != MLPBWD_OK || !c->items)
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
        if (sweep_interrupted(s)) /* what is listed so far serves what is still to be written down */
            break;
        if (tokens > 0)
            sweep_progress(s, false, "T=%lld: listing the variants of pipeline %s", (long long)tokens, pipeline);
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
    if (status == MLPBWD_OK && s->options.exhaustive && !c.exhaustive_seen && !sweep_interrupted(s))
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                          "no pipeline of %s and this class has a slot '%s' to be exhaustive in; `mlpbwd query --json` "
                          "shows the slots of a plan",
                          s->arch, s->options.exhaustive);
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
    gen_problem problem = problem_at(s, centre->slot, tokens);
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
            status = variant_get(s, &where, parameters, &v, why);
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
