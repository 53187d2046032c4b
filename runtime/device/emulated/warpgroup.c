/* A warpgroup's instructions, compared between its warps. */
#include "warpgroup.h"

#include <stdlib.h>
#include <string.h>

#include "core.h"

struct emu_steps {
    emu_step *steps; /* [number - base] */
    size_t base, end, capacity;
    size_t position[EMU_GROUP_WARPS]; /* steps that the warp has executed */
};

struct emu_wgmma *emu_wgmma_of(emu_block *block) {
    if (block->wgmma)
        return block->wgmma;
    uint32_t warps = (block->launch->threads + EMU_WARP - 1) / EMU_WARP;
    struct emu_wgmma *all = calloc(1, sizeof *all);
    if (!all)
        emu_out_of_memory();
    block->wgmma = all;
    all->steps = calloc(warps / EMU_GROUP_WARPS + 1, sizeof *all->steps);
    all->warps = calloc(warps, sizeof(emu_warp_matrix *));
    all->registers = calloc(warps, sizeof *all->registers);
    if (!all->steps || !all->warps || !all->registers)
        emu_out_of_memory();
    return all;
}

/* ---- steps ---- */

static void append(emu_steps *log, const emu_step *step) {
    size_t kept = log->end - log->base;
    if (kept == log->capacity) {
        size_t capacity = log->capacity ? log->capacity * 2 : 64;
        emu_step *grown = realloc(log->steps, capacity * sizeof *grown);
        if (!grown)
            emu_out_of_memory();
        log->steps = grown;
        log->capacity = capacity;
    }
    log->steps[kept] = *step;
    log->end++;
}

/* Forgets what all four have executed; seldom, since it moves the rest. */
static void forget(emu_steps *log) {
    size_t first = log->end;
    for (int i = 0; i < EMU_GROUP_WARPS; i++)
        if (log->position[i] < first)
            first = log->position[i];
    if (first - log->base < 32 || (first - log->base) * 2 < log->end - log->base)
        return;
    memmove(log->steps, log->steps + (first - log->base), (log->end - first) * sizeof *log->steps);
    log->base = first;
}

void emu_warpgroup_step(emu_thread *first, const emu_step *step) {
    emu_block *block = first->block;
    emu_launch *launch = block->launch;
    uint32_t group = first->warp / EMU_GROUP_WARPS, warp = first->warp % EMU_GROUP_WARPS;
    if ((group + 1) * EMU_GROUP_THREADS > launch->threads)
        emu_fault(first, step->site.origin,
                  "%s in warp %u: its warpgroup has only %u threads; an instruction of a warpgroup needs 128, which "
                  "begin at a multiple of 128",
                  step->name, first->warp, launch->threads - group * EMU_GROUP_THREADS);
    emu_steps *log = &emu_wgmma_of(block)->steps[group];
    if (log->position[warp] == log->end) {
        for (uint32_t i = 0; i < EMU_GROUP_WARPS; i++)
            if (block->threads[(size_t)(group * EMU_GROUP_WARPS + i) * EMU_WARP].state == EMU_EXITED)
                emu_fault(first, step->site.origin,
                          "%s in warp %u of warpgroup %u, but its warp %u has exited without it: all four warps must "
                          "execute it",
                          step->name, warp, group, i);
        append(log, step);
    }
    const emu_step *expected = &log->steps[log->position[warp] - log->base];
    if (expected->name != step->name && strcmp(expected->name, step->name) != 0)
        emu_fault(first, step->site.origin,
                  "the warps of warpgroup %u execute different instructions: warp %u %s, another one %s (at %s)", group,
                  warp, step->name, expected->name, emu_place(launch, &expected->site));
    if (expected->a != step->a || expected->b != step->b || expected->number != step->number)
        emu_fault(first, step->site.origin,
                  "the warps of warpgroup %u execute %s with different operands: warp %u with 0x%llx, 0x%llx, 0x%x, "
                  "another one with 0x%llx, 0x%llx, 0x%x (at %s)",
                  group, step->name, warp, (unsigned long long)step->a, (unsigned long long)step->b, step->number,
                  (unsigned long long)expected->a, (unsigned long long)expected->b, expected->number,
                  emu_place(launch, &expected->site));
    log->position[warp]++;
    forget(log);
}

/* ---- hooks ---- */

void emu_wgmma_begin(emu_block *block) {
    (void)block; /* made at its first use */
}

/* The first lane speaks for its warp: the others' instructions need it, too. */
void emu_wgmma_exit(emu_thread *thread, uintptr_t origin) {
    struct emu_wgmma *all = thread->block->wgmma;
    uint32_t group = thread->warp / EMU_GROUP_WARPS, warp = thread->warp % EMU_GROUP_WARPS;
    (void)origin;
    if (!all || thread->lane != 0)
        return;
    if (all->warps[thread->warp])
        emu_matrix_exit(all->warps[thread->warp]);
    emu_steps *log = &all->steps[group];
    if (log->position[warp] < log->end) {
        const emu_step *missed = &log->steps[log->position[warp] - log->base];
        emu_fault_at(thread->block->launch, &missed->site,
                     "warp %u of warpgroup %u has exited without the %s that another warp has executed here: all four "
                     "warps must execute it",
                     warp, group, missed->name);
    }
}

void emu_wgmma_end(emu_block *block) {
    (void)block; /* checked at the threads' exit */
}

void emu_wgmma_dispose(emu_block *block) {
    struct emu_wgmma *all = block->wgmma;
    uint32_t warps = (block->launch->threads + EMU_WARP - 1) / EMU_WARP;
    if (!all)
        return;
    for (uint32_t i = 0; all->steps && i <= warps / EMU_GROUP_WARPS; i++)
        free(all->steps[i].steps);
    for (uint32_t i = 0; all->warps && i < warps; i++)
        emu_matrix_free(all->warps[i]);
    free(all->steps);
    free((void *)all->warps);
    free(all->registers);
    free(all);
    block->wgmma = NULL;
}
