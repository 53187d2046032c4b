/* mbarriers (PTX ISA 9.7.13.15): arrivals and bytes of each phase, what a phase's end lets those know who wait for it.
 *
 * What arrivals release is kept over the phases: all operations on an mbarrier are read-modify-writes of one object, so
 * whoever observes the end of a phase has observed all earlier ones (8.7, observation order). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"
#include "core.h"
#include "sm90.h"

enum { MOST_ARRIVALS = (1 << 20) - 1, MOST_BYTES = (1 << 20) - 1 /* 9.7.13.15.2, .5 */, BARRIER_BYTES = 8 };

struct emu_mbarrier {
    emu_block *block;
    uint32_t number, offset;
    bool live;
    uint32_t count, pending;             /* arrivals: of every phase; still to come in this one */
    int32_t bytes;                       /* tx-count: expected and not come; negative: come before they were expected */
    uint32_t expected, came;             /* bytes in this phase, for messages */
    uint32_t last_expected;              /* in the phase before */
    uint32_t phase;                      /* of this life, from 0 */
    uint32_t epoch;                      /* phases that have ended in all lives: the clock of the barrier's slot */
    uint32_t owed;                       /* signals begun and not given */
    uint32_t init_slot, init_clock;      /* who initialised it */
    uint32_t fence_clock;                /* his clock at fence.mbarrier_init; 0: none yet */
    emu_site init_site, arrival, issuer; /* the last arrival by a thread; the last operation that owes a signal */
    emu_view gathered, done; /* released up to now; and up to the end of the last phase: what a wait acquires */
};

struct emu_mbarriers {
    uint32_t used;
    unsigned char *at; /* [offset / 8]: number + 1; 0: none */
    emu_mbarrier barriers[EMU_MBARRIERS];
};

void emu_mbarrier_begin(emu_block *block) {
    (void)block; /* made at the first mbarrier.init */
}

void emu_mbarrier_exit(emu_thread *thread, uintptr_t origin) {
    (void)thread, (void)origin; /* a thread owns no part of a barrier */
}

void emu_mbarrier_dispose(emu_block *block) {
    struct emu_mbarriers *all = block->mbarriers;
    if (!all)
        return;
    for (uint32_t i = 0; i < all->used; i++) {
        emu_view_clear(&all->barriers[i].gathered);
        emu_view_clear(&all->barriers[i].done);
    }
    free(all->at);
    free(all);
    block->mbarriers = NULL;
}

/* ---- messages ---- */

enum { TEXT = 512 };

static uint32_t address_of(const emu_mbarrier *barrier) {
    return barrier->block->rank << EMU_RANK_SHIFT | (EMU_SHARED_START + barrier->offset);
}

/* Address, phase, and what the phase lacks. */
static void state_text(const emu_mbarrier *barrier, char *text, size_t capacity) {
    int length = snprintf(text, capacity, "mbarrier at shared 0x%x, phase %u (parity %u): ", address_of(barrier),
                          barrier->phase, barrier->phase & 1);
    if (length < 0 || (size_t)length >= capacity)
        return;
    text += length;
    capacity -= (size_t)length;
    if (barrier->bytes > 0 && barrier->pending > 0)
        snprintf(text, capacity, "%u of %u arrivals and %d of %u bytes missing", barrier->pending, barrier->count,
                 barrier->bytes, barrier->expected);
    else if (barrier->bytes > 0)
        snprintf(text, capacity, "all %u arrivals have come, %d of %u bytes missing", barrier->count, barrier->bytes,
                 barrier->expected);
    else if (barrier->bytes < 0)
        snprintf(text, capacity, "%u of %u arrivals missing, %d bytes have come that nobody expected yet",
                 barrier->pending, barrier->count, -barrier->bytes);
    else
        snprintf(text, capacity, "%u of %u arrivals missing", barrier->pending, barrier->count);
}

/* Where it was initialised, as a part of a message. */
static const char *init_place(const emu_mbarrier *barrier) {
    return emu_place(barrier->block->launch, &barrier->init_site);
}

/* ---- finding ---- */

static emu_mbarrier *look_up(const emu_block *block, uint32_t offset) {
    unsigned number = block->mbarriers ? block->mbarriers->at[offset / BARRIER_BYTES] : 0;
    return number ? &block->mbarriers->barriers[number - 1] : NULL;
}

