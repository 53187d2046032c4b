/* The functions that an emulated kernel is bound to. */
#include "emulator.h"

#define ENTRY(result, name, parameters) .name = emu_api_##name,
const struct emu_api emu_api_table = {EMU_API_LIST(ENTRY)};
