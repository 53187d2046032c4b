/* Bulk copies (cp.async.bulk, PTX ISA 9.7.9.25.4): contiguous bytes between global and shared memory, whose end is told
 * by an mbarrier (loads) or by the thread's bulk groups (stores and reductions; 9.7.9.25.6.1). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "sm90.h"

enum { GRAIN = 16 /* of addresses and sizes */, MOST_BYTES = (1 << 20) - 1 /* of an mbarrier's tx-count */ };

/* ---- groups ---- */

typedef struct bulk_effects {
    emu_effect *read, *write; /* write NULL: a reduction */
} bulk_effects;

typedef struct bulk_group {
    struct bulk_group *next;
    size_t count, capacity;
    bulk_effects *effects;
    bool read_over; /* wait_group.read has retired the reads */
} bulk_group;

typedef struct bulk_groups {
    bulk_group *open;         /* not committed; NULL: nothing in it */
    bulk_group *first, **end; /* committed, oldest first */
    uint32_t committed;
} bulk_groups;

static bulk_groups *groups_of(emu_thread *thread) {
    if (!thread->bulk) {
        bulk_groups *groups = calloc(1, sizeof *groups);
        if (!groups)
            emu_out_of_memory();
        groups->end = &groups->first;
        thread->bulk = groups;
    }
    return thread->bulk;
}

static void group_free(bulk_group *group) {
    for (size_t i = 0; i < group->count; i++) {
        emu_effect_drop(group->effects[i].read);
        if (group->effects[i].write)
            emu_effect_drop(group->effects[i].write);
    }
    free(group->effects);
    free(group);
}

static void groups_free(emu_thread *thread) {
    bulk_groups *groups = thread->bulk;
    if (!groups)
        return;
    if (groups->open)
        group_free(groups->open);
    while (groups->first) {
        bulk_group *group = groups->first;
        groups->first = group->next;
        group_free(group);
    }
    free(groups);
    thread->bulk = NULL;
}

const void *emu_bulk_join(emu_thread *thread, emu_effect *read, emu_effect *write) {
    bulk_groups *groups = groups_of(thread);
    if (!groups->open) {
        groups->open = calloc(1, sizeof *groups->open);
        if (!groups->open)
            emu_out_of_memory();
    }
    bulk_group *group = groups->open;
    if (group->count == group->capacity) {
        group->capacity = group->capacity ? group->capacity * 2 : 4;
        bulk_effects *grown = realloc(group->effects, group->capacity * sizeof *grown);
        if (!grown)
            emu_out_of_memory();
        group->effects = grown;
    }
    group->effects[group->count++] = (bulk_effects){read, write};
    return group;
}

void emu_api_bulk_commit(void) {
    bulk_groups *groups = groups_of(emu_self());
    if (!groups->open)
        return; /* an empty group is over at once */
    *groups->end = groups->open;
    groups->end = &groups->open->next;
    groups->open = NULL;
    groups->committed++;
}

/* What the group read, or all of it, is over for whoever learns of what the thread does next. */
static void retire(emu_thread *thread, bulk_group *group, bool reads_only) {
    for (size_t i = 0; i < group->count; i++) {
        if (!group->read_over)
            emu_effect_retire(group->effects[i].read, thread->block, emu_slot(thread), thread->clock);
        if (!reads_only && group->effects[i].write)
            emu_effect_retire(group->effects[i].write, thread->block, emu_slot(thread), thread->clock);
    }
    group->read_over = true;
}

void emu_api_bulk_wait(emu_u32 pending, int reads_only) {
    emu_thread *thread = emu_self();
    bulk_groups *groups = groups_of(thread);
    uint32_t due = groups->committed > pending ? groups->committed - pending : 0;
    bulk_group **link = &groups->first;
    for (; due > 0; due--) {
        bulk_group *group = *link;
        if (!(reads_only && group->read_over)) {
            emu_async_flush(thread->block->launch, group);
            retire(thread, group, reads_only);
        }
        if (reads_only) {
            link = &group->next;
            continue;
        }
        *link = group->next;
        if (groups->end == &group->next)
            groups->end = link;
        groups->committed--;
        group_free(group);
    }
}

