/* Tensor memory: allocation (PTX ISA 9.7.16.7), and the life of its state. See tmem.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "tmem.h"

void *tmem_calloc(size_t count, size_t bytes) {
    void *memory = calloc(count, bytes);
    if (!memory)
        emu_out_of_memory();
    return memory;
}

struct emu_tmem *tmem_of(emu_block *block) {
    if (!block->tmem)
        block->tmem = tmem_calloc(1, sizeof *block->tmem);
    return block->tmem;
}

tmem_thread *tmem_thread_of(emu_thread *thread) {
    if (!thread->tcgen05) {
        tmem_thread *state = tmem_calloc(1, sizeof *state);
        state->moves_end = &state->moves;
        thread->tcgen05 = state;
    }
    return thread->tcgen05;
}

void tmem_check_group(emu_thread *thread, bool pair, uintptr_t origin) {
    static struct {
        uint32_t launch;
        bool pair;
        emu_site site;
    } first;
    const emu_launch *launch = thread->block->launch;
    if (first.launch != launch->number) {
        first.launch = launch->number;
        first.pair = pair;
        first.site = emu_site_of(thread, origin);
    }
    if (first.pair != pair)
        emu_fault(thread, origin,
                  "cta_group::%d in a kernel that uses cta_group::%d too (at %s): all tcgen05 instructions of a kernel "
                  "must name the same",
                  pair ? 2 : 1, pair ? 1 : 2, emu_place(launch, &first.site));
    if (pair && thread->block->cluster->size % 2 != 0)
        emu_fault(thread, origin,
                  "cta_group::2 in a cluster of %u block%s: pairs need a cluster of an even number of blocks",
                  thread->block->cluster->size, thread->block->cluster->size == 1 ? "" : "s");
}

emu_block *tmem_peer(emu_thread *thread, const char *what, uintptr_t origin) {
    emu_block *peer = &thread->block->cluster->blocks[thread->block->rank ^ 1];
    if (peer->live == 0)
        emu_fault(thread, origin, "%s of cta_group::2 when the other block of the pair, (%u,%u,%u), has exited", what,
                  peer->index[0], peer->index[1], peer->index[2]);
    return peer;
}

/* ---- allocations ---- */

static bool columns_free(const struct emu_tmem *tmem, uint32_t first, uint32_t columns) {
    for (uint32_t i = 0; i < TMEM_ALLOCATIONS; i++) {
        const tmem_allocation *other = &tmem->allocations[i];
        if (other->columns && first < other->first + other->columns && other->first < first + columns)
            return false;
    }
    return true;
}

static void allocate(tmem_request *request, uint32_t first) {
    emu_thread *lane0 = request->lane0;
    struct emu_tmem *tmem = tmem_of(lane0->block);
    tmem_allocation *entry = tmem->allocations;
    while (entry->columns)
        entry++;
    *entry =
        (tmem_allocation){.first = first, .columns = request->columns, .site = emu_site_of(lane0, request->origin)};
    tmem->last_columns = request->columns;
    emu_shared_access(lane0, lane0->block, request->shared, sizeof first, true, request->origin);
    memcpy(lane0->block->shared + request->shared, &first, sizeof first);
    request->active = false;
}

/* A place that is free in both; TMEM_COLUMNS: there is none. The last one, so that a kernel which takes the address for
 * 0 is found out. */
static uint32_t find_place(const struct emu_tmem *tmem, const struct emu_tmem *other, uint32_t columns) {
    for (uint32_t first = TMEM_COLUMNS; first >= columns;) {
        first -= columns;
        if (columns_free(tmem, first, columns) && columns_free(other, first, columns))
            return first;
    }
    return TMEM_COLUMNS;
}

static void free_columns(tmem_request *request) {
    emu_thread *lane0 = request->lane0;
    struct emu_tmem *tmem = tmem_of(lane0->block);
    tmem_allocation *entry = tmem->allocations;
    while (entry->first != request->address || entry->columns != request->columns)
        entry++;
    tmem_range range = {.lane = 0, .lanes = TMEM_LANES, .column = entry->first, .columns = entry->columns};
    tmem_check_free(lane0, lane0->block, range, request->origin);
    tmem_forget(lane0->block, range);
    for (uint32_t column = range.column; column < range.column + range.columns; column++)
        tmem->freed[column] = emu_site_of(lane0, request->origin);
    entry->columns = 0;
    request->active = false;
}