static void check_alignment(emu_thread *thread, uint32_t offset, const char *what, uintptr_t origin) {
    if (offset % BARRIER_BYTES)
        emu_fault(thread, origin, "%s: the mbarrier's shared address 0x%x is not a multiple of 8", what,
                  EMU_SHARED_START + offset);
}

/* Does the thread know an epoch of the one who initialised the barrier? */
static bool knows(const emu_thread *thread, const emu_mbarrier *barrier, uint32_t clock) {
    return barrier->init_slot == emu_slot(thread) || emu_view_knows(&thread->view, barrier->init_slot, clock);
}

static void check_visible(emu_thread *thread, const emu_mbarrier *barrier, bool asynchronous, const char *what,
                          uintptr_t origin) {
    if (!knows(thread, barrier, barrier->init_clock))
        emu_fault(thread, origin,
                  "%s uses the mbarrier at shared 0x%x whose initialisation (at %s) is not visible to this thread yet: "
                  "a barrier of the block (or cluster) must stand between",
                  what, address_of(barrier), init_place(barrier));
    if (!asynchronous || emu_view_knows_fenced(&thread->view, barrier->init_slot, barrier->init_clock) ||
        (barrier->fence_clock && knows(thread, barrier, barrier->fence_clock)))
        return;
    emu_fault(thread, origin,
              "%s uses the mbarrier at shared 0x%x whose initialisation (at %s) is not visible to asynchronous "
              "operations: fence.mbarrier_init must follow it, and then a barrier of the block (or cluster)",
              what, address_of(barrier), init_place(barrier));
}

emu_mbarrier *emu_mbarrier_at(emu_thread *thread, emu_block *block, uint32_t offset, bool asynchronous,
                              const char *what, uintptr_t origin) {
    check_alignment(thread, offset, what, origin);
    emu_mbarrier *barrier = look_up(block, offset);
    if (!barrier || !barrier->live)
        emu_fault(thread, origin, "%s: there is no %smbarrier at shared 0x%x of block rank %u; mbarrier.init makes one",
                  what, barrier ? "longer an " : "", EMU_SHARED_START + offset, block->rank);
    check_visible(thread, barrier, asynchronous, what, origin);
    return barrier;
}

emu_mbarrier *emu_mbarrier_find(emu_thread *thread, uint32_t address, bool asynchronous, const char *what,
                                uintptr_t origin) {
    uint32_t offset;
    emu_block *block = emu_shared_resolve(thread, address, BARRIER_BYTES, &offset, origin);
    return emu_mbarrier_at(thread, block, offset, asynchronous, what, origin);
}

/* ---- lives ---- */

static emu_mbarrier *new_barrier(emu_thread *thread, uint32_t offset, uintptr_t origin) {
    emu_block *block = thread->block;
    struct emu_mbarriers *all = block->mbarriers;
    if (!all) {
        all = calloc(1, sizeof *all);
        if (!all)
            emu_out_of_memory();
        block->mbarriers = all;
        all->at = calloc(block->shared_bytes / BARRIER_BYTES + 1, sizeof *all->at);
        if (!all->at)
            emu_out_of_memory();
    }
    if (all->used == EMU_MBARRIERS)
        emu_fault(thread, origin, "a block of an emulated device may have mbarriers at %d places, this is one more",
                  EMU_MBARRIERS);
    emu_mbarrier *barrier = &all->barriers[all->used];
    barrier->block = block;
    barrier->number = all->used++;
    barrier->offset = offset;
    all->at[offset / BARRIER_BYTES] = (unsigned char)all->used;
    return barrier;
}

void emu_api_mbarrier_init(emu_u32 address, emu_u32 count) {
    uintptr_t origin = EMU_ORIGIN;
    emu_thread *thread = emu_self();
    uint32_t offset;
    emu_block *block = emu_shared_resolve(thread, address, BARRIER_BYTES, &offset, origin);
    if (block != thread->block)
        emu_fault(thread, origin, "mbarrier.init at shared 0x%x, which is another block's (rank %u)", address,
                  block->rank);
    check_alignment(thread, offset, "mbarrier.init", origin);
    if (count < 1 || count > MOST_ARRIVALS)
        emu_fault(thread, origin, "mbarrier.init with a count of %u; it must be 1 to %d", count, MOST_ARRIVALS);
    emu_mbarrier *barrier = look_up(block, offset);
    if (barrier && barrier->live) {
        char state[TEXT];
        state_text(barrier, state, sizeof state);
        emu_fault(thread, origin, "mbarrier.init over a live one, which was initialised at %s; it is %s",
                  init_place(barrier), state);
    }
    emu_shared_access(thread, block, offset, BARRIER_BYTES, true, origin);
    if (!barrier)
        barrier = new_barrier(thread, offset, origin);
    emu_shared_opaque(block, offset, BARRIER_BYTES, true, "mbarrier");
    emu_view_clear(&barrier->gathered);
    emu_view_clear(&barrier->done);
    emu_view_init(&barrier->gathered, block->cluster->size * block->cluster->slots_of_block);
    barrier->live = true;
    barrier->count = barrier->pending = count;
    barrier->bytes = 0;
    barrier->expected = barrier->came = barrier->last_expected = barrier->phase = 0;
    barrier->init_slot = emu_slot(thread);
    barrier->init_clock = thread->clock;
    barrier->fence_clock = 0;
    barrier->init_site = emu_site_of(thread, origin);
    barrier->arrival = (emu_site){0};
}