/* ---- checks ---- */

static void check_copy(emu_thread *thread, const char *what, uint32_t shared, const void *global, uint32_t bytes,
                       uintptr_t origin) {
    if (shared % GRAIN)
        emu_fault(thread, origin, "%s: shared address 0x%x is not a multiple of 16", what, shared);
    if ((uintptr_t)global % GRAIN)
        emu_fault(thread, origin, "%s: global address %p is not a multiple of 16", what, (void *)(uintptr_t)global);
    if (bytes % GRAIN)
        emu_fault(thread, origin, "%s of %u bytes: the size is not a multiple of 16", what, bytes);
    if (bytes > MOST_BYTES)
        emu_fault(thread, origin, "%s of %u bytes: an mbarrier counts at most %d", what, bytes, MOST_BYTES);
}

/* ---- loads ---- */

typedef struct bulk_target {
    emu_block *block;
    emu_effect *write;
    emu_signal signal;
} bulk_target;

typedef struct bulk_load {
    emu_async async;
    const unsigned char *from; /* global memory, or the issuing block's shared memory */
    bool shared;
    uint32_t offset, bytes;
    emu_effect *read;
    uint32_t count;
    bulk_target to[EMU_MAX_CLUSTER];
} bulk_load;

static void load_run(emu_async *operation) {
    bulk_load *load = (bulk_load *)operation;
    const emu_block *issuer = operation->block;
    if (load->shared && issuer->live == 0)
        emu_fault_at(issuer->launch, &operation->site,
                     "%s reads the shared memory of block (%u,%u,%u), which has exited; it must wait until the copy is "
                     "over (barrier.cluster, after the receiver's wait)",
                     operation->what, issuer->index[0], issuer->index[1], issuer->index[2]);
    for (uint32_t i = 0; i < load->count; i++) {
        bulk_target *to = &load->to[i];
        memcpy(to->block->shared + load->offset, load->from, load->bytes);
        emu_shared_written(to->block, load->offset, load->bytes);
        emu_signal_retire(&to->signal, to->write);
        if (i == 0)
            emu_signal_retire(&to->signal, load->read);
        emu_signal_bytes(&to->signal, operation, load->bytes);
    }
}

static void load_dispose(emu_async *operation) {
    bulk_load *load = (bulk_load *)operation;
    if (load->read)
        emu_effect_drop(load->read);
    for (uint32_t i = 0; i < load->count; i++)
        if (load->to[i].write)
            emu_effect_drop(load->to[i].write);
}

static bulk_load *load_new(emu_thread *thread, const char *what, uint32_t bytes, uintptr_t origin) {
    bulk_load *load = emu_async_new(thread, sizeof *load, what, origin);
    load->async.run = load_run;
    load->async.dispose = load_dispose;
    load->bytes = bytes;
    load->read = emu_effect_new(thread, false, what, origin);
    return load;
}

static void add_target(emu_thread *thread, bulk_load *load, emu_block *block, uint32_t offset, uint32_t barrier_offset,
                       uintptr_t origin) {
    const char *what = load->async.what;
    if (block->live == 0)
        emu_fault(thread, origin, "%s goes to the block of rank %u, which has exited", what, block->rank);
    emu_mbarrier *barrier = emu_mbarrier_at(thread, block, barrier_offset, true, what, origin);
    bulk_target *to = &load->to[load->count++];
    load->offset = offset;
    to->block = block;
    to->write = emu_effect_new(thread, true, what, origin);
    emu_shared_effect(&load->async.view, to->write, block, offset, load->bytes, false);
    emu_signal_begin(&to->signal, barrier, &load->async.site);
}

