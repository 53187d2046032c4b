/* A block's shared memory: bounds, never-written reads, races of threads; addresses in a cluster. */
#include <stdio.h>
#include <stdlib.h>

#include "core.h"
#include "shadow.h"

static struct emu_shadow *unused; /* shadows of blocks that have ended */

/* ---- bounds, opaque objects ---- */

const char *emu_shared_outside(const emu_block *block, uint32_t offset, uint32_t bytes) {
    static char text[200];
    uint64_t end = (uint64_t)offset + bytes, limit = (uint64_t)block->dynamic_start + block->dynamic_bytes;
    if (end <= block->dynamic_start || (offset >= block->dynamic_start && end <= limit))
        return NULL;
    if (offset >= block->dynamic_start + EMU_SHARED_WINDOW && end <= block->shared_bytes)
        return NULL; /* static variables behind the window */
    if (end > block->shared_bytes)
        snprintf(text, sizeof text, "is outside shared memory, which ends at 0x%x",
                 EMU_SHARED_START + block->shared_bytes);
    else
        snprintf(text, sizeof text, "ends %llu bytes behind the %u bytes of dynamic shared memory that the launch gave",
                 (unsigned long long)(end - limit), block->dynamic_bytes);
    return text;
}

const emu_opaque *emu_shared_opaque_at(const emu_block *block, uint32_t offset, uint32_t bytes) {
    const struct emu_shadow *shadow = block->shadow;
    for (uint32_t i = 0; i < shadow->opaque_count; i++)
        if (shadow->opaque[i].offset < offset + bytes && offset < shadow->opaque[i].offset + shadow->opaque[i].bytes)
            return &shadow->opaque[i];
    return NULL;
}

static void mark_opaque(struct emu_shadow *shadow, uint32_t offset, uint32_t bytes, bool set) {
    for (uint32_t at = offset & ~7u; at < offset + bytes; at += 8) {
        uint8_t bit = at % EMU_CHUNK ? EMU_OPAQUE_HIGH : EMU_OPAQUE_LOW, *state = &shadow->state[at / EMU_CHUNK];
        *state = (uint8_t)(set ? *state | bit : *state & ~bit);
    }
}

void emu_shared_opaque(emu_block *block, uint32_t offset, uint32_t bytes, bool set, const char *what) {
    struct emu_shadow *shadow = block->shadow;
    if (set) {
        if (shadow->opaque_count == shadow->opaque_capacity) {
            uint32_t capacity = shadow->opaque_capacity ? shadow->opaque_capacity * 2 : 16;
            emu_opaque *grown = realloc(shadow->opaque, capacity * sizeof *grown);
            if (!grown)
                emu_out_of_memory();
            shadow->opaque = grown;
            shadow->opaque_capacity = capacity;
        }
        shadow->opaque[shadow->opaque_count++] = (emu_opaque){offset, bytes, what};
    } else {
        for (uint32_t i = 0; i < shadow->opaque_count; i++)
            if (shadow->opaque[i].offset == offset)
                shadow->opaque[i] = shadow->opaque[--shadow->opaque_count];
        emu_bits_set(shadow->written, offset, bytes, false);
    }
    mark_opaque(shadow, offset, bytes, set);
}

/* ---- generic accesses ---- */

static const char *verb(int kind) {
    return kind == 0 ? "read" : kind == EMU_WRITE ? "write" : kind == EMU_ATOMIC ? "ordered load" : "atomic operation";
}

/* What is seldom there: an opaque object, asynchronous effects. */
static void check_state(emu_thread *thread, emu_block *block, uint32_t offset, uint32_t bytes, int kind,
                        uintptr_t origin) {
    struct emu_shadow *shadow = block->shadow;
    uint32_t chunk = offset / EMU_CHUNK;
    const emu_opaque *opaque = NULL;
    if (shadow->state[chunk] & (EMU_OPAQUE_LOW | EMU_OPAQUE_HIGH))
        opaque = emu_shared_opaque_at(block, offset, bytes);
    if (opaque) {
        char where[128];
        emu_shared_name(block, offset, where, sizeof where);
        emu_fault(thread, origin,
                  "%s of %u bytes of %s, where there is an object that only its own instructions may use: %s at 0x%x",
                  verb(kind), bytes, where, opaque->what, EMU_SHARED_START + opaque->offset);
    }
    if (shadow->state[chunk] & EMU_HAS_EFFECTS)
        emu_links_check(thread, block, chunk, kind, bytes == EMU_CHUNK, offset, bytes, origin);
}

static void fault_unwritten(emu_thread *thread, const emu_block *block, uint32_t offset, uint32_t bytes, int kind,
                            uintptr_t origin) {
    uint32_t first = offset;
    while (emu_bits_all(block->shadow->written, first, 1))
        first++;
    char where[128];
    emu_shared_name(block, first, where, sizeof where);
    emu_fault(thread, origin, "%s of %u bytes from 0x%x on; %s has never been written", verb(kind), bytes,
              EMU_SHARED_START + offset, where);
}

static void touch_chunk(emu_thread *thread, emu_block *block, uint32_t offset, uint32_t bytes, const emu_actor *actor,
                        uintptr_t origin) {
    struct emu_shadow *shadow = block->shadow;
    uint32_t chunk = offset / EMU_CHUNK;
    uint8_t *state = &shadow->state[chunk];
    emu_record other;
    if (*state & ~EMU_TOUCHED)
        check_state(thread, block, offset, bytes, actor->kind, origin);
    if (actor->kind != EMU_WRITE && !emu_bits_all(shadow->written, offset, bytes))
        fault_unwritten(thread, block, offset, bytes, actor->kind, origin);
    if (!emu_cell_access(&shadow->arena, &shadow->cells[chunk], offset % EMU_CHUNK, bytes, actor, &other)) {
        char where[128];
        emu_shared_name(block, offset, where, sizeof where);
        emu_race_fault(thread, actor, origin, bytes, &other, where);
    }
    *state |= EMU_TOUCHED;
    if (actor->kind & EMU_WRITE)
        emu_bits_set(shadow->written, offset, bytes, true);
}