void emu_api_mbarrier_invalidate(emu_u32 address) {
    uintptr_t origin = EMU_ORIGIN;
    emu_thread *thread = emu_self();
    emu_mbarrier *barrier = emu_mbarrier_find(thread, address, false, "mbarrier.inval", origin);
    if (barrier->owed || barrier->bytes)
        emu_fault(thread, origin, "mbarrier.inval of a barrier that asynchronous operations have still to signal (%s)",
                  emu_place(thread->block->launch, &barrier->issuer));
    if (barrier->block != thread->block)
        emu_fault(thread, origin, "mbarrier.inval at shared 0x%x, which is another block's", address);
    barrier->live = false;
    emu_shared_opaque(barrier->block, barrier->offset, BARRIER_BYTES, false, "mbarrier");
}

void emu_mbarrier_init_fence(emu_thread *thread) {
    struct emu_mbarriers *all = thread->block->mbarriers;
    for (uint32_t i = 0; all && i < all->used; i++)
        if (all->barriers[i].init_slot == emu_slot(thread) && all->barriers[i].fence_clock == 0)
            all->barriers[i].fence_clock = thread->clock;
}

/* A copy that nobody waited for writes into memory that another block has by now. */
void emu_mbarrier_end(emu_block *block) {
    struct emu_mbarriers *all = block->mbarriers;
    for (uint32_t i = 0; all && i < all->used; i++) {
        const emu_mbarrier *barrier = &all->barriers[i];
        char state[TEXT];
        state_text(barrier, state, sizeof state);
        if (barrier->owed)
            emu_fault_at(block->launch, &barrier->issuer,
                         "block (%u,%u,%u) has ended and nobody has waited for the asynchronous operation issued here; "
                         "it signals the %s",
                         block->index[0], block->index[1], block->index[2], state);
        if (barrier->bytes)
            emu_fault_at(block->launch, &barrier->init_site,
                         "block (%u,%u,%u) has ended with expected and copied bytes that differ: %s", block->index[0],
                         block->index[1], block->index[2], state);
    }
}

/* ---- phases ---- */

static void end_phase_if_due(emu_mbarrier *barrier) {
    if (barrier->pending > 0 || barrier->bytes != 0)
        return;
    if (barrier->expected > 0 && barrier->owed > 0)
        emu_fault_at(barrier->block->launch, &barrier->issuer,
                     "phase %u of the mbarrier at shared 0x%x ends with the %u bytes that it expected, but of %u "
                     "asynchronous operations issued in it, the last one here, the bytes have not come: expect_tx is "
                     "too small",
                     barrier->phase, address_of(barrier), barrier->expected, barrier->owed);
    barrier->phase++;
    barrier->epoch++;
    barrier->pending = barrier->count;
    barrier->last_expected = barrier->expected;
    barrier->expected = barrier->came = 0;
    emu_view_learn(&barrier->gathered, emu_mbarrier_slot(barrier->block, barrier->number), barrier->epoch, true);
    emu_view_clear(&barrier->done);
    emu_view_copy(&barrier->done, &barrier->gathered);
    emu_progress(barrier->block->launch);
}

static void expect(emu_mbarrier *barrier, emu_thread *thread, uint32_t bytes, uintptr_t origin) {
    if (barrier->block != thread->block)
        emu_cluster_reach(thread, barrier->block, origin);
    if (bytes > MOST_BYTES || barrier->bytes + (int32_t)bytes > MOST_BYTES) {
        char state[TEXT];
        state_text(barrier, state, sizeof state);
        emu_fault(thread, origin, "expect_tx of %u bytes: more than %d would be pending; %s", bytes, MOST_BYTES, state);
    }
    barrier->bytes += (int32_t)bytes;
    barrier->expected += bytes;
}

