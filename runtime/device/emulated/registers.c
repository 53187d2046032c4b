/* setmaxnreg (PTX ISA 9.7.19.5): warps give registers to the block's pool and take them from there. */
#include <stdio.h>

#include "warpgroup.h"

enum { FILE_REGISTERS = 65536 /* of an SM */, LEAST = 24, MOST = 256, STEP = 8 };

typedef struct register_request {
    emu_thread *thread;
    uint32_t count;
    bool increase;
    uintptr_t origin;
} register_request;

/* What a thread has at the kernel's start: ptxas may use what __launch_bounds__ allows, and the kernels here do. */
static uint32_t at_start(const emu_block *block) {
    uint32_t share = FILE_REGISTERS / block->launch->threads / STEP * STEP;
    return share < MOST ? share : MOST;
}

/* Registers of a thread of the warp; 0 in the table: as at the start. */
static uint32_t *held_by(emu_thread *thread) {
    uint32_t *held = &emu_wgmma_of(thread->block)->registers[thread->warp];
    if (*held == 0)
        *held = at_start(thread->block);
    return held;
}

static void execute(emu_thread *first, void *const requests[EMU_WARP]) {
    const register_request *request = requests[0];
    emu_step step = {.name = request->increase ? "setmaxnreg.inc" : "setmaxnreg.dec",
                     .number = request->count,
                     .site = emu_site_of(first, request->origin)};
    emu_warpgroup_step(first, &step);
    uint32_t *held = held_by(first);
    if (request->increase ? request->count < *held : request->count > *held)
        emu_fault(first, request->origin,
                  "%s to %u registers, but a thread has %u (65536 shared by the block's %u threads at its start): it "
                  "must not be %s",
                  step.name, request->count, *held, first->block->launch->threads,
                  request->increase ? "fewer" : "more");
    if (!request->increase) {
        first->block->wgmma->free_registers += (*held - request->count) * EMU_WARP;
        *held = request->count;
    }
}

/* The first lane to find enough takes them for its warp. */
static bool taken(emu_thread *thread, void *object) {
    const register_request *request = object;
    uint32_t *held = held_by(thread), *pool = &thread->block->wgmma->free_registers;
    uint32_t more = request->count > *held ? (request->count - *held) * EMU_WARP : 0;
    if (more > *pool)
        return false;
    *pool -= more;
    if (more)
        *held = request->count;
    return true;
}

static void describe(const emu_thread *thread, void *object, char *text, size_t capacity) {
    const register_request *request = object;
    const struct emu_wgmma *all = thread->block->wgmma;
    uint32_t more = (request->count - all->registers[thread->warp]) * EMU_WARP;
    snprintf(text, capacity,
             "setmaxnreg.inc from %u to %u registers: its warp needs %u more, and %u are free of the block's pool; "
             "somebody must release them with setmaxnreg.dec",
             all->registers[thread->warp], request->count, more, all->free_registers);
}

void emu_api_registers(int increase, emu_u32 count) {
    uintptr_t origin = EMU_ORIGIN;
    emu_thread *thread = emu_self();
    register_request request = {thread, count, increase != 0, origin};
    if (count < LEAST || count > MOST || count % STEP)
        emu_fault(thread, origin, "setmaxnreg to %u registers; it must be a multiple of 8 from 24 to 256", count);
    emu_warp_meet(thread, ~0U, increase ? "setmaxnreg.inc" : "setmaxnreg.dec", false, &request, execute, origin);
    if (increase)
        emu_wait(thread, taken, &request, describe, origin);
}