/* What the other block of the pair asks for; NULL: nothing yet. The two must ask for the same. */
static tmem_request *counterpart(const tmem_request *request) {
    const emu_thread *lane0 = request->lane0;
    struct emu_tmem *tmem = tmem_of(&lane0->block->cluster->blocks[lane0->block->rank ^ 1]);
    tmem_request *found = NULL;
    for (uint32_t warp = 0; warp < EMU_MAX_THREADS / EMU_WARP && !found; warp++)
        if (tmem->requests[warp].active)
            found = &tmem->requests[warp];
    if (!found || (found->free_them == request->free_them && found->columns == request->columns &&
                   found->address == request->address))
        return found;
    emu_site site = emu_site_of(found->lane0, found->origin);
    emu_fault(
        request->lane0, request->origin,
        "the blocks of a pair disagree: tcgen05.%s of %u columns here, tcgen05.%s of %u columns in the other block "
        "(at %s)",
        request->free_them ? "dealloc" : "alloc", request->columns, found->free_them ? "dealloc" : "alloc",
        found->columns, emu_place(lane0->block->launch, &site));
}

/* Grants the request if it can be now. */
static void settle(tmem_request *request) {
    tmem_request *other = request->pair ? counterpart(request) : request;
    if (!other)
        return;
    if (request->free_them) {
        free_columns(request);
        if (other != request)
            free_columns(other);
    } else {
        uint32_t first = find_place(tmem_of(request->lane0->block), tmem_of(other->lane0->block), request->columns);
        if (first >= TMEM_COLUMNS)
            return;
        allocate(request, first);
        if (other != request)
            allocate(other, first);
    }
    emu_progress(request->lane0->block->launch);
}

static bool was_granted(emu_thread *thread, void *object) {
    tmem_request *request = object;
    (void)thread;
    if (request->active)
        settle(request);
    return !request->active;
}

static void describe_request(const emu_thread *thread, void *object, char *text, size_t capacity) {
    const tmem_request *request = object;
    uint32_t used = 0;
    for (uint32_t i = 0; i < TMEM_ALLOCATIONS; i++)
        used += thread->block->tmem->allocations[i].columns;
    const char *name = request->free_them ? "dealloc" : "alloc";
    if (request->pair && !counterpart(request))
        snprintf(text, capacity, "tcgen05.%s of %u columns in the other block of its pair", name, request->columns);
    else
        snprintf(text, capacity, "tcgen05.%s of %u columns of tensor memory: %u of %d are in use", name,
                 request->columns, used, (int)TMEM_COLUMNS);
}

/* requests: what each lane asks for. */
static void post_request(emu_thread *lane0, void *const requests[EMU_WARP]) {
    const tmem_request *first = requests[0];
    for (uint32_t lane = 1; lane < EMU_WARP; lane++) {
        const tmem_request *other = requests[lane];
        if (other &&
            (other->columns != first->columns || other->address != first->address || other->shared != first->shared))
            emu_fault(lane0 + lane, other->origin, "lanes of one warp call tcgen05.%s with different operands",
                      first->free_them ? "dealloc" : "alloc");
    }
    tmem_request *request = &tmem_of(lane0->block)->requests[lane0->warp];
    *request = *first;
    request->active = true;
    request->lane0 = lane0;
    settle(request);
}

static void request_columns(emu_thread *thread, tmem_request *request) {
    tmem_thread_of(thread);
    emu_warp_meet(thread, ~0u, request->free_them ? "tcgen05.dealloc" : "tcgen05.alloc", false, request, post_request,
                  request->origin);
    emu_wait(thread, was_granted, &tmem_of(thread->block)->requests[thread->warp], describe_request, request->origin);
}

static void check_columns(emu_thread *thread, const char *name, uint32_t columns, uintptr_t origin) {
    if (columns < TMEM_LEAST || columns > TMEM_COLUMNS || (columns & (columns - 1)) != 0)
        emu_fault(thread, origin, "%s of %u columns: must be a power of two from %d to %d", name, columns,
                  (int)TMEM_LEAST, (int)TMEM_COLUMNS);
}

