/* Clusters (barrier.cluster, PTX ISA 9.7.13.3; mapa, 9.7.9.23; no block may end while a peer can still touch its shared
 * memory) and dependent launches (griddepcontrol, 9.7.13.13). */
#include "cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

/* A thread's last access to a block's shared memory from another block. */
typedef struct reach {
    uint32_t clock;    /* of the thread then; 0: none */
    uint32_t arrivals; /* at the cluster's barrier that it had made then */
    emu_site site;
} reach;

typedef struct member { /* a thread of the cluster */
    uint32_t arrivals, waits;
    bool exited;
    uint32_t dependency_clock; /* its clock at griddepcontrol.wait; 0: not executed */
    emu_site arrival;
} member;

typedef struct cluster_state {
    uint32_t rounds;         /* of the barrier that are over */
    uint32_t missing;        /* arrivals in this round */
    uint32_t live;           /* threads that have not exited */
    emu_view gathered, done; /* released in this round; in all that are over */
    member *members;         /* [rank * threads + number] */
    uint32_t *waiters;       /* members that have executed griddepcontrol.wait */
    uint32_t waiter_count;
    struct reaches {
        reach *of;     /* NULL, or one for each member */
    } * reaches;       /* [rank of the touched block] */
    emu_view *exits;   /* [rank]: what the block's exited threads knew */
    uint32_t *watched; /* [rank]: rounds that some thread of the block has seen end */
} cluster_state;

static cluster_state *state_of(const emu_thread *thread) {
    return thread->block->cluster->barrier;
}

static uint32_t member_number(const emu_thread *thread) {
    return thread->block->rank * thread->block->launch->threads + thread->number;
}

static member *member_of(const emu_thread *thread) {
    return &state_of(thread)->members[member_number(thread)];
}

static const emu_thread *thread_of(const emu_cluster *cluster, uint32_t number) {
    return &cluster->blocks[number / cluster->launch->threads].threads[number % cluster->launch->threads];
}

static void state_free(emu_cluster *cluster) {
    cluster_state *state = cluster->barrier;
    if (!state)
        return;
    for (uint32_t rank = 0; rank < cluster->size; rank++) {
        if (state->reaches)
            free(state->reaches[rank].of);
        if (state->exits)
            emu_view_clear(&state->exits[rank]);
    }
    emu_view_clear(&state->gathered);
    emu_view_clear(&state->done);
    free(state->members);
    free(state->waiters);
    free(state->reaches);
    free(state->exits);
    free(state->watched);
    free(state);
    cluster->barrier = NULL;
}

void emu_cluster_begin(emu_block *block) {
    emu_cluster *cluster = block->cluster;
    if (cluster->barrier)
        return;
    cluster_state *state = calloc(1, sizeof *state);
    if (!state)
        emu_out_of_memory();
    cluster->barrier = state;
    state->live = state->missing = cluster->size * block->launch->threads;
    state->members = calloc(state->live, sizeof *state->members);
    state->waiters = calloc(state->live, sizeof *state->waiters);
    state->reaches = calloc(cluster->size, sizeof *state->reaches);
    state->exits = calloc(cluster->size, sizeof *state->exits);
    state->watched = calloc(cluster->size, sizeof *state->watched);
    if (!state->members || !state->waiters || !state->reaches || !state->exits || !state->watched)
        emu_out_of_memory();
    emu_view_init(&state->gathered, cluster->size * cluster->slots_of_block);
}

void emu_cluster_end(emu_block *block) {
    (void)block; /* every block has been checked when its last thread exited */
}

void emu_cluster_dispose(emu_block *block) {
    state_free(block->cluster);
}

/* ---- barrier.cluster ---- */

static void describe_wait(const emu_thread *thread, void *object, char *text, size_t capacity) {
    const cluster_state *state = object;
    const emu_cluster *cluster = thread->block->cluster;
    const emu_thread *late = thread;
    for (uint32_t i = 0; i < cluster->size * cluster->launch->threads; i++) {
        if (!state->members[i].exited && state->members[i].arrivals == state->rounds) {
            late = thread_of(cluster, i);
            break;
        }
    }
    snprintf(text, capacity,
             "barrier.cluster, round %u: %u of %u threads have not arrived, the first of them block (%u,%u,%u), thread "
             "(%u,%u,%u)",
             state->rounds, state->missing, state->live, late->block->index[0], late->block->index[1],
             late->block->index[2], late->index[0], late->index[1], late->index[2]);
}

static void end_round_if_due(emu_cluster *cluster) {
    cluster_state *state = cluster->barrier;
    if (state->missing > 0 || state->live == 0)
        return;
    state->rounds++;
    state->missing = state->live;
    emu_view_join(&state->done, &state->gathered);
    emu_progress(cluster->launch);
}

void emu_api_cluster_arrive(int release) {
    uintptr_t origin = EMU_ORIGIN;
    emu_thread *thread = emu_self();
    cluster_state *state = state_of(thread);
    member *own = member_of(thread);
    if (own->arrivals > own->waits)
        emu_fault(thread, origin,
                  "barrier.cluster.arrive a second time without a wait in between; the arrival before was at %s",
                  emu_place(thread->block->launch, &own->arrival));
    own->arrivals++;
    own->arrival = emu_site_of(thread, origin);
    if (release)
        emu_release(thread, &state->gathered);
    else
        emu_order_release(thread, &state->gathered);
    state->missing--;
    end_round_if_due(thread->block->cluster);
}

