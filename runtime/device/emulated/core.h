/* What the core's files share beyond emulator.h: fibers, and the end of a launch. */
#ifndef EMULATED_CORE_H
#define EMULATED_CORE_H

#include "emulator.h"

/* ---- fiber.c ---- */

typedef struct emu_fiber emu_fiber;
typedef struct emu_fibers emu_fibers;
/* `count` fibers that each wait for work, with stacks; NULL without memory. For one OS thread at a time. */
emu_fibers *emu_fibers_new(uint32_t count);
void emu_fibers_free(emu_fibers *fibers); /* also while some are in the middle of their work; NULL is harmless */
emu_fiber *emu_fiber_at(emu_fibers *fibers, uint32_t number, unsigned char **stack);
/* Runs work(argument) in the fiber, or goes on with what it was doing, until it calls emu_fiber_pause or is done. */
void emu_fiber_resume(emu_fibers *fibers, emu_fiber *fiber, void (*work)(void *argument), void *argument);
/* From within a fiber: back to whoever resumed it. */
void emu_fiber_pause(emu_fibers *fibers, emu_fiber *fiber);

/* ---- launch.c ---- */

/* Ends the running launch after launch->fault was filled: returns to the scheduler. */
_Noreturn void emu_abandon(emu_launch *launch);
/* Ends it for want of memory. */
_Noreturn void emu_out_of_memory(void);

/* ---- fault.c ---- */
/* Fills launch->fault with what every thread waits for. */
void emu_deadlock(emu_launch *launch);

/* ---- clock.c ---- */
void emu_clock_forget(void); /* drops what is remembered between calls; at a launch's end */

#endif
