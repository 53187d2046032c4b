/* Meetings of a warp's lanes, and the sixteen barriers of a block (PTX ISA 9.7.13.1). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

enum { MEETINGS = 8 }; /* of disjoint parts of one warp at once */

typedef struct meeting {
    uint32_t mask, here; /* mask 0: free */
    const char *name;
    bool ordered;
    emu_site site; /* of the first to come */
    void *requests[EMU_WARP];
    emu_view view;
} meeting;

typedef struct named_barrier {
    uint32_t expected, arrived; /* threads; expected 0: nobody has come in this round */
    uint32_t rounds;
    bool all; /* for whoever has not exited */
    emu_site site;
    emu_view view;
    uint32_t *sleepers; /* thread numbers */
    uint32_t sleeping;
} named_barrier;

struct emu_barriers {
    named_barrier named[EMU_NAMED_BARRIERS];
    uint32_t warps;
    uint32_t *sleepers;
    meeting meetings[]; /* [warp][MEETINGS] */
};

void emu_warp_begin(emu_block *block) {
    uint32_t threads = block->launch->threads, warps = (threads + EMU_WARP - 1) / EMU_WARP;
    struct emu_barriers *barriers = calloc(1, sizeof *barriers + (size_t)warps * MEETINGS * sizeof(meeting));
    uint32_t *sleepers = calloc((size_t)threads * EMU_NAMED_BARRIERS, sizeof *sleepers);
    if (!barriers || !sleepers) {
        free(barriers);
        free(sleepers);
        emu_out_of_memory();
    }
    barriers->warps = warps;
    barriers->sleepers = sleepers;
    for (uint32_t i = 0; i < EMU_NAMED_BARRIERS; i++)
        barriers->named[i].sleepers = sleepers + (size_t)i * threads;
    block->barriers = barriers;
}

void emu_warp_dispose(emu_block *block) {
    struct emu_barriers *barriers = block->barriers;
    if (!barriers)
        return;
    for (uint32_t i = 0; i < EMU_NAMED_BARRIERS; i++)
        emu_view_clear(&barriers->named[i].view);
    for (uint32_t i = 0; i < barriers->warps * MEETINGS; i++)
        emu_view_clear(&barriers->meetings[i].view);
    free(barriers->sleepers);
    free(barriers);
    block->barriers = NULL;
}

void emu_warp_end(emu_block *block) {
    (void)block; /* arrivals that nobody waited for do no harm */
}

/* ---- meetings ---- */

emu_thread *emu_warp_first(emu_thread *thread) {
    return thread - thread->lane;
}

static uint32_t lanes_of(const emu_thread *thread) {
    uint32_t left = thread->block->launch->threads - thread->warp * EMU_WARP;
    return left >= EMU_WARP ? ~0u : (1u << left) - 1;
}

static uint32_t lanes_that(const emu_thread *first, uint32_t mask, enum emu_state state) {
    uint32_t result = 0;
    for (uint32_t lane = 0; lane < EMU_WARP; lane++)
        if (mask >> lane & 1 && first[lane].state == state)
            result |= 1u << lane;
    return result;
}

static void describe_meeting(const emu_thread *thread, void *object, char *text, size_t capacity) {
    const meeting *met = object;
    (void)thread;
    snprintf(text, capacity, "%s of its warp: lanes 0x%08x of mask 0x%08x have not come", met->name,
             met->mask & ~met->here, met->mask);
}

/* The warp's open meeting with that mask, or a free place. */
static meeting *find_meeting(emu_thread *thread, uint32_t mask, const char *name, uintptr_t origin) {
    meeting *meetings = &thread->block->barriers->meetings[(size_t)thread->warp * MEETINGS], *free_one = NULL;
    for (int i = 0; i < MEETINGS; i++) {
        meeting *met = &meetings[i];
        if (met->mask == mask && strcmp(met->name, name) != 0)
            emu_fault(thread, origin,
                      "lanes of one warp meet in different operations: this lane in %s, others in %s (at %s)", name,
                      met->name, emu_place(thread->block->launch, &met->site));
        if (met->mask == mask)
            return met;
        if (met->mask == 0 && !free_one)
            free_one = met;
    }
    if (!free_one)
        emu_fault(thread, origin, "more than %d parts of one warp are in warp-wide operations at once", (int)MEETINGS);
    return free_one;
}

