/* Every load and store of a kernel's own code comes through emu_api_access; and the loads and stores that name shared
 * memory by its address (ld.shared, st.shared and their shared::cluster forms). */
#include <stdio.h>

#include "cluster.h"
#include "core.h"
#include "shadow.h"

emu_block *emu_shared_of(const emu_thread *thread, uintptr_t address, uint32_t *offset) {
    const emu_cluster *cluster = thread->block->cluster;
    for (uint32_t i = 0; i < cluster->size; i++) {
        emu_block *block = &cluster->blocks[(thread->block->rank + i) % cluster->size];
        if (address - (uintptr_t)block->shared < block->shared_bytes) {
            *offset = (uint32_t)(address - (uintptr_t)block->shared);
            return block;
        }
    }
    return NULL;
}

/* Registers that an asynchronous operation still owns: the compiler keeps them on the thread's stack. */
static void check_registers(emu_thread *thread, uintptr_t address, uint32_t bytes, bool write, uintptr_t origin) {
    for (const emu_registers *at = thread->registers; at; at = at->next) {
        if (address >= at->end || address + bytes <= at->first || (at->reads_allowed && !write))
            continue;
        const char *before = strstr(at->what, "before")  ? ""
                             : strstr(at->what, "wgmma") ? " before wgmma.wait_group"
                                                         : " before the wait that gives them back";
        emu_fault(thread, origin, "%s are %s%s; issued at %s", at->what, write ? "written" : "read", before,
                  emu_place(thread->block->launch, &at->site));
    }
}

/* What is neither on the stack nor in shared or global memory. */
static void access_elsewhere(emu_thread *thread, uintptr_t address, uint32_t bytes, bool write, uintptr_t origin) {
    const emu_launch *launch = thread->block->launch;
    const emu_code *code = launch->code;
    const char *verb = write ? "write" : "read";
    uint32_t offset;
    emu_block *block = emu_shared_of(thread, address, &offset);
    if (block) {
        emu_shared_access(thread, block, offset, bytes, write, origin);
        return;
    }
    if (address >= code->first && address + bytes <= code->end) {
        if (write)
            emu_fault(thread, origin,
                      "write of %u bytes at 0x%llx, a variable of the module; kernels may only read such", bytes,
                      (unsigned long long)address);
        return;
    }
    if (!write && address - (uintptr_t)&emu_api_table < sizeof emu_api_table)
        return;
    if (address < EMU_PAGE)
        emu_fault(thread, origin, "%s of %u bytes at 0x%llx: a null pointer", verb, bytes, (unsigned long long)address);
    for (uint32_t i = 0; i < launch->threads; i++) {
        const emu_thread *other = &thread->block->threads[i];
        if (address - (uintptr_t)other->stack < EMU_STACK_BYTES)
            emu_fault(thread, origin, "%s of %u bytes at 0x%llx, a local variable of thread (%u,%u,%u)", verb, bytes,
                      (unsigned long long)address, other->index[0], other->index[1], other->index[2]);
    }
    emu_global_access(thread, address, bytes, write, origin); /* names the nearest allocation */
}

void emu_api_access(void *address, emu_u32 bytes, int write, const void *origin) {
    emu_thread *thread = emu_self();
    uintptr_t at = (uintptr_t)address;
    if (at - (uintptr_t)thread->stack < EMU_STACK_BYTES) {
        if (thread->registers)
            check_registers(thread, at, bytes, write, (uintptr_t)origin);
        return;
    }
    emu_block *block = thread->block;
    uintptr_t offset = at - (uintptr_t)block->shared;
    if (offset < block->shared_bytes)
        emu_shared_touch(thread, block, (uint32_t)offset, bytes, write ? EMU_WRITE : 0, (uintptr_t)origin);
    else if (emu_memory_is_global(at))
        emu_global_touch(thread, at, bytes, write ? EMU_WRITE : 0, (uintptr_t)origin);
    else
        access_elsewhere(thread, at, bytes, write, (uintptr_t)origin);
}

/* ---- shared-memory addresses ---- */

emu_u32 emu_api_shared_address(const void *pointer) {
    emu_thread *self = emu_self();
    uint32_t offset;
    const emu_block *block = emu_shared_of(self, (uintptr_t)pointer, &offset);
    if (!block)
        emu_fault(self, EMU_ORIGIN, "0x%llx is not an address of shared memory",
                  (unsigned long long)(uintptr_t)pointer);
    return (block->rank << EMU_RANK_SHIFT) + EMU_SHARED_START + offset;
}

static unsigned char *resolve(emu_thread *thread, uint32_t shared, uint32_t bytes, bool write, uintptr_t origin) {
    uint32_t offset;
    if ((bytes & (bytes - 1)) != 0 || shared % bytes != 0)
        emu_fault(thread, origin, "%s of %u bytes of shared memory at 0x%x, which is not a multiple of that",
                  write ? "write" : "read", bytes, shared);
    emu_block *block = emu_shared_resolve(thread, shared, bytes, &offset, origin);
    if (block != thread->block)
        emu_cluster_reach(thread, block, origin);
    emu_shared_access(thread, block, offset, bytes, write, origin);
    return block->shared + offset;
}

void emu_api_load_shared(emu_u32 *registers, emu_u32 shared, emu_u32 bytes) {
    memcpy(registers, resolve(emu_self(), shared, bytes, false, EMU_ORIGIN), bytes);
}

void emu_api_store_shared(const emu_u32 *registers, emu_u32 shared, emu_u32 bytes) {
    memcpy(resolve(emu_self(), shared, bytes, true, EMU_ORIGIN), registers, bytes);
}
