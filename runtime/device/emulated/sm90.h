/* mbarriers as asynchronous operations (bulk and tensor copies, tcgen05.commit, cluster launch control) use them; PTX
 * ISA 9.7.13.15. mbarrier.c has the functions.
 *
 * An operation finds its barriers and begins a signal on each when it is issued; when it runs, it retires its effects
 * with the signal's epoch and then gives the signal, once. */
#ifndef MLPBWD_EMULATED_SM90_H
#define MLPBWD_EMULATED_SM90_H

#include "emulator.h"

typedef struct emu_mbarrier emu_mbarrier;

/* The barrier at a shared address: of the thread's own block, or of another block of its cluster. Faults: the address
 * is outside or not a multiple of 8, no mbarrier is live there, its initialisation is not known to the thread; where
 * asynchronous, also one that no fence has made visible to the asynchronous proxy. what: who uses it, for messages
 * ("bulk copy"), static. */
emu_mbarrier *emu_mbarrier_find(emu_thread *thread, uint32_t address, bool asynchronous, const char *what,
                                uintptr_t origin);
/* The same at an offset in the shared memory of a block of the cluster (multicast: the same offset in each). */
emu_mbarrier *emu_mbarrier_at(emu_thread *thread, emu_block *block, uint32_t offset, bool asynchronous,
                              const char *what, uintptr_t origin);

/* fence.mbarrier_init by this thread: the barriers that it has initialised count as visible to asynchronous operations
 * of whoever knows of this fence (a barrier of the block or cluster must follow). For fence() of the table. */
void emu_mbarrier_init_fence(emu_thread *thread);

/* A thread arrives, after adding expected_bytes to the phase's bytes; releases what the thread knows. Faults: more
 * arrivals than the phase has left, too many bytes. */
void emu_mbarrier_thread_arrives(emu_mbarrier *barrier, emu_thread *thread, uint32_t count, uint32_t expected_bytes,
                                 uintptr_t origin);

/* What an operation owes a barrier. */
typedef struct emu_signal {
    emu_mbarrier *barrier;
    uint32_t phase; /* in which the operation was issued */
} emu_signal;

/* At the operation's issue. A block that ends while one of its barriers is owed a signal is at fault. */
void emu_signal_begin(emu_signal *signal, emu_mbarrier *barrier, const emu_site *issuer);
/* The effect is over for everybody who has waited for the phase that this signal will be counted in. Before giving. */
void emu_signal_retire(const emu_signal *signal, emu_effect *effect);
/* complete_tx of so many bytes. Fault: the phase in which the operation was issued is over (its expect_tx was too
 * small). */
void emu_signal_bytes(const emu_signal *signal, const emu_async *operation, uint32_t bytes);
/* arrive::one; view: what whoever waits for the phase then knows, too; NULL: only the epoch of the phase. */
void emu_signal_arrive(const emu_signal *signal, const emu_async *operation, const emu_view *view);

/* ---- bulk groups (bulk.c) ---- */

/* A store or reduction of the thread, from shared to global memory, joins its open bulk group: commit_group closes the
 * group, wait_group retires the effects. Takes a reference of each from the caller; write may be NULL. Returns the
 * queue that its emu_async must have. */
const void *emu_bulk_join(emu_thread *thread, emu_effect *read, emu_effect *write);

#endif
