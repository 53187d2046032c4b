/* Texts of reports about memory: where it is, and who accessed it before. */
#include <stdio.h>
#include <stdlib.h>

#include "core.h"
#include "shadow.h"

/* Indices of the launch's blocks in the order in which they became resident: that of their clusters' generations. */
static struct {
    uint32_t (*index)[3];
    size_t capacity;
    uint32_t base, size; /* of the first cluster; blocks a cluster */
} blocks;

void emu_trace_begin(void) {
    blocks.base = blocks.size = 0;
}

void emu_trace_end(void) {
    free(blocks.index);
    blocks.index = NULL;
    blocks.capacity = 0;
}

uint32_t emu_trace_base(void) {
    return blocks.base;
}

void emu_trace_block(const emu_block *block) {
    if (blocks.size == 0) {
        blocks.base = block->cluster->generation;
        blocks.size = block->cluster->size;
    }
    size_t at = (size_t)(block->cluster->generation - blocks.base) * blocks.size + block->rank;
    if (at >= blocks.capacity) {
        size_t capacity = at * 2 + 64;
        uint32_t(*grown)[3] = realloc(blocks.index, capacity * sizeof *grown);
        if (!grown)
            emu_out_of_memory();
        memset(grown + blocks.capacity, 0, (capacity - blocks.capacity) * sizeof *grown);
        blocks.index = grown;
        blocks.capacity = capacity;
    }
    memcpy(blocks.index[at], block->index, sizeof blocks.index[at]);
}

emu_site emu_record_site(const emu_launch *launch, const emu_record *record) {
    const uint64_t near = launch->code->first, high = near & ~(uint64_t)UINT32_MAX, half = (uint64_t)1 << 31;
    uint64_t origin = high | record->origin;
    if (origin + half < near)
        origin += 2 * half;
    else if (origin > near + half && origin >= 2 * half)
        origin -= 2 * half;
    emu_site site = {.origin = (uintptr_t)origin};
    uint32_t slots = launch->resident->slots_of_block, rank = record->slot / slots, number = record->slot % slots;
    size_t at = (size_t)(record->generation - blocks.base) * blocks.size + rank;
    if (record->generation >= blocks.base && at < blocks.capacity)
        memcpy(site.block, blocks.index[at], sizeof site.block);
    const uint32_t *size = launch->dims.block;
    site.thread[0] = number % size[0];
    site.thread[1] = number / size[0] % size[1];
    site.thread[2] = number / size[0] / size[1];
    return site;
}

void emu_shared_name(const emu_block *block, uint32_t offset, char *text, size_t capacity) {
    size_t used = (size_t)snprintf(text, capacity, "shared memory at 0x%x", EMU_SHARED_START + offset);
    if (used < capacity && offset >= block->dynamic_start && offset < block->dynamic_start + EMU_SHARED_WINDOW)
        used +=
            (size_t)snprintf(text + used, capacity - used, " (byte %u of the dynamic)", offset - block->dynamic_start);
    else if (used < capacity)
        used += (size_t)snprintf(text + used, capacity - used, " (a static variable)");
    if (used < capacity && block->cluster->size > 1)
        snprintf(text + used, capacity - used, " of block %u of the cluster", block->rank);
}

void emu_global_name(uintptr_t address, char *text, size_t capacity) {
    const emu_allocation *allocation = emu_allocation_of(address);
    if (allocation)
        snprintf(text, capacity, "global memory at 0x%llx (byte %llu of an allocation of %zu)",
                 (unsigned long long)address, (unsigned long long)(address - allocation->start), allocation->bytes);
    else
        snprintf(text, capacity, "global memory at 0x%llx", (unsigned long long)address);
}

/* ---- faults ---- */

static const char *noun(int kind) {
    return kind == 0 ? "read" : kind == EMU_WRITE ? "write" : kind == EMU_ATOMIC ? "ordered load" : "atomic operation";
}

void emu_race_fault(emu_thread *thread, const emu_actor *actor, uintptr_t origin, uint32_t bytes,
                    const emu_record *other, const char *where) {
    const emu_launch *launch = thread->block->launch;
    uint32_t slots = thread->block->cluster->slots_of_block;
    bool same_cluster = other->generation == actor->generation;
    bool same_block = same_cluster && other->slot / slots == actor->slot / slots;
    bool same_warp = same_block && other->slot % slots / EMU_WARP == actor->slot % slots / EMU_WARP;
    const char *who = same_warp      ? "two threads of one warp"
                      : same_block   ? "two threads of one block"
                      : same_cluster ? "two blocks of one cluster"
                                     : "two blocks";
    const char *order = same_warp      ? "a __syncwarp"
                        : same_block   ? "a barrier"
                        : same_cluster ? "a barrier of the cluster"
                                       : "a release and an acquire of one word";
    emu_site site = emu_record_site(launch, other);
    emu_fault(thread, origin,
              "race between %s on %s: %s of %u bytes after the %s at %s, and nothing orders the two; %s would", who,
              where, noun(actor->kind), bytes, noun(other->kind), emu_place(launch, &site), order);
}

void emu_order_fault(emu_launch *launch, const emu_effect *effect, const emu_record *other, const char *where,
                     enum emu_known how) {
    emu_site site = emu_record_site(launch, other);
    const char *does = effect->writes ? "writes" : "reads", *place = emu_place(launch, &site);
    if (how == EMU_UNFENCED)
        emu_fault_at(
            launch, &effect->site,
            "%s %s %s after the %s at %s through the generic proxy; a fence.proxy.async after that, on the way "
            "to this, is missing",
            effect->what, does, where, noun(other->kind), place);
    emu_fault_at(launch, &effect->site,
                 "race: %s %s %s, but the %s at %s is not known to come before; a barrier between the two is missing",
                 effect->what, does, where, noun(other->kind), place);
}