void emu_api_tmem_allocate(emu_u32 shared, emu_u32 columns, int pair) {
    emu_thread *thread = emu_self();
    uintptr_t origin = EMU_ORIGIN;
    uint32_t offset;
    tmem_check_group(thread, pair, origin);
    if (pair)
        tmem_peer(thread, "tcgen05.alloc", origin);
    check_columns(thread, "tcgen05.alloc", columns, origin);
    const struct emu_tmem *tmem = tmem_of(thread->block);
    if (tmem->relinquished.origin)
        emu_fault(thread, origin, "tcgen05.alloc after this block gave up the permit to allocate (at %s)",
                  emu_place(thread->block->launch, &tmem->relinquished));
    if (tmem->last_columns && columns > tmem->last_columns)
        emu_fault(thread, origin,
                  "tcgen05.alloc of %u columns after one of %u: successive allocations of a block must not grow",
                  columns, tmem->last_columns);
    if (emu_shared_resolve(thread, shared, sizeof(uint32_t), &offset, origin) != thread->block || shared % 4 != 0)
        emu_fault(thread, origin,
                  "tcgen05.alloc writes the address to shared address 0x%x: must be a multiple of 4 in the block's own "
                  "shared memory",
                  shared);
    tmem_request request = {.pair = pair, .origin = origin, .columns = columns, .shared = offset};
    request_columns(thread, &request);
}

void emu_api_tmem_free(emu_u32 address, emu_u32 columns, int pair) {
    emu_thread *thread = emu_self();
    uintptr_t origin = EMU_ORIGIN;
    tmem_check_group(thread, pair, origin);
    check_columns(thread, "tcgen05.dealloc", columns, origin);
    const struct emu_tmem *tmem = tmem_of(thread->block);
    const tmem_allocation *entry = NULL;
    for (uint32_t i = 0; i < TMEM_ALLOCATIONS && !entry; i++)
        if (tmem->allocations[i].columns && tmem->allocations[i].first == address)
            entry = &tmem->allocations[i];
    if (!entry && address < TMEM_COLUMNS && tmem->freed[address].origin)
        emu_fault(thread, origin, "tcgen05.dealloc of tensor memory at 0x%x, which is free already (freed at %s)",
                  address, emu_place(thread->block->launch, &tmem->freed[address]));
    if (!entry)
        emu_fault(thread, origin, "tcgen05.dealloc of tensor memory at 0x%x, which tcgen05.alloc did not return",
                  address);
    if (entry->columns != columns)
        emu_fault(thread, origin, "tcgen05.dealloc of %u columns of an allocation of %u (at %s): must be all of it",
                  columns, entry->columns, emu_place(thread->block->launch, &entry->site));
    if (pair)
        tmem_peer(thread, "tcgen05.dealloc", origin);
    tmem_request request = {.free_them = true, .pair = pair, .origin = origin, .columns = columns, .address = address};
    request_columns(thread, &request);
}

static void relinquish(emu_thread *lane0, void *const requests[EMU_WARP]) {
    const uintptr_t *origin = requests[0];
    struct emu_tmem *tmem = tmem_of(lane0->block);
    if (!tmem->relinquished.origin)
        tmem->relinquished = emu_site_of(lane0, *origin);
}

void emu_api_tmem_relinquish(int pair) {
    emu_thread *thread = emu_self();
    uintptr_t origin = EMU_ORIGIN;
    tmem_check_group(thread, pair, origin);
    emu_warp_meet(thread, ~0u, "tcgen05.relinquish_alloc_permit", false, &origin, relinquish, origin);
}

/* ---- hooks ---- */

void emu_tmem_begin(emu_block *block) {
    (void)block; /* made on first use */
}

void emu_tmem_exit(emu_thread *thread, uintptr_t origin) {
    tmem_thread *state = thread->tcgen05;
    (void)origin;
    if (!state)
        return;
    thread->tcgen05 = NULL;
    tmem_drop_moves(thread, state);
    emu_view_clear(&state->after);
    free(state);
}

void emu_tmem_end(emu_block *block) {
    const struct emu_tmem *tmem = block->tmem;
    for (uint32_t i = 0; tmem && i < TMEM_ALLOCATIONS; i++) {
        const tmem_allocation *entry = &tmem->allocations[i];
        if (entry->columns)
            emu_fault_at(block->launch, &entry->site,
                         "tensor memory is not freed: block (%u,%u,%u) ends with the %u columns at 0x%x that it "
                         "allocated",
                         block->index[0], block->index[1], block->index[2], entry->columns, entry->first);
    }
}

void emu_tmem_dispose(emu_block *block) {
    for (uint32_t i = 0; i < block->launch->threads; i++)
        emu_tmem_exit(&block->threads[i], 0);
    if (!block->tmem)
        return;
    tmem_forget(block, (tmem_range){.lane = 0, .lanes = TMEM_LANES, .column = 0, .columns = TMEM_COLUMNS});
    free(block->tmem);
    block->tmem = NULL;
}