static void end_meeting(emu_thread *thread, meeting *met) {
    emu_thread *first = emu_warp_first(thread);
    uint32_t mask = met->mask;
    for (uint32_t lane = 0; lane < EMU_WARP; lane++) {
        if (!(mask >> lane & 1))
            continue;
        if (met->ordered)
            emu_acquire(&first[lane], &met->view);
        if (&first[lane] != thread)
            emu_wake(&first[lane]);
    }
    emu_view_clear(&met->view);
    met->mask = met->here = 0;
}

void emu_warp_meet(emu_thread *thread, uint32_t mask, const char *name, bool ordered, void *request,
                   void (*operation)(emu_thread *lane0_of_warp, void *const requests[EMU_WARP]), uintptr_t origin) {
    emu_thread *first = emu_warp_first(thread);
    mask &= lanes_of(thread);
    if (!(mask >> thread->lane & 1))
        emu_fault(thread, origin, "lane %u calls %s with mask 0x%08x, which does not have it", thread->lane, name,
                  mask);
    uint32_t gone = lanes_that(first, mask, EMU_EXITED);
    if (gone)
        emu_fault(thread, origin, "%s with mask 0x%08x: lanes 0x%08x of it have exited", name, mask, gone);
    meeting *met = find_meeting(thread, mask, name, origin);
    if (met->mask == 0) {
        met->mask = mask;
        met->name = name;
        met->ordered = ordered;
        met->site = emu_site_of(thread, origin);
        memset(met->requests, 0, sizeof met->requests);
    }
    met->here |= 1u << thread->lane;
    met->requests[thread->lane] = request;
    if (ordered)
        emu_release(thread, &met->view);
    if (met->here != mask) {
        emu_sleep(thread, met, describe_meeting, origin);
        return;
    }
    if (operation)
        operation(first, met->requests);
    end_meeting(thread, met);
}

/* ---- barriers of a block ---- */

typedef struct barrier_request {
    uint32_t id, threads, round; /* round: the one it arrived in */
    uintptr_t origin;
    bool all, wait; /* all: threads was 0, so it is for whoever has not exited */
} barrier_request;

static void describe_barrier(const emu_thread *thread, void *object, char *text, size_t capacity) {
    const named_barrier *barrier = object;
    snprintf(text, capacity, "barrier %u: %u of %u threads have come",
             (unsigned)(barrier - thread->block->barriers->named), barrier->arrived, barrier->expected);
}

static void complete(emu_block *block, named_barrier *barrier) {
    for (uint32_t i = 0; i < barrier->sleeping; i++) {
        emu_thread *sleeper = &block->threads[barrier->sleepers[i]];
        emu_acquire(sleeper, &barrier->view);
        emu_wake(sleeper);
    }
    barrier->sleeping = barrier->arrived = barrier->expected = 0;
    barrier->rounds++;
    emu_view_clear(&barrier->view);
}

static void check_barrier(emu_thread *thread, const named_barrier *barrier, const barrier_request *request) {
    if (barrier->expected && (barrier->all != request->all || (!request->all && barrier->expected != request->threads)))
        emu_fault(thread, request->origin, "barrier %u is used with %u threads here and with %u at %s", request->id,
                  request->threads, barrier->expected, emu_place(thread->block->launch, &barrier->site));
}

