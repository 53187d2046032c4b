/* Cells of memory: the accesses that a later one may conflict with (after FastTrack: Flanagan and Freund, PLDI 2009).
 */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "shadow.h"

enum { CHILDREN = 4, SLAB_GROUPS = 1024 };

/* ---- children ---- */

void emu_arena_reset(emu_arena *arena) {
    arena->used = 0;
    arena->free = NULL;
}

void emu_arena_free(emu_arena *arena) {
    for (size_t i = 0; i < arena->count; i++)
        free(arena->slabs[i]);
    free(arena->slabs);
    *arena = (emu_arena){.random = 0};
}

static emu_cell *group_new(emu_arena *arena) {
    emu_cell *group = arena->free;
    if (group) {
        arena->free = group->children;
        return group;
    }
    size_t slab = arena->used / SLAB_GROUPS;
    if (slab == arena->capacity) {
        size_t capacity = arena->capacity ? arena->capacity * 2 : 16;
        emu_cell **slabs = realloc(arena->slabs, capacity * sizeof(emu_cell *));
        if (!slabs)
            emu_out_of_memory();
        arena->slabs = slabs;
        arena->capacity = capacity;
    }
    if (slab == arena->count) {
        arena->slabs[slab] = malloc((size_t)SLAB_GROUPS * CHILDREN * sizeof(emu_cell));
        if (!arena->slabs[slab])
            emu_out_of_memory();
        arena->count++;
    }
    return arena->slabs[slab] + arena->used++ % SLAB_GROUPS * CHILDREN;
}

static void join(emu_arena *arena, emu_cell *cell) {
    emu_cell *group = cell->children;
    for (int i = 0; i < CHILDREN; i++)
        if (group[i].last.split)
            join(arena, &group[i]);
    group->children = arena->free;
    arena->free = group;
    memset(cell, 0, sizeof *cell);
}

static void split(emu_arena *arena, emu_cell *cell, uint32_t generation) {
    emu_cell *group = group_new(arena);
    for (int i = 0; i < CHILDREN; i++)
        group[i] = *cell;
    *cell = (emu_cell){.last = {.generation = generation, .split = 1}};
    cell->children = group;
}

/* ---- accesses ---- */

emu_actor emu_actor_of(const emu_thread *thread, uint32_t base, int kind, uintptr_t origin) {
    return (emu_actor){.view = &thread->view,
                       .base = base,
                       .generation = thread->block->cluster->generation,
                       .clock = thread->clock,
                       .origin = (uint32_t)origin,
                       .slot = (uint16_t)emu_slot(thread),
                       .kind = (uint8_t)kind};
}

static inline bool is_own(const emu_record *record, const emu_actor *actor) {
    return record->slot == actor->slot && record->generation == actor->generation;
}

static inline bool is_known(const emu_record *record, const emu_actor *actor) {
    return emu_view_has(actor->view, actor->generation, record->generation, record->slot, record->clock, false);
}

/* Two accesses conflict when one writes, unless both are atomic. */
static inline bool conflict(int a, int b) {
    return ((a | b) & EMU_WRITE) && !(a & b & EMU_ATOMIC);
}

static inline bool is_fine(const emu_record *record, const emu_actor *actor) {
    return record->generation < actor->base || !conflict(record->kind, actor->kind) || is_own(record, actor) ||
           is_known(record, actor);
}

static inline emu_record record_of(const emu_actor *actor) {
    return (emu_record){.generation = actor->generation,
                        .clock = actor->clock,
                        .origin = actor->origin,
                        .slot = actor->slot,
                        .kind = actor->kind};
}

/* May `record` give way to `next`: does whoever comes after `next` come after it, too, and conflict with no less? */
static bool is_covered(const emu_record *record, const emu_record *next, const emu_actor *actor) {
    if (record->generation < actor->base)
        return true;
    if (next->kind != record->kind && next->kind != EMU_WRITE)
        return false;
    return is_own(record, actor) || (record->generation == actor->generation && is_known(record, actor));
}

/* Keeps one more access beside the last write. Without room the new one replaces that of a lane of its warp, or any. */
static void keep(emu_arena *arena, emu_cell *cell, const emu_record *next, const emu_actor *actor) {
    emu_record *victim = NULL;
    for (int i = 0; i < EMU_RECORDS - 1; i++) {
        emu_record *record = &cell->others[i];
        if (is_covered(record, next, actor)) {
            *record = *next;
            return;
        }
        if (record->generation == next->generation && record->slot / EMU_WARP == next->slot / EMU_WARP)
            victim = record;
    }
    if (!victim) {
        arena->random = arena->random * 1664525u + 1013904223u; /* Numerical Recipes' linear congruential generator */
        victim = &cell->others[arena->random >> 16 & 1];
    }
    *victim = *next;
}

