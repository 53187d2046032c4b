/* What sm80.c and matrix.c share. */
#ifndef EMULATED_SM80_H
#define EMULATED_SM80_H

#include "emulator.h"

/* The thread's view with all that it has done itself up to now; valid until the next call for the thread. */
const emu_view *emu_own_view(emu_thread *thread);

#endif
