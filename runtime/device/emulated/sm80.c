/* cp.async, its groups (PTX ISA 9.7.9.25.3) and cp.async.mbarrier.arrive (9.7.13.15.17). The bytes arrive when somebody
 * waits for them, or earlier. All operations of a thread are one queue: they run in their order. */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "sm80.h"
#include "sm90.h"

typedef struct copy {
    uint32_t offset, bytes, copied; /* in the block's shared memory; the rest of bytes becomes zero */
    const unsigned char *from;
} copy;

/* What a thread has begun since its last commit, or one committed group. */
typedef struct copy_group {
    struct copy_group *next;
    copy *copies; /* moves to the operation that does them */
    size_t count, capacity;
    emu_effect **effects; /* one for each place in the code that a copy came from */
    size_t effect_count, effect_capacity;
    size_t sealed; /* so many effects have been given to an arrival: later copies take none of them */
} copy_group;

typedef struct copy_groups {
    copy_group *open;         /* NULL: nothing since the last commit */
    copy_group *first, **end; /* committed, oldest first */
    uint32_t committed;
    emu_view seen, view; /* view: what the thread knows, itself included; made when it knew `seen`, at `clock` */
    uint32_t clock;
    emu_effect *reading; /* of emu_read_unwritten while it runs: a fault in it leaves it here */
} copy_groups;

typedef struct copies {
    emu_async async;
    copy *at;
    size_t count;
} copies;

static void *grown(void *array, size_t count, size_t *capacity, size_t bytes) {
    if (count < *capacity)
        return array;
    *capacity = *capacity ? *capacity * 2 : 4;
    void *larger = realloc(array, *capacity * bytes);
    if (!larger)
        emu_out_of_memory();
    return larger;
}

static copy_groups *groups_of(emu_thread *thread) {
    if (!thread->sm80) {
        copy_groups *groups = calloc(1, sizeof *groups);
        if (!groups)
            emu_out_of_memory();
        groups->end = &groups->first;
        thread->sm80 = groups;
    }
    return thread->sm80;
}

static copy_group *open_group(copy_groups *groups) {
    if (!groups->open) {
        groups->open = calloc(1, sizeof *groups->open);
        if (!groups->open)
            emu_out_of_memory();
    }
    return groups->open;
}

static void group_free(copy_group *group) {
    if (!group)
        return;
    for (size_t i = 0; i < group->effect_count; i++)
        emu_effect_drop(group->effects[i]);
    free(group->effects);
    free(group->copies);
    free(group);
}

/* Kept while neither what the thread knows nor its clock has changed: it issues many copies. */
const emu_view *emu_own_view(emu_thread *thread) {
    copy_groups *groups = groups_of(thread);
    const emu_view *now = &thread->view;
    if (groups->clock == thread->clock && groups->seen.known == now->known && groups->seen.fenced == now->fenced &&
        groups->seen.foreign == now->foreign)
        return &groups->view;
    emu_view_clear(&groups->seen);
    emu_view_clear(&groups->view);
    emu_view_copy(&groups->seen, now);
    emu_view_copy(&groups->view, now);
    emu_view_learn(&groups->view, emu_slot(thread), thread->clock, false);
    groups->clock = thread->clock;
    return &groups->view;
}

void emu_read_unwritten(emu_thread *thread, emu_block *block, uint32_t offset, uint32_t bytes, uintptr_t origin) {
    copy_groups *groups = groups_of(thread);
    emu_effect *effect = groups->reading = emu_effect_new(thread, false, "ldmatrix", origin);
    effect->poison_allowed = true;
    emu_shared_effect(emu_own_view(thread), effect, block, offset, bytes, true);
    emu_effect_retire(effect, block, emu_slot(thread), thread->clock);
    emu_effect_drop(effect);
    groups->reading = NULL;
}