static bool touch(emu_arena *arena, emu_cell *cell, const emu_actor *actor, emu_record *other) {
    if (!is_fine(&cell->last, actor)) {
        *other = cell->last;
        return false;
    }
    for (int i = 0; i < EMU_RECORDS - 1; i++) {
        if (!is_fine(&cell->others[i], actor)) {
            *other = cell->others[i];
            return false;
        }
    }
    emu_record next = record_of(actor);
    if (!(actor->kind & EMU_WRITE)) {
        keep(arena, cell, &next, actor);
    } else if (actor->kind & EMU_ATOMIC) {
        emu_record last = cell->last;
        cell->last = next;
        if (last.generation >= actor->base && !is_covered(&last, &next, actor))
            keep(arena, cell, &last, actor);
    } else { /* everything else is ordered before it */
        cell->last = next;
        cell->others[0].generation = cell->others[1].generation = 0;
    }
    return true;
}

static bool access_part(emu_arena *arena, emu_cell *cell, uint32_t size, uint32_t first, uint32_t count,
                        const emu_actor *actor, emu_record *other) {
    bool whole = count == size;
    if (size == 1 || (whole && !cell->last.split))
        return touch(arena, cell, actor, other);
    if (!cell->last.split)
        split(arena, cell, actor->generation);
    uint32_t part = size / CHILDREN, end = first + count;
    for (uint32_t i = first / part; i * part < end; i++) {
        uint32_t from = first > i * part ? first - i * part : 0, to = end - i * part < part ? end - i * part : part;
        if (!access_part(arena, &cell->children[i], part, from, to - from, actor, other))
            return false;
    }
    if (whole && actor->kind == EMU_WRITE) {
        join(arena, cell);
        cell->last = record_of(actor);
    }
    return true;
}

bool emu_cell_access(emu_arena *arena, emu_cell *cell, uint32_t first, uint32_t count, const emu_actor *actor,
                     emu_record *other) {
    if (cell->last.generation < actor->base && cell->last.split)
        memset(cell, 0, sizeof *cell); /* its children were given back with the arena */
    return access_part(arena, cell, EMU_CHUNK, first, count, actor, other);
}

/* ---- before asynchronous operations ---- */

static enum emu_known known_part(const emu_cell *cell, const emu_view *view, uint32_t base, uint32_t generation,
                                 bool writes, bool fenced, emu_record *other) {
    if (cell->last.split) {
        for (int i = 0; i < CHILDREN; i++) {
            enum emu_known how = known_part(&cell->children[i], view, base, generation, writes, fenced, other);
            if (how != EMU_KNOWN)
                return how;
        }
        return EMU_KNOWN;
    }
    for (int i = 0; i < EMU_RECORDS; i++) {
        const emu_record *record = i == 0 ? &cell->last : &cell->others[i - 1];
        if (record->generation < base || (!writes && !(record->kind & EMU_WRITE)))
            continue;
        bool known = emu_view_has(view, generation, record->generation, record->slot, record->clock, false);
        if (known && (!fenced || emu_view_has(view, generation, record->generation, record->slot, record->clock, true)))
            continue;
        *other = *record;
        return known ? EMU_UNFENCED : EMU_UNKNOWN;
    }
    return EMU_KNOWN;
}

enum emu_known emu_cell_known(const emu_cell *cell, const emu_view *view, uint32_t base, uint32_t generation,
                              bool writes, bool fenced, emu_record *other) {
    if (cell->last.split && cell->last.generation < base)
        return EMU_KNOWN;
    return known_part(cell, view, base, generation, writes, fenced, other);
}

void emu_cell_clear(emu_arena *arena, emu_cell *cell, uint32_t base) {
    if (cell->last.split && cell->last.generation >= base)
        join(arena, cell);
    else
        memset(cell, 0, sizeof *cell);
}

/* ---- bits ---- */

bool emu_bits_all_long(const uint8_t *bits, size_t first, size_t count) {
    bits += first / 8;
    first %= 8;
    while (first || count < 8) {
        size_t part = count < 8 - first ? count : 8 - first;
        uint32_t mask = ((1u << part) - 1) << first;
        if ((*bits & mask) != mask)
            return false;
        count -= part;
        if (count == 0)
            return true;
        bits++;
        first = 0;
    }
    for (; count >= 8; count -= 8)
        if (*bits++ != 0xff)
            return false;
    return count == 0 || emu_bits_all_long(bits, 0, count);
}

void emu_bits_set_long(uint8_t *bits, size_t first, size_t count, bool value) {
    for (; count && (first % 8 || count < 8); first++, count--) {
        uint8_t bit = (uint8_t)(1u << first % 8);
        bits[first / 8] = (uint8_t)(value ? bits[first / 8] | bit : bits[first / 8] & ~bit);
    }
    memset(bits + first / 8, value ? 0xff : 0, count / 8);
    size_t done = count & ~(size_t)7;
    if (count > done)
        emu_bits_set_long(bits, first + done, count - done, value);
}
