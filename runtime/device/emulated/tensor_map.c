/* Tensor maps (PTX ISA 5.5): encoding, finding in a kernel's memory, and where the rows of a box lie. */
#include "tensor.h"

#include <string.h>

enum { MAP_ALIGNMENT = 64, MAP_BYTES = 128 };
static const uint64_t magic = UINT64_C(0x70616d726f736e74); /* "tnsormap" */

_Static_assert(sizeof(emu_tensor_map) <= MAP_BYTES, "an emulated tensor map must fit into 128 bytes");

/* FNV-1a, of everything behind the check itself. */
static uint64_t check_of(const emu_tensor_map *map) {
    const unsigned char *bytes = (const unsigned char *)map;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = offsetof(emu_tensor_map, address); i < sizeof *map; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

mlpbwd_status emu_tensor_map_encode(dev_context *context, const dev_tensor *tensor, dev_tensor_map *out,
                                    mlp_message *why) {
    static const uint8_t element_bytes[] = {[DEV_U8] = 1, [DEV_F16] = 2, [DEV_BF16] = 2, [DEV_F32] = 4};
    static const uint8_t swizzles[] = {[DEV_SWIZZLE_NONE] = LAYOUT_SWIZZLE_NONE,
                                       [DEV_SWIZZLE_32B] = LAYOUT_SWIZZLE_32B,
                                       [DEV_SWIZZLE_64B] = LAYOUT_SWIZZLE_64B,
                                       [DEV_SWIZZLE_128B] = LAYOUT_SWIZZLE_128B};
    emu_tensor_map map;
    (void)context;
    (void)why;
    memset(&map, 0, sizeof map);
    map.magic = magic;
    map.address = (uint64_t)(uintptr_t)tensor->address;
    map.rank = (uint8_t)tensor->rank;
    map.element = (uint8_t)tensor->element;
    map.element_bytes = element_bytes[tensor->element];
    map.swizzle = swizzles[tensor->swizzle];
    for (int i = 0; i < tensor->rank; i++) {
        map.last[i] = (uint32_t)(tensor->size[i] - 1);
        map.box[i] = (uint16_t)tensor->box[i];
        if (i > 0)
            map.stride[i - 1] = tensor->stride[i - 1];
    }
    map.check = check_of(&map);
    memset(out, 0, sizeof *out);
    memcpy(out, &map, sizeof map);
    return MLPBWD_OK;
}

/* ---- finding ---- */

static bool within(uintptr_t address, uintptr_t first, size_t bytes) {
    return address >= first && address - first < bytes;
}

/* 9.7.9.25.5.2: the map is in .param, .const or .global space. A parameter stands on the thread's stack here. */
static void check_place(emu_thread *thread, uintptr_t address, const char *what, uintptr_t origin) {
    const emu_block *block = thread->block;
    const emu_code *code = block->launch->code;
    void *memory = (void *)address;
    if (address % MAP_ALIGNMENT)
        emu_fault(thread, origin, "%s: the tensor map at %p is not aligned to %d bytes", what, memory, MAP_ALIGNMENT);
    if (within(address, (uintptr_t)thread->stack, EMU_STACK_BYTES) ||
        within(address, code->first, code->end - code->first))
        return;
    if (within(address, (uintptr_t)block->shared, block->shared_bytes))
        emu_fault(thread, origin,
                  "%s: the tensor map is in shared memory; it must be a __grid_constant__ parameter, a constant or in "
                  "global memory",
                  what);
    if (!emu_global_contains(memory, MAP_BYTES))
        emu_fault(thread, origin,
                  "%s: the tensor map's address %p is neither a parameter's nor a constant's nor in global memory",
                  what, memory);
    emu_global_access(thread, address, MAP_BYTES, false, origin);
}

void emu_tensor_map_read(emu_thread *thread, const void *address, int rank, const char *what, emu_tensor_map *out,
                         uintptr_t origin) {
    check_place(thread, (uintptr_t)address, what, origin);
    memcpy(out, address, sizeof *out);
    if (out->magic != magic)
        emu_fault(
            thread, origin,
            "%s: there is no tensor map of an emulated device at %p (it has to come from dev_tensor_map_encode for "
            "this device)",
            what, (void *)(uintptr_t)address);
    if (out->check != check_of(out))
        emu_fault(thread, origin, "%s: the tensor map at %p has been changed since it was encoded", what,
                  (void *)(uintptr_t)address);
    if (rank && out->rank != rank)
        emu_fault(thread, origin, "%s of %d dimensions with a tensor map of %u", what, rank, out->rank);
}

/* ---- boxes ---- */

uint32_t emu_tensor_row_bytes(const emu_tensor_map *map) {
    return (uint32_t)map->box[0] * map->element_bytes;
}

uint32_t emu_tensor_rows(const emu_tensor_map *map) {
    uint32_t rows = 1;
    for (int i = 1; i < map->rank; i++)
        rows *= map->box[i];
    return rows;
}

emu_tensor_row emu_tensor_row_at(const emu_tensor_map *map, const int *origin, uint32_t row) {
    emu_tensor_row result = {0};
    int64_t first = origin[0], end = first + map->box[0], size = (int64_t)map->last[0] + 1;
    uint64_t address = map->address;
    for (int i = 1; i < map->rank; i++) {
        int64_t at = (int64_t)origin[i] + row % map->box[i];
        row /= map->box[i];
        if (at < 0 || at > map->last[i])
            return result;
        address += (uint64_t)at * map->stride[i - 1];
    }
    int64_t from = first < 0 ? 0 : first, to = end > size ? size : end;
    if (from >= to)
        return result;
    result.address = (uintptr_t)(address + (uint64_t)from * map->element_bytes);
    result.first = (uint32_t)(from - first) * map->element_bytes;
    result.count = (uint32_t)(to - from) * map->element_bytes;
    return result;
}
