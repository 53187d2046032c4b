/* Which whole passes enter the finals. */
#include "finals.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ENTRANTS = 12, MOST_DRAFTS = 256, MOST_OF_OTHER_T = 3 };
/* A second variant is close enough to be tried in the mix; a pipeline is too slow to be worth a final. */
static const double CLOSE = 1.05, HOPELESS = 2;

typedef struct entry {
    const char *pipeline;
    json_t *selection;
    double sum; /* of the slots' times: an estimate only, launches of several streams overlap */
    bool pure;  /* best of every slot */
} entry;

typedef struct draft_list {
    entry items[MOST_DRAFTS];
    size_t count;
} draft_list;

static const trial *ranked_trial(const trial_list *list, const char *pipeline, const char *slot, const trial *after) {
    const trial *best = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const trial *t = &list->items[i];
        if (!trial_competes(t, pipeline, slot))
            continue;
        if (after && (t == after || t->median < after->median))
            continue;
        bool earlier =
            !best || t->median < best->median ||
            (t->median == best->median && (t->v->is_default || strcmp(t->v->canonical, best->v->canonical) < 0));
        if (earlier)
            best = t;
    }
    return best;
}

static void add_draft(draft_list *drafts, const char *pipeline, const json_t *selection, double sum, bool pure) {
    if (drafts->count < MOST_DRAFTS)
        drafts->items[drafts->count++] = (entry){pipeline, json_copy((json_t *)selection), sum, pure};
}

static void draft_pipeline(const trial_list *list, const char *pipeline, const json_t *slots, draft_list *drafts) {
    json_t *best = json_object(), *seconds = json_object();
    double sum = 0;
    bool whole = true;
    size_t i;
    json_t *item;
    json_array_foreach(slots, i, item) {
        const char *slot = json_string_value(json_object_get(item, "slot"));
        const trial *first = slot ? ranked_trial(list, pipeline, slot, NULL) : NULL;
        if (!first) {
            whole = false;
            continue;
        }
        json_object_set(best, slot, first->v->parameters);
        sum += first->median;
        const trial *second = ranked_trial(list, pipeline, slot, first);
        if (second && second->median <= CLOSE * first->median)
            json_object_set_new(
                seconds, slot,
                json_pack("{s:O,s:f}", "parameters", second->v->parameters, "more", second->median - first->median));
    }
    if (whole)
        add_draft(drafts, pipeline, best, sum, true);
    const char *slot;
    json_t *second;
    if (whole)
        json_object_foreach(seconds, slot, second) {
            json_t *mix = json_copy(best);
            json_object_set(mix, slot, json_object_get(second, "parameters"));
            add_draft(drafts, pipeline, mix, sum + json_number_value(json_object_get(second, "more")), false);
            json_decref(mix);
        }
    json_decref(best);
    json_decref(seconds);
}

static int by_promise(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->pure != y->pure)
        return x->pure ? -1 : 1;
    return x->sum < y->sum ? -1 : x->sum > y->sum;
}

static bool is_entered(const finalist *list, size_t count, const finalist *f) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].signature, f->signature) == 0)
            return true;
    return false;
}

/* Adds one pass unless it is there already. */
static mlpbwd_status enter(sweep *s, const char *pipeline, const json_t *selection, finalist *list, size_t *count,
                           mlp_message *why) {
    finalist f;
    mlpbwd_status status = finalist_create(s, pipeline, selection, &f, why);
    if (status != MLPBWD_OK)
        return status;
    if (*count == MOST_ENTRANTS || is_entered(list, *count, &f))
        finalist_free(&f);
    else
        list[(*count)++] = f;
    return MLPBWD_OK;
}

static mlpbwd_status enter_all(sweep *s, const trial_list *list, draft_list *drafts, finalist *out, size_t *count,
                               mlp_message *why) {
    json_t *pipelines = NULL, *standard = NULL;
    mlpbwd_status status = gen_pipelines_for(s->generator, &s->target, &pipelines, why);
    if (status == MLPBWD_OK)
        status = space_default_plan(s, NULL, &standard, why);
    if (status == MLPBWD_OK)
        status = enter(s, json_string_value(json_object_get(standard, "pipeline")),
                       json_object_get(standard, "parameters"), out, count, why);
    /* what won at the last T before: its slots suit each other, which their times alone do not show */
    size_t i, others = json_array_size(s->passes_so_far);
    for (i = others; i-- > 0 && others - i <= MOST_OF_OTHER_T && status == MLPBWD_OK;) {
        const json_t *plan = json_array_get(s->passes_so_far, i);
        status = enter(s, json_string_value(json_object_get(plan, "pipeline")), json_object_get(plan, "parameters"),
                       out, count, why);
    }
    json_t *name;
    json_array_foreach(pipelines, i, name) {
        json_t *slots = NULL;
        if (status == MLPBWD_OK)
            status = gen_slots(s->generator, json_string_value(name), &s->target, &slots, why);
        if (status == MLPBWD_OK)
            draft_pipeline(list, json_string_value(name), slots, drafts);
        json_decref(slots);
    }
    qsort(drafts->items, drafts->count, sizeof *drafts->items, by_promise);
    double least = 0;
    for (size_t d = 0; d < drafts->count; d++)
        if (least == 0 || drafts->items[d].sum < least)
            least = drafts->items[d].sum;
    for (size_t d = 0; d < drafts->count && status == MLPBWD_OK; d++)
        if (drafts->items[d].sum <= HOPELESS * least)
            status = enter(s, drafts->items[d].pipeline, drafts->items[d].selection, out, count, why);
    json_decref(pipelines);
    return status;
}

mlpbwd_status entrants_choose(sweep *s, const trial_list *list, finalist **out, size_t *count, mlp_message *why) {
    *count = 0;
    *out = calloc(MOST_ENTRANTS, sizeof **out);
    draft_list *drafts = calloc(1, sizeof *drafts);
    mlpbwd_status status = *out && drafts ? enter_all(s, list, drafts, *out, count, why) : sweep_no_memory(why);
    for (size_t i = 0; drafts && i < drafts->count; i++)
        json_decref(drafts->items[i].selection);
    free(drafts);
    return status;
}
