/* Tensor memory: which accesses are ordered (PTX ISA 9.7.16.6). See tmem.h. */
#include <stdio.h>
#include <stdlib.h>

#include "tmem.h"

tmem_range tmem_range_at(uint32_t address, uint32_t lanes, uint32_t columns) {
    return (tmem_range){.lane = address >> 16, .lanes = lanes, .column = address & 0xffff, .columns = columns};
}

tmem_access *tmem_access_new(emu_thread *thread, enum tmem_kind kind, uintptr_t origin) {
    tmem_access *access = tmem_calloc(1, sizeof *access);
    access->references = 1;
    access->kind = kind;
    access->site = emu_site_of(thread, origin);
    access->slot = emu_slot(emu_warp_first(thread));
    return access;
}

void tmem_access_drop(tmem_access *access) {
    if (access && --access->references == 0)
        free(access);
}

static const char *name_of(enum tmem_kind kind) {
    static const char *const names[] = {"tcgen05.mma", "tcgen05.mma", "tcgen05.ld", "tcgen05.st"};
    return names[kind];
}

/* "columns 0-63 of lanes 32-63" of the block's tensor memory */
static const char *cells_text(tmem_range range, char text[64]) {
    snprintf(text, 64, "columns %u-%u of lanes %u-%u", range.column, range.column + range.columns - 1, range.lane,
             range.lane + range.lanes - 1);
    return text;
}

void tmem_check_allocated(emu_thread *thread, emu_block *block, tmem_range range, const char *what, uintptr_t origin) {
    const struct emu_tmem *tmem = tmem_of(block);
    char cells[64], whose[64] = "";
    cells_text(range, cells);
    if (block != thread->block)
        snprintf(whose, sizeof whose, " of block (%u,%u,%u)", block->index[0], block->index[1], block->index[2]);
    if (range.lane + range.lanes > TMEM_LANES || range.column + range.columns > TMEM_COLUMNS)
        emu_fault(thread, origin, "%s uses %s of tensor memory%s, which has %d lanes and %d columns", what, cells,
                  whose, (int)TMEM_LANES, (int)TMEM_COLUMNS);
    for (uint32_t column = range.column; column < range.column + range.columns; column++) {
        bool there = false;
        for (uint32_t i = 0; i < TMEM_ALLOCATIONS && !there; i++)
            there = column - tmem->allocations[i].first < tmem->allocations[i].columns;
        if (there)
            continue;
        if (tmem->freed[column].origin)
            emu_fault(thread, origin, "%s uses %s of tensor memory%s after column %u was freed (at %s)", what, cells,
                      whose, column, emu_place(block->launch, &tmem->freed[column]));
        emu_fault(thread, origin, "%s uses %s of tensor memory%s, but column %u is not allocated", what, cells, whose,
                  column);
    }
}

/* ---- order ---- */

enum order { ORDERED, IN_FLIGHT, NOT_FENCED_BEFORE, NOT_KNOWN, NOT_FENCED_AFTER };

static enum order order_of_product(const tmem_access *earlier, const emu_thread *later) {
    const tmem_thread *state = later->tcgen05;
    if (emu_view_knows(&state->after, earlier->slot, earlier->clock))
        return ORDERED;
    return emu_view_knows(&later->view, earlier->slot, earlier->clock) ? NOT_FENCED_AFTER : NOT_KNOWN;
}

/* A warp's loads and stores are over for it after tcgen05.wait, which the whole warp executes together. */
static enum order order_of_move(const tmem_access *earlier, const emu_thread *later) {
    const tmem_thread *state = later->tcgen05;
    if (earlier->slot == emu_slot(later) - later->lane)
        return earlier->waited[later->lane] ? ORDERED : IN_FLIGHT;
    enum order best = IN_FLIGHT;
    for (uint32_t lane = 0; lane < EMU_WARP; lane++) {
        uint32_t slot = earlier->slot + lane;
        if (!earlier->waited[lane])
            continue;
        if (earlier->fenced[lane] && emu_view_knows(&state->after, slot, earlier->fenced[lane]))
            return ORDERED;
        if (earlier->fenced[lane] && emu_view_knows(&later->view, slot, earlier->fenced[lane]))
            best = NOT_FENCED_AFTER;
        else if (best != NOT_FENCED_AFTER && emu_view_knows(&later->view, slot, earlier->waited[lane]))
            best = NOT_FENCED_BEFORE;
        else if (best == IN_FLIGHT)
            best = NOT_KNOWN;
    }
    return best;
}