/* All live lanes of a warp arrive together: the instruction is .aligned. */
static void arrive(emu_thread *first, void *const requests[EMU_WARP]) {
    barrier_request *request = NULL;
    uint32_t lanes = 0;
    for (uint32_t lane = 0; lane < EMU_WARP; lane++) {
        barrier_request *own = requests[lane];
        if (!own)
            continue;
        if (request && (own->id != request->id || own->threads != request->threads))
            emu_fault(&first[lane], own->origin,
                      "lanes of one warp come to different barriers: %u with %u threads, and %u with %u", own->id,
                      own->threads, request->id, request->threads);
        request = request ? request : own;
        lanes++;
    }
    emu_block *block = first->block;
    named_barrier *barrier = &block->barriers->named[request->id];
    check_barrier(first, barrier, request);
    if (!barrier->expected) {
        barrier->expected = request->threads;
        barrier->all = request->all;
        barrier->site = emu_site_of(first, request->origin);
    }
    barrier->arrived += request->all ? lanes : EMU_WARP; /* named ones count whole warps */
    if (barrier->arrived > barrier->expected)
        emu_fault(first, request->origin, "barrier %u: %u threads have come, more than the %u it is for", request->id,
                  barrier->arrived, barrier->expected);
    for (uint32_t lane = 0; lane < EMU_WARP; lane++) {
        barrier_request *own = requests[lane];
        if (!own)
            continue;
        own->round = barrier->rounds;
        emu_release(&first[lane], &barrier->view);
        if (own->wait)
            barrier->sleepers[barrier->sleeping++] = first[lane].number;
    }
    if (barrier->arrived == barrier->expected)
        complete(block, barrier);
}

static uint32_t live_threads(const emu_block *block) {
    uint32_t live = 0;
    for (uint32_t i = 0; i < block->launch->threads; i++)
        live += block->threads[i].state != EMU_EXITED;
    return live;
}

static void come(emu_thread *thread, uint32_t id, uint32_t threads, bool wait, uintptr_t origin) {
    emu_block *block = thread->block;
    if (id >= EMU_NAMED_BARRIERS)
        emu_fault(thread, origin, "barrier %u does not exist; they are 0 to %d", id, EMU_NAMED_BARRIERS - 1);
    if (threads % EMU_WARP || threads > (block->launch->threads + EMU_WARP - 1) / EMU_WARP * EMU_WARP)
        emu_fault(thread, origin, "barrier %u with %u threads: it must be a multiple of 32 and at most the block's %u",
                  id, threads, block->launch->threads);
    barrier_request request = {.id = id,
                               .threads = threads ? threads : live_threads(block),
                               .origin = origin,
                               .all = threads == 0,
                               .wait = wait};
    uint32_t mask = lanes_of(thread) & ~lanes_that(emu_warp_first(thread), lanes_of(thread), EMU_EXITED);
    emu_warp_meet(thread, mask, wait ? "bar.sync" : "bar.arrive", false, &request, arrive, origin);
    named_barrier *barrier = &block->barriers->named[id];
    if (wait && barrier->rounds == request.round)
        emu_sleep(thread, barrier, describe_barrier, origin);
}

void emu_api_barrier_sync(emu_u32 id, emu_u32 threads) {
    come(emu_self(), id, threads, true, EMU_ORIGIN);
}

void emu_api_barrier_arrive(emu_u32 id, emu_u32 threads) {
    come(emu_self(), id, threads, false, EMU_ORIGIN);
}

/* ---- a thread's exit ---- */

void emu_warp_exit(emu_thread *thread, uintptr_t origin) {
    struct emu_barriers *barriers = thread->block->barriers;
    const meeting *meetings = &barriers->meetings[(size_t)thread->warp * MEETINGS];
    for (int i = 0; i < MEETINGS; i++)
        if (meetings[i].mask >> thread->lane & 1)
            emu_fault(thread, origin, "lane %u exits while others of its warp wait for it in %s (at %s)", thread->lane,
                      meetings[i].name, emu_place(thread->block->launch, &meetings[i].site));
    for (uint32_t id = 0; id < EMU_NAMED_BARRIERS; id++) {
        named_barrier *barrier = &barriers->named[id];
        if (barrier->expected && barrier->all && --barrier->expected == barrier->arrived)
            complete(thread->block, barrier);
    }
}