static bool round_is_over(emu_thread *thread, void *object) {
    const cluster_state *state = object;
    return state->rounds >= member_of(thread)->arrivals;
}

void emu_api_cluster_wait(int acquire) {
    uintptr_t origin = EMU_ORIGIN;
    emu_thread *thread = emu_self();
    cluster_state *state = state_of(thread);
    member *own = member_of(thread);
    if (own->arrivals == own->waits)
        emu_fault(thread, origin, "barrier.cluster.wait without an arrival of this thread before it");
    emu_wait(thread, round_is_over, state, describe_wait, origin);
    own->waits++;
    if (state->watched[thread->block->rank] < own->waits)
        state->watched[thread->block->rank] = own->waits;
    if (acquire)
        emu_acquire(thread, &state->done);
}

/* ---- shared memory of other blocks ---- */

emu_u32 emu_api_map_shared_rank(emu_u32 shared, emu_u32 rank) {
    uintptr_t origin = EMU_ORIGIN;
    emu_thread *thread = emu_self();
    uint32_t size = thread->block->cluster->size, own = shared >> EMU_RANK_SHIFT;
    if (own != thread->block->rank)
        emu_fault(thread, origin,
                  "mapa of 0x%x, which is of the block of rank %u; it must be an address of this block (%u)", shared,
                  own, thread->block->rank);
    if (rank >= size)
        emu_fault(thread, origin, "mapa to rank %u of a cluster of %u block%s", rank, size, size == 1 ? "" : "s");
    return (shared & ((1U << EMU_RANK_SHIFT) - 1)) | rank << EMU_RANK_SHIFT;
}

void emu_cluster_reach(emu_thread *thread, const emu_block *block, uintptr_t origin) {
    cluster_state *state = state_of(thread);
    reach **reaches = &state->reaches[block->rank].of;
    if (!*reaches) {
        *reaches = calloc((size_t)block->cluster->size * block->launch->threads, sizeof **reaches);
        if (!*reaches)
            emu_out_of_memory();
    }
    (*reaches)[member_number(thread)] =
        (reach){.clock = thread->clock, .arrivals = member_of(thread)->arrivals, .site = emu_site_of(thread, origin)};
}

/* The last thread of a block goes: everything that peers did to its memory must have happened before. Either some
 * thread of it knows, or one has waited for a round of the cluster's barrier that the peer came to afterwards. */
static void check_reaches(const emu_thread *thread) {
    const emu_block *block = thread->block;
    const cluster_state *state = state_of(thread);
    const reach *reaches = state->reaches[block->rank].of;
    uint32_t members = block->cluster->size * block->launch->threads;
    for (uint32_t i = 0; reaches && i < members; i++) {
        if (reaches[i].clock == 0 || state->watched[block->rank] > reaches[i].arrivals ||
            emu_view_knows(&state->exits[block->rank], emu_slot(thread_of(block->cluster, i)), reaches[i].clock))
            continue;
        emu_fault_at(block->launch, &reaches[i].site,
                     "block (%u,%u,%u) may have ended before this access to its shared memory (or mbarrier): nothing "
                     "makes its end wait for it; it must wait for the barrier's phase, or for barrier.cluster",
                     block->index[0], block->index[1], block->index[2]);
    }
}

void emu_cluster_exit(emu_thread *thread, uintptr_t origin) {
    emu_block *block = thread->block;
    cluster_state *state = state_of(thread);
    member *own = member_of(thread);
    (void)origin;
    own->exited = true;
    state->live--;
    if (own->arrivals == state->rounds)
        state->missing--;
    if (block->cluster->size > 1) {
        emu_view_join(&state->exits[block->rank], &thread->view);
        if (block->live == 1)
            check_reaches(thread);
    }
    end_round_if_due(block->cluster);
}

/* ---- dependent launches ---- */

/* The launches before have run to their end here; what this one may touch of their memory before is checked in
 * global.c. */
void emu_api_dependency_wait(void) {
    emu_thread *thread = emu_self();
    cluster_state *state = state_of(thread);
    member *own = member_of(thread);
    thread->dependency_wait = true;
    if (own->dependency_clock == 0) {
        own->dependency_clock = thread->clock;
        state->waiters[state->waiter_count++] = member_number(thread);
    }
}

/* A launch starts when the one before has ended, so nothing is to be done. */
void emu_api_dependency_launch(void) {
}

bool emu_dependency_known(emu_thread *thread) {
    const cluster_state *state = state_of(thread);
    for (uint32_t i = 0; !thread->dependency_wait && i < state->waiter_count; i++) {
        uint32_t number = state->waiters[i];
        const emu_thread *waiter = thread_of(thread->block->cluster, number);
        thread->dependency_wait =
            emu_view_knows(&thread->view, emu_slot(waiter), state->members[number].dependency_clock);
    }
    return thread->dependency_wait;
}
