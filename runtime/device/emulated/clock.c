/* Vector clocks: what a thread knows of others' work. Arrays are shared until somebody changes one, since after a
 * barrier all threads know the same. */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "emulator.h"

/* The last joins: threads that left the same barrier join the same pair again and again. Holds references. */
enum { REMEMBERED = 64 };
static struct { emu_clocks *a, *b, *result; } joins[REMEMBERED];

static void *must(void *memory) {
    if (!memory)
        emu_out_of_memory();
    return memory;
}

static emu_clocks *clocks_new(uint32_t count) {
    emu_clocks *clocks = must(calloc(1, sizeof *clocks + count * sizeof clocks->at[0]));
    clocks->references = 1;
    clocks->count = count;
    return clocks;
}

static emu_clocks *clocks_share(emu_clocks *clocks) {
    if (clocks)
        clocks->references++;
    return clocks;
}

static void clocks_drop(emu_clocks *clocks) {
    if (clocks && --clocks->references == 0)
        free(clocks);
}

static emu_clocks *clocks_copy(const emu_clocks *from) {
    size_t bytes = sizeof *from + from->count * sizeof from->at[0];
    emu_clocks *copy = must(malloc(bytes));
    memcpy(copy, from, bytes);
    copy->references = 1;
    return copy;
}

/* Makes *clocks this holder's alone, with room for `count` slots. */
static void clocks_own(emu_clocks **clocks, uint32_t count) {
    if (!*clocks) {
        *clocks = clocks_new(count);
    } else if ((*clocks)->references > 1) {
        emu_clocks *copy = clocks_copy(*clocks);
        clocks_drop(*clocks);
        *clocks = copy;
    }
}

static void clocks_set(emu_clocks **clocks, uint32_t count, uint32_t slot, uint32_t clock) {
    if (*clocks && (*clocks)->at[slot] >= clock)
        return;
    clocks_own(clocks, count);
    (*clocks)->at[slot] = clock;
}

/* The larger of each slot; a itself or b itself where that is it. */
static emu_clocks *clocks_max(emu_clocks *a, emu_clocks *b) {
    bool a_is_it = true, b_is_it = true;
    for (uint32_t i = 0; i < a->count; i++) {
        a_is_it &= a->at[i] >= b->at[i];
        b_is_it &= b->at[i] >= a->at[i];
    }
    if (a_is_it || b_is_it)
        return clocks_share(a_is_it ? a : b);
    emu_clocks *result = clocks_copy(a);
    for (uint32_t i = 0; i < a->count; i++)
        if (b->at[i] > result->at[i])
            result->at[i] = b->at[i];
    return result;
}

void emu_clock_forget(void) {
    for (size_t i = 0; i < REMEMBERED; i++) {
        clocks_drop(joins[i].a);
        clocks_drop(joins[i].b);
        clocks_drop(joins[i].result);
    }
    memset(joins, 0, sizeof joins);
}

static void clocks_join(emu_clocks **into, emu_clocks *from) {
    if (!from || *into == from)
        return;
    if (!*into) {
        *into = clocks_share(from);
        return;
    }
    /* alone with its array: change it in place; a remembered one is not alone */
    if ((*into)->references == 1) {
        emu_clocks *to = *into;
        for (uint32_t i = 0; i < to->count; i++)
            if (from->at[i] > to->at[i])
                to->at[i] = from->at[i];
        return;
    }
    size_t key = ((uintptr_t)*into / 64 * 31 + (uintptr_t)from / 64) % REMEMBERED;
    if (joins[key].a != *into || joins[key].b != from) {
        emu_clocks *result = clocks_max(*into, from);
        clocks_drop(joins[key].a);
        clocks_drop(joins[key].b);
        clocks_drop(joins[key].result);
        joins[key].a = clocks_share(*into);
        joins[key].b = clocks_share(from);
        joins[key].result = result;
    }
    clocks_drop(*into);
    *into = clocks_share(joins[key].result);
}

/* ---- what comes from other clusters ---- */

void emu_foreign_clear(emu_foreign **foreign) {
    emu_foreign *old = *foreign;
    *foreign = NULL;
    if (!old || --old->references > 0)
        return;
    for (uint32_t i = 0; i < old->count; i++) {
        clocks_drop(old->at[i].known);
        clocks_drop(old->at[i].fenced);
    }
    free(old);
}

static emu_foreign *foreign_copy(const emu_foreign *from, uint32_t more) {
    uint32_t count = from ? from->count : 0;
    emu_foreign *copy = must(calloc(1, sizeof *copy + (count + more) * sizeof copy->at[0]));
    copy->references = 1;
    copy->count = count;
    for (uint32_t i = 0; i < count; i++) {
        copy->at[i].cluster = from->at[i].cluster;
        copy->at[i].known = clocks_share(from->at[i].known);
        copy->at[i].fenced = clocks_share(from->at[i].fenced);
    }
    return copy;
}

static const struct emu_foreign_entry *foreign_find(const emu_foreign *foreign, uint32_t cluster) {
    for (uint32_t i = 0; foreign && i < foreign->count; i++)
        if (foreign->at[i].cluster == cluster)
            return &foreign->at[i];
    return NULL;
}