static emu_effect *effect_of(emu_thread *thread, copy_group *group, uintptr_t origin) {
    for (size_t i = group->sealed; i < group->effect_count; i++)
        if (group->effects[i]->site.origin == origin)
            return group->effects[i];
    group->effects = grown(group->effects, group->effect_count, &group->effect_capacity, sizeof(emu_effect *));
    return group->effects[group->effect_count++] = emu_effect_new(thread, true, "cp.async", origin);
}

void emu_api_cp_async(emu_u32 shared, const void *global, emu_u32 bytes, emu_u32 copied) {
    emu_thread *thread = emu_self();
    uintptr_t origin = EMU_ORIGIN;
    uint32_t offset;
    if (bytes != 4 && bytes != 8 && bytes != 16)
        emu_fault(thread, origin, "cp.async of %u bytes; 4, 8 and 16 are possible", bytes);
    if (copied > bytes)
        emu_fault(thread, origin, "cp.async of %u bytes is to read %u of them", bytes, copied);
    if (shared % bytes)
        emu_fault(thread, origin, "cp.async: shared address 0x%x is not a multiple of %u", shared, bytes);
    if ((uintptr_t)global % bytes)
        emu_fault(thread, origin, "cp.async: global address %p is not a multiple of %u", (void *)(uintptr_t)global,
                  bytes);
    emu_block *block = emu_shared_resolve(thread, shared, bytes, &offset, origin);
    if (block != thread->block)
        emu_fault(thread, origin, "cp.async into shared memory of block %u of the cluster; it writes its own only",
                  block->rank);
    /* The source is read for the thread's own sake now. That somebody else changes it before the group is over is found
     * when that somebody is not ordered behind this thread. */
    if (copied > 0)
        emu_global_access(thread, (uintptr_t)global, copied, false, origin);
    copy_group *group = open_group(groups_of(thread));
    emu_shared_effect(emu_own_view(thread), effect_of(thread, group, origin), block, offset, bytes, true);
    group->copies = grown(group->copies, group->count, &group->capacity, sizeof group->copies[0]);
    group->copies[group->count++] = (copy){offset, bytes, copied, global};
}

static void copies_run(emu_async *operation) {
    const copies *all = (const copies *)operation;
    emu_block *block = operation->block;
    for (size_t i = 0; i < all->count; i++) {
        const copy *one = &all->at[i];
        memcpy(block->shared + one->offset, one->from, one->copied);
        memset(block->shared + one->offset + one->copied, 0, one->bytes - one->copied);
        emu_shared_written(block, one->offset, one->bytes);
    }
}

static void copies_dispose(emu_async *operation) {
    free(((copies *)operation)->at);
}

/* What the group has begun so far becomes an operation. */
static void post_copies(emu_thread *thread, copy_group *group, uintptr_t origin) {
    if (!group || group->count == 0)
        return;
    copies *all = emu_async_new(thread, sizeof *all, "cp.async", origin);
    all->async.queue = thread->sm80;
    all->async.run = copies_run;
    all->async.dispose = copies_dispose;
    all->at = group->copies;
    all->count = group->count;
    group->copies = NULL;
    group->count = group->capacity = 0;
    emu_async_post(&all->async);
}

void emu_api_cp_async_commit(void) {
    emu_thread *thread = emu_self();
    copy_groups *groups = groups_of(thread);
    copy_group *group = open_group(groups); /* an empty group counts, too */
    groups->open = NULL;
    *groups->end = group;
    groups->end = &group->next;
    groups->committed++;
    post_copies(thread, group, EMU_ORIGIN);
}

/* The copies are over for the thread, and for whoever learns of what it does next. */
static void retire(emu_thread *thread, emu_effect *effect) {
    if (effect->retired) /* with an mbarrier, whose phase need not be over for this thread */
        emu_view_learn(&thread->view, effect->slot, effect->clock, false);
    else
        emu_effect_retire(effect, thread->block, emu_slot(thread), thread->clock);
}