/* Whoever arrives must know that the phase before is over: else the arrival could have counted for that one, as it
 * would in another order of the threads. */
static void check_phase_known(const emu_mbarrier *barrier, emu_thread *thread, uintptr_t origin) {
    uint32_t slot = emu_mbarrier_slot(barrier->block, barrier->number);
    if (barrier->phase == 0 || emu_view_knows(&thread->view, slot, barrier->epoch))
        return;
    emu_fault(thread, origin,
              "this arrival comes to the mbarrier at shared 0x%x in phase %u from a thread that cannot know that phase "
              "%u is over, so it was meant for that one, which has had more arrivals than its count of %u (one of them "
              "twice?); the arrival before was at %s",
              address_of(barrier), barrier->phase, barrier->phase - 1, barrier->count,
              emu_place(thread->block->launch, &barrier->arrival));
}

void emu_mbarrier_thread_arrives(emu_mbarrier *barrier, emu_thread *thread, uint32_t count, uint32_t expected_bytes,
                                 uintptr_t origin) {
    emu_launch *launch = thread->block->launch;
    if (count == 0 || count > MOST_ARRIVALS)
        emu_fault(thread, origin, "mbarrier.arrive with a count of %u; it must be 1 to %d", count, MOST_ARRIVALS);
    if (count > barrier->pending) {
        char state[TEXT];
        state_text(barrier, state, sizeof state);
        emu_fault(thread, origin, "more arrivals than its count of %u in phase %u: %s; the arrival before was at %s",
                  barrier->count, barrier->phase, state, emu_place(launch, &barrier->arrival));
    }
    check_phase_known(barrier, thread, origin);
    expect(barrier, thread, expected_bytes, origin);
    emu_release(thread, &barrier->gathered);
    barrier->pending -= count;
    barrier->arrival = emu_site_of(thread, origin);
    if (barrier->pending == 0 && barrier->bytes < 0)
        emu_fault(thread, origin,
                  "the last arrival of phase %u of the mbarrier at shared 0x%x has come with %u bytes expected, but "
                  "%u have been copied: expect_tx is too small",
                  barrier->phase, address_of(barrier), barrier->expected, barrier->came);
    end_phase_if_due(barrier);
}

void emu_api_mbarrier_arrive(emu_u32 address, emu_u32 count, emu_u32 expected_bytes) {
    uintptr_t origin = EMU_ORIGIN;
    emu_thread *thread = emu_self();
    emu_mbarrier *barrier = emu_mbarrier_find(thread, address, false, "mbarrier.arrive", origin);
    emu_mbarrier_thread_arrives(barrier, thread, count, expected_bytes, origin);
}

void emu_api_mbarrier_expect(emu_u32 address, emu_u32 bytes) {
    uintptr_t origin = EMU_ORIGIN;
    emu_thread *thread = emu_self();
    emu_mbarrier *barrier = emu_mbarrier_find(thread, address, false, "mbarrier.expect_tx", origin);
    expect(barrier, thread, bytes, origin);
}

/* ---- signals of asynchronous operations ---- */

void emu_signal_begin(emu_signal *signal, emu_mbarrier *barrier, const emu_site *issuer) {
    *signal = (emu_signal){barrier, barrier->phase};
    barrier->owed++;
    barrier->issuer = *issuer;
}

void emu_signal_retire(const emu_signal *signal, emu_effect *effect) {
    const emu_mbarrier *barrier = signal->barrier;
    emu_effect_retire(effect, barrier->block, emu_mbarrier_slot(barrier->block, barrier->number), barrier->epoch + 1);
}

/* Phases that the operation's issuer knew to be over are over for whoever sees the operation end. */
static void learn_phases(emu_mbarrier *barrier, const emu_async *operation) {
    const emu_cluster *cluster = barrier->block->cluster;
    const emu_clocks *known = operation->view.known;
    for (uint32_t rank = 0; rank < cluster->size; rank++) {
        const struct emu_mbarriers *all = cluster->blocks[rank].mbarriers;
        uint32_t first = emu_mbarrier_slot(&cluster->blocks[rank], 0);
        for (uint32_t slot = first; all && slot < first + all->used; slot++)
            if (known->at[slot] > 0)
                emu_view_learn(&barrier->gathered, slot, known->at[slot], false);
    }
}

