/* Tensor copies (cp.async.bulk.tensor and cp.reduce.async.bulk.tensor, tile mode; PTX ISA 9.7.9.25.5): boxes of a
 * tensor between global and shared memory. Loads end on mbarriers, the others in the thread's bulk groups (bulk.c). */
#include "tensor.h"

#include <string.h>

#include "sm90.h"

/* Of the innermost coordinate. The PTX ISA does not say so for these types; an H200 (driver 580.159) ends loads, stores
 * and reductions with an illegal instruction otherwise. */
enum { COORDINATE_BYTES = 16 };

typedef struct tensor_box {
    emu_tensor_map map;
    int origin[DEV_MAX_TENSOR_RANK];
    uint32_t row_bytes, rows, pitch, bytes; /* bytes: what an mbarrier counts, also for what lies outside the tensor */
} tensor_box;

static tensor_box read_box(emu_thread *thread, const void *map, int rank, const int *coordinates, const char *what,
                           uintptr_t origin) {
    tensor_box box = {0};
    emu_tensor_map_read(thread, map, rank, what, &box.map, origin);
    memcpy(box.origin, coordinates, (size_t)rank * sizeof *coordinates);
    if ((int64_t)coordinates[0] * box.map.element_bytes % COORDINATE_BYTES)
        emu_fault(
            thread, origin,
            "%s at coordinate %d of the innermost dimension, which is %lld bytes: it must be a multiple of %d bytes",
            what, coordinates[0], (long long)coordinates[0] * box.map.element_bytes, COORDINATE_BYTES);
    box.row_bytes = emu_tensor_row_bytes(&box.map);
    box.rows = emu_tensor_rows(&box.map);
    box.pitch = layout_box_pitch(box.map.swizzle, box.row_bytes);
    box.bytes = box.rows * box.row_bytes;
    if ((uint64_t)box.rows * box.pitch > TENSOR_MOST_BYTES)
        emu_fault(thread, origin, "%s of a box of %u rows of %u bytes: more than shared memory holds", what, box.rows,
                  box.pitch);
    return box;
}

/* The block and offset of the box in shared memory. */
static emu_block *place_box(emu_thread *thread, const tensor_box *box, uint32_t shared, uint32_t *offset,
                            const char *what, uintptr_t origin) {
    char reason[LAYOUT_REASON];
    emu_block *block = emu_shared_resolve(thread, shared, box->rows * box->pitch, offset, origin);
    if (!layout_check_box(box->map.swizzle, EMU_SHARED_START + *offset, box->row_bytes, reason))
        emu_fault(thread, origin, "%s: %s", what, reason);
    return block;
}

/* Offset in shared memory of a 16-byte chunk of the box that begins at `offset`. */
static uint32_t chunk_at(const tensor_box *box, uint32_t offset, uint32_t row, uint32_t byte) {
    return layout_box_address(box->map.swizzle, EMU_SHARED_START + offset, box->row_bytes, row, byte) -
           EMU_SHARED_START;
}

/* The part of a row that the tensor has, of the 16 bytes from `byte` of the row on. */
static bool part_of_chunk(const emu_tensor_row *row, uint32_t byte, uint32_t *from, uint32_t *to) {
    uint32_t end = row->first + row->count;
    *from = row->first > byte ? row->first : byte;
    *to = end < byte + LAYOUT_CHUNK ? end : byte + LAYOUT_CHUNK;
    return *from < *to;
}

/* ---- loads ---- */

typedef struct tensor_target {
    emu_block *block;
    emu_effect *write;
    emu_signal signal;
} tensor_target;

typedef struct tensor_load {
    emu_async async;
    tensor_box box;
    uint32_t offset; /* in every target */
    emu_effect *read;
    uint32_t count;
    tensor_target to[EMU_MAX_CLUSTER];
} tensor_load;

static void fill(const tensor_load *load, emu_block *block) {
    const tensor_box *box = &load->box;
    for (uint32_t number = 0; number < box->rows; number++) {
        emu_tensor_row row = emu_tensor_row_at(&box->map, box->origin, number);
        for (uint32_t byte = 0; byte < box->row_bytes; byte += LAYOUT_CHUNK) {
            uint32_t at = chunk_at(box, load->offset, number, byte), from, to;
            unsigned char *chunk = block->shared + at;
            memset(chunk, 0, LAYOUT_CHUNK);
            if (part_of_chunk(&row, byte, &from, &to))
                memcpy(chunk + (from - byte), (const void *)(row.address + (from - row.first)), to - from);
            emu_shared_written(block, at, LAYOUT_CHUNK);
        }
    }
}