void emu_api_bulk_load(emu_u32 shared, const void *global, emu_u32 bytes, emu_u32 barrier, emu_u32 mask) {
    static const char *const what = "bulk copy to shared memory";
    uintptr_t origin = EMU_ORIGIN;
    emu_thread *thread = emu_self();
    emu_cluster *cluster = thread->block->cluster;
    uint32_t offset, barrier_offset;
    check_copy(thread, what, shared, global, bytes, origin);
    emu_block *block = emu_shared_resolve(thread, shared, bytes, &offset, origin);
    emu_block *barrier_block = emu_shared_resolve(thread, barrier, 8, &barrier_offset, origin);
    if (mask >> cluster->size)
        emu_fault(thread, origin, "%s is multicast to the ranks 0x%x of a cluster of %u blocks", what, mask,
                  cluster->size);
    if (mask == 0 && barrier_block != block)
        emu_fault(thread, origin, "%s goes to the block of rank %u, but its mbarrier is in that of rank %u", what,
                  block->rank, barrier_block->rank);
    bulk_load *load = load_new(thread, what, bytes, origin);
    load->from = global;
    emu_global_effect(&load->async.view, thread, load->read, (uintptr_t)global, bytes, false);
    if (mask == 0)
        add_target(thread, load, block, offset, barrier_offset, origin);
    for (uint32_t rank = 0; rank < cluster->size; rank++)
        if (mask >> rank & 1)
            add_target(thread, load, &cluster->blocks[rank], offset, barrier_offset, origin);
    emu_async_post(&load->async);
}

void emu_api_bulk_copy_cluster(emu_u32 to, emu_u32 from, emu_u32 bytes, emu_u32 barrier) {
    static const char *const what = "bulk copy to a block of the cluster";
    uintptr_t origin = EMU_ORIGIN;
    emu_thread *thread = emu_self();
    uint32_t to_offset, from_offset, barrier_offset;
    check_copy(thread, what, to, NULL, bytes, origin);
    check_copy(thread, what, from, NULL, bytes, origin);
    emu_block *target = emu_shared_resolve(thread, to, bytes, &to_offset, origin);
    emu_block *source = emu_shared_resolve(thread, from, bytes, &from_offset, origin);
    emu_block *barrier_block = emu_shared_resolve(thread, barrier, 8, &barrier_offset, origin);
    if (source != thread->block)
        emu_fault(thread, origin, "%s: its source is of the block of rank %u; it must be the issuer's own", what,
                  source->rank);
    if (barrier_block != target)
        emu_fault(thread, origin, "%s goes to the block of rank %u, but its mbarrier is in that of rank %u", what,
                  target->rank, barrier_block->rank);
    bulk_load *load = load_new(thread, what, bytes, origin);
    load->from = source->shared + from_offset;
    load->shared = true;
    emu_shared_effect(&load->async.view, load->read, source, from_offset, bytes, false);
    add_target(thread, load, target, to_offset, barrier_offset, origin);
    emu_async_post(&load->async);
}

/* ---- stores and reductions ---- */

typedef struct bulk_store {
    emu_async async;
    unsigned char *to;
    const unsigned char *from;
    uint32_t bytes;
    int reduction; /* -1: none */
} bulk_store;

static void reduce_word(unsigned char *to, const unsigned char *from, int reduction) {
    if (reduction == EMU_ADD_F32) {
        float sum, value;
        memcpy(&sum, to, sizeof sum);
        memcpy(&value, from, sizeof value);
        sum += value;
        memcpy(to, &sum, sizeof sum);
        return;
    }
    uint32_t old, value;
    memcpy(&old, to, sizeof old);
    memcpy(&value, from, sizeof value);
    switch (reduction) {
    case EMU_ADD_U32:
        old += value;
        break;
    case EMU_MIN_U32:
        old = value < old ? value : old;
        break;
    case EMU_MAX_U32:
        old = value > old ? value : old;
        break;
    case EMU_AND_U32:
        old &= value;
        break;
    default: /* EMU_OR_U32: others are refused at the issue */
        old |= value;
    }
    memcpy(to, &old, sizeof old);
}

static void store_run(emu_async *operation) {
    const bulk_store *store = (const bulk_store *)operation;
    if (store->reduction < 0) {
        memcpy(store->to, store->from, store->bytes);
    } else if (store->reduction == EMU_ADD_U64) {
        for (uint32_t i = 0; i < store->bytes; i += 8) {
            uint64_t sum, value;
            memcpy(&sum, store->to + i, sizeof sum);
            memcpy(&value, store->from + i, sizeof value);
            sum += value;
            memcpy(store->to + i, &sum, sizeof sum);
        }
    } else {
        for (uint32_t i = 0; i < store->bytes; i += 4)
            reduce_word(store->to + i, store->from + i, store->reduction);
    }
}

