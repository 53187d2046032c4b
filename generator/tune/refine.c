/* Improves the best whole pass, one slot after the other. The search times slots alone; in a pass they share the device
 * with what runs beside them and find its caches as their predecessors left them, so that a variant which is slower
 * alone may still make the faster pass. Tried are, of each slot, the variants that are the fastest alone among those
 * with some value of some parameter: a handful, but different ones. */
#include <stdlib.h>
#include <string.h>

#include "finals.h"

enum { REPETITIONS = 5, LAPS = 2, MOST_RIVALS = 16 };
/* A change is taken when it gains more than GAIN; a variant that alone takes TOO_SLOW times as long as the slot's
 * fastest, and a slot that alone is less than MINOR of the pass, are left. */
static const double GAIN = 0.005, TOO_SLOW = 1.6, MINOR = 0.03;

typedef struct refinement {
    sweep *s;
    int64_t tokens;
    const trial_list *list;
    double pass_us, deadline;
    finalist leader;
    json_t *seen; /* signatures */
    int changes;  /* taken so far */
    bool ended;
} refinement;

/* Is no other variant of the slot with this value faster alone? Of equal ones the first. */
static bool leads_in(const trial_list *list, const trial *t, const char *name, const json_t *value) {
    for (size_t i = 0; i < list->count; i++) {
        const trial *other = &list->items[i];
        if (other == t || !trial_competes(other, t->v->pipeline, t->v->slot) ||
            !json_equal(json_object_get(other->v->parameters, name), value))
            continue;
        if (other->median < t->median || (other->median == t->median && other < t))
            return false;
    }
    return true;
}

static bool leads_somewhere(const trial_list *list, const trial *t) {
    const char *name;
    json_t *value;
    json_object_foreach(t->v->parameters, name, value) if (leads_in(list, t, name, value)) return true;
    return false;
}

static int by_median(const void *a, const void *b) {
    const trial *x = *(const trial *const *)a, *y = *(const trial *const *)b;
    return x->median < y->median ? -1 : x->median > y->median ? 1 : strcmp(x->v->canonical, y->v->canonical);
}

/* The fastest first. */
static size_t find_rivals(const refinement *r, const char *slot, const trial *rivals[MOST_RIVALS]) {
    size_t count = 0;
    const double least = search_best_of_slot(r->list, r->leader.pipeline, slot);
    if (least < MINOR * r->leader.median)
        return 0;
    for (size_t i = 0; i < r->list->count && count < MOST_RIVALS; i++) {
        const trial *t = &r->list->items[i];
        if (trial_competes(t, r->leader.pipeline, slot) && t->median <= TOO_SLOW * least && leads_somewhere(r->list, t))
            rivals[count++] = t;
    }
    qsort(rivals, count, sizeof(const trial *), by_median);
    return count;
}

static bool is_over(refinement *r) {
    if (r->deadline > 0 && sweep_now(r->s) > r->deadline)
        r->s->budget_ended = r->ended = true;
    r->ended = r->ended || sweep_interrupted(r->s);
    return r->ended;
}

/* New times of a pass instead of what it has. The finals check what wins at these tokens, too. */
static mlpbwd_status measure_anew(refinement *r, finalist *f, finalist_check check, mlp_message *why) {
    f->count = 0;
    mlpbwd_status status = finalist_measure(r->s, r->tokens, f, check, REPETITIONS, r->pass_us, why);
    f->median = f->count > 0 ? measure_median(f->times, f->count) : -1;
    return status;
}

/* Times the challenger, and if that is promising both once more, one right behind the other. */
static mlpbwd_status duel(refinement *r, finalist *challenger, bool *wins, mlp_message *why) {
    *wins = false;
    mlpbwd_status status = measure_anew(r, challenger, CHECK_SMALL, why);
    if (status != MLPBWD_OK || !finalist_is_timed(challenger) || challenger->median >= r->leader.median)
        return status;
    status = measure_anew(r, &r->leader, CHECK_NOTHING, why);
    if (status == MLPBWD_OK)
        status = measure_anew(r, challenger, CHECK_NOTHING, why);
    *wins = status == MLPBWD_OK && finalist_is_timed(challenger) && finalist_is_timed(&r->leader) &&
            challenger->median < r->leader.median * (1 - GAIN);
    return status;
}

static mlpbwd_status try_rival(refinement *r, const char *slot, const trial *rival, mlp_message *why) {
    finalist challenger;
    bool wins = false;
    json_t *selection = json_copy(json_object_get(r->leader.plan, "parameters"));
    if (!selection || json_object_set(selection, slot, rival->v->parameters) != 0) {
        json_decref(selection);
        return sweep_no_memory(why);
    }
    mlpbwd_status status = finalist_create(r->s, r->leader.pipeline, selection, &challenger, why);
    json_decref(selection);
    if (status != MLPBWD_OK)
        return status;
    const bool runs = strcmp(challenger.outcome, "ok") == 0 && !challenger.interrupted; /* its machine code is there */
    if (runs && !json_object_get(r->seen, challenger.signature)) {
        json_object_set_new(r->seen, challenger.signature, json_true());
        status = duel(r, &challenger, &wins, why);
        if (status == MLPBWD_OK)
            status = finalist_conclude(r->s, r->tokens, &challenger, why);
    }
    if (status == MLPBWD_OK && wins) {
        finalist old = r->leader;
        r->leader = challenger;
        challenger = old;
        if (r->changes > 0) /* the first is the finals' own, whose row is theirs */
            status = finalist_conclude(r->s, r->tokens, &challenger, why);
        r->changes++;
    }
    finalist_free(&challenger);
    return status;
}

static mlpbwd_status lap(refinement *r, mlp_message *why) {
    mlpbwd_status status = MLPBWD_OK;
    json_t *slots = json_copy(json_object_get(r->leader.plan, "parameters"));
    const char *slot;
    json_t *ignored;
    json_object_foreach(slots, slot, ignored) {
        const trial *rivals[MOST_RIVALS];
        size_t count = find_rivals(r, slot, rivals);
        for (size_t i = 0; i < count && status == MLPBWD_OK && !is_over(r); i++)
            status = try_rival(r, slot, rivals[i], why);
    }
    json_decref(slots);
    return status;
}

mlpbwd_status refine_pass(sweep *s, int64_t tokens, const trial_list *list, const finalist *best, double pass_us,
                          double deadline, finalist *out, bool *improved, mlp_message *why) {
    refinement r = {.s = s, .tokens = tokens, .list = list, .pass_us = pass_us, .deadline = deadline};
    *improved = false;
    mlpbwd_status status =
        finalist_create(s, best->pipeline, json_object_get(best->plan, "parameters"), &r.leader, why);
    if (status != MLPBWD_OK)
        return status;
    r.seen = json_object();
    json_object_set_new(r.seen, r.leader.signature, json_true());
    status = measure_anew(&r, &r.leader, CHECK_NOTHING, why);
    const double before = r.leader.median;
    for (int i = 0, had = -1;
         i < LAPS && r.changes > had && status == MLPBWD_OK && finalist_is_timed(&r.leader) && !is_over(&r); i++) {
        had = r.changes;
        status = lap(&r, why);
    }
    json_decref(r.seen);
    *improved = status == MLPBWD_OK && r.changes > 0;
    if (*improved) {
        sweep_progress(s, true, "T=%lld: changes beside each other, %.1f us before, %.1f after", (long long)tokens,
                       before, r.leader.median);
        r.leader.count = r.leader.turns = 0; /* the finals time it with the others */
        *out = r.leader;
    } else {
        finalist_free(&r.leader);
    }
    return status;
}
