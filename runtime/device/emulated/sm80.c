/* cp.async and its groups (PTX ISA 9.7.9.25.3). The bytes arrive when the group is waited for, or earlier. */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "sm80.h"

typedef struct copy {
    uint32_t offset, bytes, copied; /* in the block's shared memory; the rest of bytes becomes zero */
    const unsigned char *from;
} copy;

/* What a thread has begun since its last commit, or one committed group. */
typedef struct copy_group {
    struct copy_group *next;
    copy *copies; /* moves to the operation with the commit */
    size_t count, capacity;
    emu_effect **effects; /* one for each place in the code that a copy came from */
    size_t effect_count, effect_capacity;
} copy_group;

typedef struct copy_groups {
    copy_group *open;         /* NULL: nothing since the last commit */
    copy_group *first, **end; /* committed, oldest first */
    uint32_t committed;
    emu_view seen, view; /* view: what the thread knows, itself included; made when it knew `seen`, at `clock` */
    uint32_t clock;
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

static emu_effect *effect_of(emu_thread *thread, copy_group *group, uintptr_t origin) {
    for (size_t i = 0; i < group->effect_count; i++)
        if (group->effects[i]->site.origin == origin)
            return group->effects[i];
    group->effects = grown(group->effects, group->effect_count, &group->effect_capacity, sizeof group->effects[0]);
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

void emu_api_cp_async_commit(void) {
    emu_thread *thread = emu_self();
    copy_groups *groups = groups_of(thread);
    copy_group *group = open_group(groups); /* an empty group counts, too */
    groups->open = NULL;
    *groups->end = group;
    groups->end = &group->next;
    groups->committed++;
    if (group->count == 0)
        return;
    copies *all = emu_async_new(thread, sizeof *all, "cp.async", EMU_ORIGIN);
    all->async.queue = group;
    all->async.run = copies_run;
    all->async.dispose = copies_dispose;
    all->at = group->copies;
    all->count = group->count;
    group->copies = NULL;
    emu_async_post(&all->async);
}

void emu_api_cp_async_wait(emu_u32 pending) {
    emu_thread *thread = emu_self();
    copy_groups *groups = groups_of(thread);
    while (groups->committed > pending) {
        copy_group *group = groups->first;
        emu_async_flush(thread->block->launch, group);
        for (size_t i = 0; i < group->effect_count; i++)
            emu_effect_retire(group->effects[i], thread->block, emu_slot(thread), thread->clock);
        groups->first = group->next;
        if (!groups->first)
            groups->end = &groups->first;
        groups->committed--;
        group_free(group);
    }
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
    emu_view_clear(&groups->seen);
    emu_view_clear(&groups->view);
    free(groups);
    thread->sm80 = NULL;
}

/* A thread may end without a wait: then nobody ever learns that the copies are over, and whoever reads what they wrote
 * is told so. */
void emu_sm80_exit(emu_thread *thread, uintptr_t origin) {
    (void)origin;
    copy_groups *groups = thread->sm80;
    for (copy_group *group = groups ? groups->first : NULL; group; group = group->next)
        emu_async_flush(thread->block->launch, group);
    groups_free(thread);
}

void emu_sm80_end(emu_block *block) {
    (void)block;
}

void emu_sm80_dispose(emu_block *block) {
    for (uint32_t i = 0; i < block->launch->threads; i++)
        groups_free(&block->threads[i]);
}