static void load_run(emu_async *operation) {
    tensor_load *load = (tensor_load *)operation;
    for (uint32_t i = 0; i < load->count; i++) {
        tensor_target *to = &load->to[i];
        if (to->block->live == 0)
            emu_fault_at(operation->block->launch, &operation->site,
                         "%s writes into the shared memory of block (%u,%u,%u), which has exited", operation->what,
                         to->block->index[0], to->block->index[1], to->block->index[2]);
        fill(load, to->block);
        emu_signal_retire(&to->signal, to->write);
        if (i == 0)
            emu_signal_retire(&to->signal, load->read);
        emu_signal_bytes(&to->signal, operation, load->box.bytes);
    }
}

static void load_dispose(emu_async *operation) {
    tensor_load *load = (tensor_load *)operation;
    emu_effect_drop(load->read);
    for (uint32_t i = 0; i < load->count; i++)
        emu_effect_drop(load->to[i].write);
}

/* Reads of global memory: row by row, what lies in the tensor. */
static void global_effects(emu_thread *thread, const emu_async *operation, const tensor_box *box, emu_effect *effect) {
    for (uint32_t number = 0; number < box->rows; number++) {
        emu_tensor_row row = emu_tensor_row_at(&box->map, box->origin, number);
        if (row.count)
            emu_global_effect(&operation->view, thread, effect, row.address, row.count, false);
    }
}

static void add_target(emu_thread *thread, tensor_load *load, emu_block *block, emu_mbarrier *barrier,
                       uintptr_t origin) {
    const tensor_box *box = &load->box;
    if (block->live == 0)
        emu_fault(thread, origin, "%s goes to block (%u,%u,%u), which has exited", load->async.what, block->index[0],
                  block->index[1], block->index[2]);
    tensor_target *to = &load->to[load->count++];
    to->block = block;
    to->write = emu_effect_new(thread, true, load->async.what, origin);
    emu_shared_effect(&load->async.view, to->write, block, load->offset, box->rows * box->pitch, false);
    emu_signal_begin(&to->signal, barrier, &load->async.site);
}

/* The block whose barrier a load into `rank` signals: its own; with .cta_group::2 the one of its pair whose rank has
 * the parity of the barrier's. */
static uint32_t signalled_rank(uint32_t rank, uint32_t barrier_rank, bool pair) {
    return pair ? (rank & ~1U) | (barrier_rank & 1) : rank;
}

void emu_api_tensor_load(emu_u32 shared, const void *map, int rank, const int *coordinates, emu_u32 barrier,
                         emu_u32 mask, int pair) {
    uintptr_t origin = EMU_ORIGIN;
    const char *what = mask ? "multicast tensor load" : "tensor load";
    emu_thread *thread = emu_self();
    emu_cluster *cluster = thread->block->cluster;
    uint32_t offset, barrier_offset;
    tensor_box box = read_box(thread, map, rank, coordinates, what, origin);
    emu_block *block = place_box(thread, &box, shared, &offset, what, origin);
    emu_block *barrier_block = emu_shared_resolve(thread, barrier, 8, &barrier_offset, origin);
    if (mask >> cluster->size)
        emu_fault(thread, origin, "%s to the blocks of mask 0x%x: the cluster has %u", what, mask & 0xffff,
                  cluster->size);
    if (mask == 0 && barrier_block->rank != signalled_rank(block->rank, barrier_block->rank, pair))
        emu_fault(thread, origin,
                  "%s into the block of rank %u of the cluster, but its mbarrier is in that of rank %u%s", what,
                  block->rank, barrier_block->rank, pair ? ", which is not of the same pair" : "");
    if (mask == 0)
        mask = 1U << block->rank;
    tensor_load *load = emu_async_new(thread, sizeof *load, what, origin);
    load->async.run = load_run;
    load->async.dispose = load_dispose;
    load->box = box;
    load->offset = offset;
    load->read = emu_effect_new(thread, false, what, origin);
    global_effects(thread, &load->async, &box, load->read);
    for (uint32_t to = 0; to < cluster->size; to++) {
        if (!(mask >> to & 1))
            continue;
        uint32_t signalled = signalled_rank(to, barrier_block->rank, pair);
        add_target(thread, load, &cluster->blocks[to],
                   emu_mbarrier_at(thread, &cluster->blocks[signalled], barrier_offset, true, what, origin), origin);
    }
    emu_async_post(&load->async);
}

/* ---- stores and reductions ---- */

typedef struct tensor_store {
    emu_async async;
    tensor_box box;
    uint32_t offset;
    bool add;
} tensor_store;

static void add_floats(unsigned char *to, const unsigned char *from, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i += sizeof(float)) {
        float sum, value;
        memcpy(&sum, to + i, sizeof sum);
        memcpy(&value, from + i, sizeof value);
        sum += value;
        memcpy(to + i, &sum, sizeof sum);
    }
}