static enum order order_of(const tmem_access *earlier, const emu_thread *later) {
    return earlier->kind <= TMEM_PRODUCT_A ? order_of_product(earlier, later) : order_of_move(earlier, later);
}

/* Products of one thread, accumulator and shape run in the order of their issue (9.7.16.6.2). */
static bool pipelined(const tmem_access *earlier, const tmem_access *later) {
    return earlier->kind == TMEM_PRODUCT && later->kind == TMEM_PRODUCT && earlier->slot == later->slot &&
           earlier->d == later->d && earlier->m == later->m && earlier->n == later->n;
}

static const char *advice(const tmem_access *earlier, enum order order) {
    if (order == NOT_FENCED_AFTER)
        return "its end is known here, but tcgen05.fence::after_thread_sync is missing between the wait and this "
               "instruction";
    if (order == NOT_FENCED_BEFORE)
        return "tcgen05.fence::before_thread_sync is missing there between tcgen05.wait and the arrival that was "
               "waited "
               "for here";
    if (earlier->kind <= TMEM_PRODUCT_A)
        return "nothing that was waited for says that it is over: wait for the mbarrier of a tcgen05.commit behind it";
    if (order == NOT_KNOWN)
        return "nothing that was waited for says that it is over: its warp must arrive after tcgen05.wait, and this "
               "thread wait for that";
    return earlier->kind == TMEM_LOAD ? "tcgen05.wait::ld has not been executed since"
                                      : "tcgen05.wait::st has not been executed since";
}

/* What is wrong, in the words that people look for. */
static const char *headline(const tmem_access *earlier, const tmem_access *later, enum order order) {
    if (order == NOT_FENCED_AFTER || order == NOT_FENCED_BEFORE)
        return "a tcgen05 fence is missing";
    if (earlier->kind == TMEM_PRODUCT && later->kind == TMEM_LOAD)
        return "accumulators are read before the wait";
    if (earlier->kind == TMEM_LOAD && order == IN_FLIGHT)
        return "tensor memory is released before wait::ld";
    if (earlier->kind == TMEM_LOAD)
        return "tensor memory is overwritten before it is released";
    if (earlier->kind <= TMEM_PRODUCT_A && later->kind <= TMEM_PRODUCT_A)
        return "products of different shape, accumulator or thread are not ordered";
    return "accesses to tensor memory are not ordered";
}

static _Noreturn void conflict(emu_thread *thread, const tmem_access *earlier, const tmem_access *later, bool writes,
                               tmem_range range, enum order order, uintptr_t origin) {
    static const char *const did[] = {"writes", "reads as A", "reads", "writes"};
    char cells[64];
    emu_fault(thread, origin, "%s: %s %s %s of tensor memory, which %s %s; %s (that %s: %s)",
              headline(earlier, later, order), name_of(later->kind), writes ? "writes" : "reads",
              cells_text(range, cells), name_of(earlier->kind), did[earlier->kind], advice(earlier, order),
              name_of(earlier->kind), emu_place(thread->block->launch, &earlier->site));
}

/* Who must know: the issuing thread of a product, all lanes of a warp's load or store. */
static void demand_order(emu_thread *thread, const tmem_access *earlier, const tmem_access *later, bool writes,
                         tmem_range range, uintptr_t origin) {
    if (earlier == later)
        return;
    if (later->kind <= TMEM_PRODUCT_A) {
        enum order order = pipelined(earlier, later) ? ORDERED : order_of(earlier, thread);
        if (order != ORDERED)
            conflict(thread, earlier, later, writes, range, order, origin);
        return;
    }
    emu_thread *first = emu_warp_first(thread);
    for (uint32_t lane = 0; lane < EMU_WARP && first->number + lane < thread->block->launch->threads; lane++) {
        enum order order = order_of(earlier, &first[lane]);
        if (order != ORDERED)
            conflict(&first[lane], earlier, later, writes, range, order, origin);
    }
}

/* ---- granules ---- */

static tmem_granule *granule_at(emu_block *block, uint32_t group, uint32_t column) {
    return &tmem_of(block)->granules[group][column];
}

static void drop_readers(tmem_granule *granule) {
    while (granule->readers) {
        tmem_reader *reader = granule->readers;
        granule->readers = reader->next;
        tmem_access_drop(reader->access);
        free(reader);
    }
}