void emu_shared_touch(emu_thread *thread, emu_block *block, uint32_t offset, uint32_t bytes, int kind,
                      uintptr_t origin) {
    const char *outside = emu_shared_outside(block, offset, bytes);
    if (outside) {
        char where[128];
        emu_shared_name(block, offset, where, sizeof where);
        emu_fault(thread, origin, "%s of %u bytes of %s %s", verb(kind), bytes, where, outside);
    }
    emu_actor actor = emu_actor_of(thread, block->shadow->generation, kind, origin);
    while (bytes > 0) {
        uint32_t room = EMU_CHUNK - offset % EMU_CHUNK, part = bytes < room ? bytes : room;
        touch_chunk(thread, block, offset, part, &actor, origin);
        offset += part;
        bytes -= part;
    }
}

void emu_shared_access(emu_thread *thread, emu_block *block, uint32_t offset, uint32_t bytes, bool write,
                       uintptr_t origin) {
    emu_shared_touch(thread, block, offset, bytes, write ? EMU_WRITE : 0, origin);
}

void emu_shared_written(emu_block *block, uint32_t offset, uint32_t bytes) {
    emu_bits_set(block->shadow->written, offset, bytes, true);
}

/* ---- addresses ---- */

emu_block *emu_shared_resolve(emu_thread *thread, uint32_t address, uint32_t bytes, uint32_t *offset,
                              uintptr_t origin) {
    emu_cluster *cluster = thread->block->cluster;
    uint32_t rank = address >> EMU_RANK_SHIFT, within = address & ((1u << EMU_RANK_SHIFT) - 1);
    if (rank >= cluster->size)
        emu_fault(thread, origin, "shared-memory address 0x%x is of block %u of the cluster, which has %u", address,
                  rank, cluster->size);
    if (within < EMU_SHARED_START)
        emu_fault(thread, origin, "shared-memory address 0x%x: shared memory starts at 0x%x", address,
                  (unsigned)EMU_SHARED_START);
    emu_block *block = &cluster->blocks[rank];
    *offset = within - EMU_SHARED_START;
    const char *outside = emu_shared_outside(block, *offset, bytes);
    if (outside)
        emu_fault(thread, origin, "an access of %u bytes of shared memory at 0x%x %s", bytes, address, outside);
    if (block->live == 0)
        emu_fault(thread, origin,
                  "shared-memory address 0x%x is of block %u of the cluster, all of whose threads have exited; it must "
                  "wait for its peers (barrier.cluster) before it ends",
                  address, rank);
    return block;
}

/* ---- hooks ---- */

static struct emu_shadow *shadow_new(uint32_t bytes) {
    size_t chunks = bytes / EMU_CHUNK + 1;
    struct emu_shadow *shadow = calloc(1, sizeof *shadow);
    if (!shadow)
        return NULL;
    shadow->bytes = bytes;
    shadow->written = calloc(1, bytes / 8 + EMU_BITS_PAD);
    shadow->state = calloc(1, chunks);
    shadow->cells = calloc(chunks, sizeof *shadow->cells);
    shadow->links = calloc(chunks, sizeof *shadow->links);
    return shadow;
}

static void shadow_free(struct emu_shadow *shadow) {
    emu_arena_free(&shadow->arena);
    free(shadow->written);
    free(shadow->state);
    free(shadow->cells);
    free(shadow->links);
    free(shadow->opaque);
    free(shadow);
}

void emu_shared_begin(emu_block *block) {
    struct emu_shadow *shadow = unused;
    if (shadow && shadow->bytes == block->shared_bytes)
        unused = shadow->next;
    else
        shadow = shadow_new(block->shared_bytes);
    if (!shadow)
        emu_out_of_memory();
    block->shadow = shadow;
    if (!shadow->written || !shadow->state || !shadow->cells || !shadow->links)
        emu_out_of_memory();
    shadow->generation = block->cluster->generation;
    memset(shadow->written, 0, shadow->bytes / 8 + EMU_BITS_PAD);
    memset(shadow->state, 0, shadow->bytes / EMU_CHUNK + 1);
    shadow->opaque_count = 0;
    emu_arena_reset(&shadow->arena);
    shadow->arena.random = (uint32_t)(block->launch->options.seed * 2654435761u + block->number);
    emu_trace_block(block);
}

void emu_shared_exit(emu_thread *thread, uintptr_t origin) {
    (void)origin;
    emu_order_free(thread);
}

void emu_shared_end(emu_block *block) {
    (void)block;
}

void emu_shared_dispose(emu_block *block) {
    struct emu_shadow *shadow = block->shadow;
    for (uint32_t i = 0; i < block->launch->threads; i++)
        emu_order_free(&block->threads[i]);
    if (!shadow)
        return;
    block->shadow = NULL;
    for (uint32_t i = 0; shadow->state && shadow->links && i <= shadow->bytes / EMU_CHUNK; i++)
        if (shadow->state[i] & EMU_HAS_EFFECTS)
            emu_links_drop(&shadow->links[i]);
    shadow->next = unused;
    unused = shadow;
}

void emu_shared_forget(void) {
    while (unused) {
        struct emu_shadow *next = unused->next;
        shadow_free(unused);
        unused = next;
    }
}
