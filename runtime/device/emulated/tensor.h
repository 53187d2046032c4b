/* Tensor maps of emulated devices: an encoding of our own in the 128 bytes, made by emu_tensor_map_encode.
 * tensor_map.c. */
#ifndef MLPBWD_EMULATED_TENSOR_H
#define MLPBWD_EMULATED_TENSOR_H

#include "device/device.h"
#include "emulator.h"
#include "layout.h"

enum { TENSOR_MOST_BYTES = (1 << 20) - 1 /* that an mbarrier counts: 9.7.13.15.5 */ };

typedef struct emu_tensor_map {
    uint64_t magic, check; /* check: over all that follows */
    uint64_t address;
    uint64_t stride[DEV_MAX_TENSOR_RANK - 1];      /* bytes; [i] of dimension i + 1 */
    uint32_t last[DEV_MAX_TENSOR_RANK];            /* size - 1 */
    uint16_t box[DEV_MAX_TENSOR_RANK];             /* elements */
    uint8_t rank, element, element_bytes, swizzle; /* enum dev_element, enum layout_swizzle */
} emu_tensor_map;

/* dev_tensor_map_encode of emulated devices; the tensor has been checked. Never fails. */
mlpbwd_status emu_tensor_map_encode(dev_context *context, const dev_tensor *tensor, dev_tensor_map *out,
                                    mlp_message *why);

/* The map at an address that a kernel gave, copied. Faults: not aligned to 64 bytes; not in a parameter, a constant or
 * global memory; no map of an emulated device, or a damaged one; of another rank than the instruction's. */
void emu_tensor_map_read(emu_thread *thread, const void *address, int rank, const char *what, emu_tensor_map *out,
                         uintptr_t origin);

uint32_t emu_tensor_row_bytes(const emu_tensor_map *map); /* of the box */
uint32_t emu_tensor_rows(const emu_tensor_map *map);      /* of the box: all outer dimensions together */

/* What a row of the box at `origin` has in the tensor. */
typedef struct emu_tensor_row {
    uintptr_t address;     /* in global memory, of byte `first` of the row */
    uint32_t first, count; /* bytes of the row that lie in the tensor; count 0: none */
} emu_tensor_row;
emu_tensor_row emu_tensor_row_at(const emu_tensor_map *map, const int *origin, uint32_t row);

#endif