static void foreign_add(emu_foreign **into, uint32_t cluster, emu_clocks *known, emu_clocks *fenced) {
    bool there = foreign_find(*into, cluster) != NULL;
    emu_foreign *copy = foreign_copy(*into, !there);
    emu_foreign_clear(into);
    *into = copy;
    if (!there)
        copy->at[copy->count++].cluster = cluster;
    for (uint32_t i = 0; i < copy->count; i++) {
        if (copy->at[i].cluster != cluster)
            continue;
        clocks_join(&copy->at[i].known, known);
        clocks_join(&copy->at[i].fenced, fenced);
    }
}

static void foreign_join(emu_foreign **into, const emu_foreign *from) {
    if (!from || *into == from)
        return;
    for (uint32_t i = 0; i < from->count; i++)
        foreign_add(into, from->at[i].cluster, from->at[i].known, from->at[i].fenced);
}

/* ---- views ---- */

uint32_t emu_slot(const emu_thread *thread) {
    return thread->block->rank * thread->block->cluster->slots_of_block + thread->number;
}

uint32_t emu_mbarrier_slot(const emu_block *block, uint32_t number) {
    return block->rank * block->cluster->slots_of_block + block->launch->threads + number;
}

void emu_view_init(emu_view *view, uint32_t slots) {
    *view = (emu_view){clocks_new(slots), clocks_new(slots), NULL};
}

void emu_view_copy(emu_view *to, const emu_view *from) {
    *to = (emu_view){clocks_share(from->known), clocks_share(from->fenced), from->foreign};
    if (to->foreign)
        to->foreign->references++;
}

void emu_view_clear(emu_view *view) {
    clocks_drop(view->known);
    clocks_drop(view->fenced);
    emu_foreign_clear(&view->foreign);
    *view = (emu_view){NULL, NULL, NULL};
}

void emu_view_join(emu_view *into, const emu_view *from) {
    clocks_join(&into->known, from->known);
    clocks_join(&into->fenced, from->fenced);
    foreign_join(&into->foreign, from->foreign);
}

void emu_view_learn(emu_view *into, uint32_t slot, uint32_t clock, bool fenced) {
    uint32_t count = into->known ? into->known->count : 0;
    clocks_set(&into->known, count, slot, clock);
    if (fenced)
        clocks_set(&into->fenced, count, slot, clock);
}

bool emu_view_knows(const emu_view *view, uint32_t slot, uint32_t clock) {
    return view->known && view->known->at[slot] >= clock;
}

bool emu_view_knows_fenced(const emu_view *view, uint32_t slot, uint32_t clock) {
    return view->fenced && view->fenced->at[slot] >= clock;
}

bool emu_view_knows_far(const emu_view *view, uint32_t cluster, uint32_t slot, uint32_t clock, bool fenced) {
    const struct emu_foreign_entry *entry = foreign_find(view->foreign, cluster);
    const emu_clocks *clocks = !entry ? NULL : fenced ? entry->fenced : entry->known;
    return clocks && clocks->at[slot] >= clock;
}

void emu_view_of(emu_thread *thread, emu_view *to) {
    emu_view_copy(to, &thread->view);
    clocks_set(&to->known, thread->view.known->count, emu_slot(thread), thread->clock);
    thread->clock++;
}

void emu_release(emu_thread *thread, emu_view *into) {
    emu_view_join(into, &thread->view);
    clocks_set(&into->known, thread->view.known->count, emu_slot(thread), thread->clock);
    thread->clock++;
}

void emu_acquire(emu_thread *thread, const emu_view *from) {
    emu_view_join(&thread->view, from);
}

void emu_proxy_fence(emu_thread *thread) {
    clocks_join(&thread->view.fenced, thread->view.known);
    clocks_set(&thread->view.fenced, thread->view.known->count, emu_slot(thread), thread->clock);
    thread->clock++;
    if (!thread->view.foreign)
        return;
    emu_foreign *fenced = foreign_copy(thread->view.foreign, 0);
    for (uint32_t i = 0; i < fenced->count; i++)
        clocks_join(&fenced->at[i].fenced, fenced->at[i].known);
    emu_foreign_clear(&thread->view.foreign);
    thread->view.foreign = fenced;
}

void emu_release_far(emu_thread *thread, emu_foreign **into) {
    emu_view view;
    emu_view_of(thread, &view);
    foreign_join(into, view.foreign);
    foreign_add(into, thread->block->cluster->generation, view.known, view.fenced);
    emu_view_clear(&view);
}

void emu_acquire_far(emu_thread *thread, const emu_foreign *from) {
    uint32_t own = thread->block->cluster->generation;
    for (uint32_t i = 0; from && i < from->count; i++) {
        if (from->at[i].cluster != own) {
            foreign_add(&thread->view.foreign, from->at[i].cluster, from->at[i].known, from->at[i].fenced);
        } else {
            clocks_join(&thread->view.known, from->at[i].known);
            clocks_join(&thread->view.fenced, from->at[i].fenced);
        }
    }
}
