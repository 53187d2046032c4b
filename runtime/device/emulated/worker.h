/* An OS thread that a block's CUDA threads run in, as fibers. Private to launch.c and worker.c. */
#ifndef EMULATED_WORKER_H
#define EMULATED_WORKER_H

#include "core.h"

/* Starts the OS thread, which waits. NULL without memory or threads. */
emu_worker *emu_worker_new(emu_launch *launch);
/* Ends it, whatever its fibers are in the middle of. NULL is harmless. */
void emu_worker_free(emu_worker *worker);
/* Gives it a fresh block: fills the block's fields about shared memory, which is poisoned. */
void emu_worker_prepare(emu_worker *worker, emu_block *block);
/* Runs the block's threads until all wait or have exited, or one left with a fault. */
void emu_worker_run(emu_worker *worker);
/* Has the block a thread that could go on? (Asks their ready functions.) */
bool emu_worker_can_run(emu_block *block);
/* Are threads polling (emu_yield)? */
bool emu_worker_polls(const emu_block *block);
/* From a fiber, after a fault: back to emu_worker_run's caller for good. */
_Noreturn void emu_worker_leave(emu_thread *thread);

#endif