static void store_run(emu_async *operation) {
    const tensor_store *store = (const tensor_store *)operation;
    const tensor_box *box = &store->box;
    for (uint32_t number = 0; number < box->rows; number++) {
        emu_tensor_row row = emu_tensor_row_at(&box->map, box->origin, number);
        for (uint32_t byte = 0; byte < box->row_bytes; byte += LAYOUT_CHUNK) {
            uint32_t from, to;
            if (!part_of_chunk(&row, byte, &from, &to))
                continue;
            const unsigned char *source =
                operation->block->shared + chunk_at(box, store->offset, number, byte) + (from - byte);
            unsigned char *target = (unsigned char *)(row.address + (from - row.first));
            if (store->add)
                add_floats(target, source, to - from);
            else
                memcpy(target, source, to - from);
        }
    }
}

/* The box's own bytes: rows narrower than the swizzle leave holes. */
static void shared_reads(const emu_async *operation, const tensor_box *box, emu_effect *read, uint32_t offset) {
    emu_block *block = operation->block;
    if (box->row_bytes == box->pitch) {
        emu_shared_effect(&operation->view, read, block, offset, box->bytes, false);
        return;
    }
    for (uint32_t row = 0; row < box->rows; row++)
        for (uint32_t byte = 0; byte < box->row_bytes; byte += LAYOUT_CHUNK)
            emu_shared_effect(&operation->view, read, block, chunk_at(box, offset, row, byte), LAYOUT_CHUNK, false);
}

/* An H200 (driver 580.159, 2026-12-01) writes or adds the whole 16 bytes at the end of a tensor's row, also those that
 * lie behind it, where the end is no multiple of 16 bytes; nothing in the PTX ISA allows or forbids that. */
static void check_row_end(emu_thread *thread, const tensor_box *box, const char *what, uintptr_t origin) {
    int64_t first = (int64_t)box->origin[0] * box->map.element_bytes;
    int64_t row = ((int64_t)box->map.last[0] + 1) * box->map.element_bytes;
    if (row % LAYOUT_CHUNK && first < row && first + box->row_bytes > row)
        emu_fault(
            thread, origin,
            "%s over the end of the tensor's rows of %lld bytes: that is no multiple of %d, and hardware writes the "
            "whole %d bytes at the end",
            what, (long long)row, LAYOUT_CHUNK, LAYOUT_CHUNK);
}

static void issue_store(emu_thread *thread, const void *map, int rank, const int *coordinates, uint32_t shared,
                        bool add, const char *what, uintptr_t origin) {
    uint32_t offset;
    tensor_box box = read_box(thread, map, rank, coordinates, what, origin);
    emu_block *block = place_box(thread, &box, shared, &offset, what, origin);
    if (block != thread->block)
        emu_fault(thread, origin, "%s from the block of rank %u of the cluster: it must be the issuer's own", what,
                  block->rank);
    for (int i = 0; i < rank; i++)
        if (coordinates[i] < 0)
            emu_fault(thread, origin, "%s at coordinate %d of dimension %d: only loads may begin outside the tensor",
                      what, coordinates[i], i);
    check_row_end(thread, &box, what, origin);
    if (add && box.map.element != DEV_F32)
        emu_fault(thread, origin, "%s: an emulated device adds only tensors of f32", what);
    tensor_store *store = emu_async_new(thread, sizeof *store, what, origin);
    store->async.run = store_run;
    store->box = box;
    store->offset = offset;
    store->add = add;
    emu_effect *read = emu_effect_new(thread, false, what, origin);
    emu_effect *write = add ? NULL : emu_effect_new(thread, true, what, origin);
    store->async.queue = emu_bulk_join(thread, read, write); /* owns them, also when a check below fails */
    shared_reads(&store->async, &box, read, offset);
    if (write)
        global_effects(thread, &store->async, &box, write);
    for (uint32_t number = 0; add && number < box.rows; number++) {
        emu_tensor_row row = emu_tensor_row_at(&box.map, box.origin, number);
        if (row.count)
            emu_global_atomic(thread, row.address, row.count, origin);
    }
    emu_async_post(&store->async);
}

void emu_api_tensor_store(const void *map, int rank, const int *coordinates, emu_u32 shared) {
    issue_store(emu_self(), map, rank, coordinates, shared, false, "tensor store", EMU_ORIGIN);
}

void emu_api_tensor_reduce(const void *map, int rank, const int *coordinates, emu_u32 shared, int reduction) {
    uintptr_t origin = EMU_ORIGIN;
    emu_thread *thread = emu_self();
    if (reduction != EMU_ADD_F32)
        emu_fault(thread, origin, "tensor reduction: an emulated device has only the addition of f32");
    issue_store(thread, map, rank, coordinates, shared, true, "tensor reduction", origin);
}

void emu_api_tensor_prefetch(const void *map) {
    emu_tensor_map unused;
    emu_tensor_map_read(emu_self(), map, 0, "prefetch of a tensor map", &unused, EMU_ORIGIN);
}