void emu_api_cp_async_wait(emu_u32 pending) {
    emu_thread *thread = emu_self();
    copy_groups *groups = groups_of(thread);
    if (groups->committed > pending)
        emu_async_flush(thread->block->launch, groups);
    for (copy_group *group; (group = groups->first) != NULL && groups->committed > pending;) {
        for (size_t i = 0; i < group->effect_count; i++)
            retire(thread, group->effects[i]);
        groups->first = group->next;
        if (!groups->first)
            groups->end = &groups->first;
        groups->committed--;
        group_free(group);
    }
}

/* ---- arrival on an mbarrier ---- */

typedef struct arrival {
    emu_async async;
    emu_signal signal;
    emu_effect **effects; /* of the copies that it stands for */
    size_t count, capacity;
} arrival;

static void arrival_run(emu_async *operation) {
    arrival *self = (arrival *)operation;
    for (size_t i = 0; i < self->count; i++)
        if (!self->effects[i]->retired)
            emu_signal_retire(&self->signal, self->effects[i]);
    emu_signal_arrive(&self->signal, operation, NULL);
}

static void arrival_dispose(emu_async *operation) {
    arrival *self = (arrival *)operation;
    for (size_t i = 0; i < self->count; i++)
        emu_effect_drop(self->effects[i]);
    free(self->effects);
}

/* What earlier arrivals have retired is of no further interest. */
static void track(arrival *self, copy_group *group) {
    size_t kept = 0;
    for (size_t i = 0; group && i < group->effect_count; i++) {
        emu_effect *effect = group->effects[i];
        if (effect->retired) {
            emu_effect_drop(effect);
            continue;
        }
        self->effects = grown(self->effects, self->count, &self->capacity, sizeof(emu_effect *));
        self->effects[self->count++] = effect;
        effect->references++;
        group->effects[kept++] = effect;
    }
    if (group)
        group->effect_count = kept;
}

void emu_api_cp_async_arrive(emu_u32 barrier) {
    static const char *const what = "cp.async.mbarrier.arrive";
    emu_thread *thread = emu_self();
    uintptr_t origin = EMU_ORIGIN;
    copy_groups *groups = groups_of(thread);
    emu_mbarrier *found = emu_mbarrier_find(thread, barrier, false, what, origin);
    post_copies(thread, groups->open, origin);
    arrival *self = emu_async_new(thread, sizeof *self, what, origin);
    self->async.queue = groups;
    self->async.run = arrival_run;
    self->async.dispose = arrival_dispose;
    for (copy_group *group = groups->first; group; group = group->next)
        track(self, group);
    track(self, groups->open);
    emu_signal_begin(&self->signal, found, &self->async.site);
    emu_async_post(&self->async);
    if (groups->open)
        groups->open->sealed = groups->open->effect_count;
}

/* ---- hooks ---- */

void emu_sm80_begin(emu_block *block) {
    (void)block;
}

static void groups_free(emu_thread *thread) {
    copy_groups *groups = thread->sm80;
    if (!groups)
        return;
    group_free(groups->open);
    while (groups->first) {
        copy_group *next = groups->first->next;
        group_free(groups->first);
        groups->first = next;
    }
    emu_effect_drop(groups->reading);
    emu_view_clear(&groups->seen);
    emu_view_clear(&groups->view);
    free(groups);
    thread->sm80 = NULL;
}

/* A thread may end without a wait: then nobody ever learns that the copies are over, and whoever reads what they wrote
 * is told so. */
void emu_sm80_exit(emu_thread *thread, uintptr_t origin) {
    (void)origin;
    if (thread->sm80)
        emu_async_flush(thread->block->launch, thread->sm80);
    groups_free(thread);
}

void emu_sm80_end(emu_block *block) {
    (void)block;
}

void emu_sm80_dispose(emu_block *block) {
    for (uint32_t i = 0; i < block->launch->threads; i++)
        groups_free(&block->threads[i]);
}