/* What every signal's arrival needs. */
static void settle(emu_mbarrier *barrier, const emu_async *operation) {
    const emu_block *block = barrier->block;
    if (block->live == 0)
        emu_fault_at(block->launch, &operation->site,
                     "%s ends only after block (%u,%u,%u), whose mbarrier at shared 0x%x it signals, has exited",
                     operation->what, block->index[0], block->index[1], block->index[2], address_of(barrier));
    barrier->owed--;
    learn_phases(barrier, operation);
}

void emu_signal_bytes(const emu_signal *signal, const emu_async *operation, uint32_t bytes) {
    emu_mbarrier *barrier = signal->barrier;
    emu_launch *launch = barrier->block->launch;
    settle(barrier, operation);
    if (signal->phase != barrier->phase)
        emu_fault_at(launch, &operation->site,
                     "%s of %u bytes ends in phase %u of the mbarrier at shared 0x%x, but it was issued in phase %u, "
                     "which ended when the %u bytes it expected had come: expect_tx was too small",
                     operation->what, bytes, barrier->phase, address_of(barrier), signal->phase,
                     barrier->last_expected);
    barrier->bytes -= (int32_t)bytes;
    barrier->came += bytes;
    if (barrier->bytes < -MOST_BYTES || (barrier->bytes < 0 && barrier->pending == 0))
        emu_fault_at(launch, &operation->site,
                     "%s of %u bytes ends, and phase %u of the mbarrier at shared 0x%x has expected %u bytes, but %u "
                     "have been copied: expect_tx is too small",
                     operation->what, bytes, barrier->phase, address_of(barrier), barrier->expected, barrier->came);
    end_phase_if_due(barrier);
}

void emu_signal_arrive(const emu_signal *signal, const emu_async *operation, const emu_view *view) {
    emu_mbarrier *barrier = signal->barrier;
    settle(barrier, operation);
    if (barrier->pending == 0) {
        char state[TEXT];
        state_text(barrier, state, sizeof state);
        emu_fault_at(barrier->block->launch, &operation->site,
                     "the arrival of %s is more than the count of %u in phase %u: %s", operation->what, barrier->count,
                     barrier->phase, state);
    }
    if (view)
        emu_view_join(&barrier->gathered, view);
    barrier->pending--;
    end_phase_if_due(barrier);
}

/* ---- waiting ---- */

typedef struct wait {
    emu_mbarrier *barrier;
    uint32_t parity;
} wait;

/* The phase of that parity is the one before the current one: it is over (9.7.13.15.16). */
static bool phase_is_over(emu_thread *thread, void *object) {
    const wait *waiting = object;
    (void)thread;
    return (waiting->barrier->phase & 1) != waiting->parity;
}

static void describe_wait(const emu_thread *thread, void *object, char *text, size_t capacity) {
    const wait *waiting = object;
    (void)thread;
    state_text(waiting->barrier, text, capacity);
}

static wait wait_for(emu_thread *thread, uint32_t address, uint32_t parity, uintptr_t origin) {
    emu_mbarrier *barrier = emu_mbarrier_find(thread, address, false, "mbarrier.try_wait", origin);
    if (barrier->block != thread->block)
        emu_fault(thread, origin,
                  "mbarrier.try_wait at shared 0x%x, which is of another block (rank %u): a thread may arrive at it, "
                  "but wait only at its own block's",
                  address, barrier->block->rank);
    if (parity > 1)
        emu_fault(thread, origin, "mbarrier.try_wait with parity %u; it must be 0 or 1", parity);
    return (wait){barrier, parity};
}

void emu_api_mbarrier_wait(emu_u32 address, emu_u32 parity) {
    uintptr_t origin = EMU_ORIGIN;
    emu_thread *thread = emu_self();
    wait waiting = wait_for(thread, address, parity, origin);
    emu_wait(thread, phase_is_over, &waiting, describe_wait, origin);
    emu_acquire(thread, &waiting.barrier->done);
}

int emu_api_mbarrier_test(emu_u32 address, emu_u32 parity) {
    uintptr_t origin = EMU_ORIGIN;
    emu_thread *thread = emu_self();
    wait waiting = wait_for(thread, address, parity, origin);
    if (!phase_is_over(thread, &waiting))
        emu_yield(thread, "a phase of an mbarrier, which it polls", origin);
    if (!phase_is_over(thread, &waiting))
        return 0;
    emu_acquire(thread, &waiting.barrier->done);
    return 1;
}
