/* What other parts ask of clusters and dependent launches; cluster.c. */
#ifndef MLPBWD_EMULATED_CLUSTER_H
#define MLPBWD_EMULATED_CLUSTER_H

#include "emulator.h"

/* The thread itself (not an operation that it issues) touches shared memory of another block of its cluster, or arrives
 * at its mbarrier. That block must not end before it is known to be over: checked at its end. */
void emu_cluster_reach(emu_thread *thread, const emu_block *block, uintptr_t origin);

/* Has griddepcontrol.wait been executed by the thread, or by one of its cluster whose doing so is known to it? */
bool emu_dependency_known(emu_thread *thread);

#endif