/* A later read of the same warp, or of the same queue, says all that an earlier one did. */
static void add_reader(tmem_granule *granule, tmem_access *access) {
    access->references++;
    for (tmem_reader *reader = granule->readers; reader; reader = reader->next) {
        if (reader->access->slot != access->slot)
            continue;
        tmem_access_drop(reader->access);
        reader->access = access;
        return;
    }
    tmem_reader *reader = tmem_calloc(1, sizeof *reader);
    reader->access = access;
    reader->next = granule->readers;
    granule->readers = reader;
}

void tmem_check_read(emu_thread *thread, emu_block *block, tmem_range range, tmem_access *access, uintptr_t origin) {
    const tmem_access *checked = NULL;
    for (uint32_t group = range.lane / TMEM_GROUP; group < (range.lane + range.lanes) / TMEM_GROUP; group++)
        for (uint32_t column = range.column; column < range.column + range.columns; column++) {
            tmem_granule *granule = granule_at(block, group, column);
            if (!granule->write)
                emu_fault(thread, origin,
                          "%s reads column %u of lanes %u-%u of tensor memory, which nothing has written since it was "
                          "allocated: the wait for what writes it is missing, or that itself",
                          name_of(access->kind), column, group * TMEM_GROUP, group * TMEM_GROUP + TMEM_GROUP - 1);
            if (granule->write != checked)
                demand_order(thread, granule->write, access, false, range, origin);
            checked = granule->write;
            add_reader(granule, access);
        }
}

void tmem_check_write(emu_thread *thread, emu_block *block, tmem_range range, tmem_access *access, bool accumulates,
                      uintptr_t origin) {
    const tmem_access *checked = NULL, *checked_reader = NULL;
    for (uint32_t group = range.lane / TMEM_GROUP; group < (range.lane + range.lanes) / TMEM_GROUP; group++)
        for (uint32_t column = range.column; column < range.column + range.columns; column++) {
            tmem_granule *granule = granule_at(block, group, column);
            if (!granule->write && accumulates)
                emu_fault(thread, origin,
                          "tcgen05.mma adds to column %u of lanes %u-%u of tensor memory, which nothing has written "
                          "since it was allocated: the first product of a tile must not accumulate",
                          column, group * TMEM_GROUP, group * TMEM_GROUP + TMEM_GROUP - 1);
            if (granule->write && granule->write != checked)
                demand_order(thread, granule->write, access, true, range, origin);
            for (const tmem_reader *reader = granule->readers; reader; reader = reader->next) {
                if (reader->access != checked_reader)
                    demand_order(thread, reader->access, access, true, range, origin);
                checked_reader = reader->access;
            }
            checked = granule->write;
            drop_readers(granule);
            access->references++;
            tmem_access_drop(granule->write);
            granule->write = access;
        }
}

static void check_over(emu_thread *thread, const tmem_access *access, tmem_range range, uintptr_t origin) {
    enum order order = order_of(access, thread);
    char cells[64];
    if (order == IN_FLIGHT || order == NOT_KNOWN)
        emu_fault(thread, origin, "tensor memory is freed with work in flight: tcgen05.dealloc of %s; %s (that %s: %s)",
                  cells_text(range, cells), advice(access, order), name_of(access->kind),
                  emu_place(thread->block->launch, &access->site));
}

void tmem_check_free(emu_thread *thread, emu_block *block, tmem_range range, uintptr_t origin) {
    const tmem_access *checked = NULL;
    for (uint32_t group = 0; group < TMEM_GROUPS; group++)
        for (uint32_t column = range.column; column < range.column + range.columns; column++) {
            const tmem_granule *granule = granule_at(block, group, column);
            if (granule->write && granule->write != checked)
                check_over(thread, granule->write, range, origin);
            checked = granule->write;
            for (const tmem_reader *reader = granule->readers; reader; reader = reader->next)
                check_over(thread, reader->access, range, origin);
        }
}

void tmem_forget(emu_block *block, tmem_range range) {
    for (uint32_t group = 0; group < TMEM_GROUPS; group++)
        for (uint32_t column = range.column; column < range.column + range.columns; column++) {
            tmem_granule *granule = granule_at(block, group, column);
            drop_readers(granule);
            tmem_access_drop(granule->write);
            granule->write = NULL;
        }
}
