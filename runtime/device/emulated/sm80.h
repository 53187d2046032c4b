/* What sm80.c and matrix.c share. */
#ifndef EMULATED_SM80_H
#define EMULATED_SM80_H

#include "emulator.h"

/* The thread's view with all that it has done itself up to now; valid until the next call for the thread. */
const emu_view *emu_own_view(emu_thread *thread);
/* ldmatrix reads bytes that are not all written. A pipeline loads the fragments of a step that does not come, so what
 * nothing has written is NaN and no fault yet; what is still on its way is one. */
void emu_read_unwritten(emu_thread *thread, emu_block *block, uint32_t offset, uint32_t bytes, uintptr_t origin);

#endif