static void issue_store(emu_thread *thread, const char *what, void *global, uint32_t shared, uint32_t bytes,
                        int reduction, uintptr_t origin) {
    uint32_t offset;
    check_copy(thread, what, shared, global, bytes, origin);
    emu_block *block = emu_shared_resolve(thread, shared, bytes, &offset, origin);
    if (block != thread->block)
        emu_fault(thread, origin, "%s: its source is of the block of rank %u; it must be the issuer's own", what,
                  block->rank);
    bulk_store *store = emu_async_new(thread, sizeof *store, what, origin);
    store->async.run = store_run;
    store->to = global;
    store->from = block->shared + offset;
    store->bytes = bytes;
    store->reduction = reduction;
    emu_effect *read = emu_effect_new(thread, false, what, origin);
    emu_effect *write = reduction < 0 ? emu_effect_new(thread, true, what, origin) : NULL;
    store->async.queue = emu_bulk_join(thread, read, write); /* first: who owns them when a check below fails */
    emu_shared_effect(&store->async.view, read, block, offset, bytes, false);
    if (write)
        emu_global_effect(&store->async.view, thread, write, (uintptr_t)global, bytes, false);
    else
        emu_global_atomic(thread, (uintptr_t)global, bytes, origin);
    emu_async_post(&store->async);
}

void emu_api_bulk_store(void *global, emu_u32 shared, emu_u32 bytes) {
    issue_store(emu_self(), "bulk copy to global memory", global, shared, bytes, -1, EMU_ORIGIN);
}

void emu_api_bulk_reduce(void *global, emu_u32 shared, emu_u32 bytes, int reduction) {
    uintptr_t origin = EMU_ORIGIN;
    emu_thread *thread = emu_self();
    if (reduction == EMU_EXCHANGE_U32 || reduction == EMU_COMPARE_AND_SWAP_U32 || reduction == EMU_MAX_F32)
        emu_fault(thread, origin,
                  "bulk reduction: cp.reduce.async.bulk has no such operation; add, min, max, and, or of 32-bit "
                  "integers, add of 64-bit ones and of fp32 exist here");
    issue_store(thread, "bulk reduction in global memory", global, shared, bytes, reduction, origin);
}

void emu_api_bulk_prefetch(const void *global, emu_u32 bytes) {
    uintptr_t origin = EMU_ORIGIN;
    emu_thread *thread = emu_self();
    check_copy(thread, "bulk prefetch", 0, global, bytes, origin);
    if (!emu_global_contains(global, bytes))
        emu_fault(thread, origin, "bulk prefetch of %u bytes from %p, which no allocation holds", bytes,
                  (void *)(uintptr_t)global);
}

/* ---- hooks ---- */

void emu_bulk_begin(emu_block *block) {
    (void)block;
}

/* A block's shared memory must not go while a copy may still read it (9.7.9.25.6.2, wait_group.read). */
void emu_bulk_exit(emu_thread *thread, uintptr_t origin) {
    bulk_groups *groups = thread->bulk;
    (void)origin;
    if (!groups)
        return;
    if (groups->open)
        emu_fault_at(thread->block->launch, &groups->open->effects[0].read->site,
                     "the thread has ended without cp.async.bulk.commit_group and wait_group for the %s issued here",
                     groups->open->effects[0].read->what);
    for (bulk_group *group = groups->first; group; group = group->next)
        if (!group->read_over)
            emu_fault_at(thread->block->launch, &group->effects[0].read->site,
                         "the thread has ended without cp.async.bulk.wait_group for the %s issued here: it may still "
                         "read shared memory",
                         group->effects[0].read->what);
    groups_free(thread);
}

void emu_bulk_end(emu_block *block) {
    (void)block; /* loads: emu_mbarrier_end */
}

void emu_bulk_dispose(emu_block *block) {
    for (uint32_t i = 0; i < block->launch->threads; i++)
        groups_free(&block->threads[i]);
}
