/* tcgen05.ld, st, wait and fence (PTX ISA 9.7.16.8, 9.7.16.11): a load fills its registers, and a store its cells, when
 * tcgen05.wait says so, and not earlier. Hardware would wait for a register that is used earlier (9.7.16.6.4.5), but
 * nothing else that a kernel does with a load is safe before the wait, so it is demanded here. See tmem.h. */
#include <stdlib.h>
#include <string.h>

#include "tmem.h"

/* ---- issue ---- */

/* What the lanes of a warp bring to their meeting. */
typedef struct lane_move {
    uint32_t *load;        /* loads: registers to fill */
    const uint32_t *store; /* stores: registers to read */
    uint32_t count, address, split;
    enum emu_shape shape;
    bool packed;
    uintptr_t origin;
} lane_move;

static const char *shape_name(enum emu_shape shape) {
    static const char *const names[] = {"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"};
    return names[shape];
}

/* Columns from the address on that one of the two parts of 16x32bx2, or the whole of another shape, covers. */
static uint32_t columns_of(const lane_move *move) {
    uint32_t most = 0;
    for (uint32_t thread = 0; thread < 4; thread++) {
        struct layout_cell cell = layout_tmem_cell(move->shape, thread, move->count - 1, 0);
        most = cell.column > most ? cell.column : most;
    }
    return (most + 1) * (move->packed ? 2 : 1);
}

static void check_lanes(emu_thread *lane0, const lane_move *move, const char *name) {
    uint32_t lane = move->address >> 16, lanes = layout_tmem_lanes(move->shape), quarter = lane0->warp % 4;
    if (lane % lanes != 0)
        emu_fault(lane0, move->origin, "%s.%s at lane %u of tensor memory: the lane must be a multiple of %u", name,
                  shape_name(move->shape), lane, lanes);
    if (lane / 32 != quarter)
        emu_fault(lane0, move->origin,
                  "wrong lane quadrant: %s of warp %u at lane %u of tensor memory; the warp reaches lanes %u-%u only "
                  "(32 * (warp %% 4))",
                  name, lane0->warp, lane, quarter * 32, quarter * 32 + 31);
}

static bool same_operands(const lane_move *one, const lane_move *other) {
    return one->address == other->address && one->count == other->count && one->shape == other->shape &&
           one->packed == other->packed && one->split == other->split && !one->load == !other->load;
}

/* The lane's part, pending on its list. */
static void add_move(emu_thread *thread, const lane_move *request, tmem_access *access) {
    tmem_thread *state = thread->tcgen05;
    size_t stored = request->store ? request->count : 0;
    tmem_move *move = tmem_calloc(1, sizeof *move + stored * sizeof move->data[0]);
    move->access = access;
    access->references++;
    move->registers = request->load;
    move->count = request->count;
    move->address = request->address;
    move->split = request->split;
    move->shape = request->shape;
    move->packed = request->packed;
    *state->moves_end = move;
    state->moves_end = &move->next;
    if (request->store) {
        memcpy(move->data, request->store, stored * sizeof move->data[0]);
        return;
    }
    move->owned = (emu_registers){.next = thread->registers,
                                  .first = (uintptr_t)request->load,
                                  .end = (uintptr_t)(request->load + request->count),
                                  .what = "registers of tcgen05.ld before tcgen05.wait::ld",
                                  .site = emu_site_of(thread, request->origin)};
    thread->registers = &move->owned;
}

static void issue(emu_thread *lane0, void *const requests[EMU_WARP]) {
    const lane_move *first = requests[0];
    emu_block *block = lane0->block;
    const char *name = first->load ? "tcgen05.ld" : "tcgen05.st";
    for (uint32_t lane = 1; lane < EMU_WARP; lane++) {
        const lane_move *other = requests[lane];
        if (other && !same_operands(first, other))
            emu_fault(lane0 + lane, other->origin, "lanes of one warp call %s with different addresses or shapes",
                      name);
    }
    check_lanes(lane0, first, name);
    uint32_t parts = first->shape == EMU_16X32BX2 ? 2 : 1;
    tmem_access *access = tmem_access_new(lane0, first->load ? TMEM_LOAD : TMEM_STORE, first->origin);
    for (uint32_t lane = 0; lane < EMU_WARP; lane++)
        if (requests[lane])
            add_move(lane0 + lane, requests[lane], access);
    tmem_access_drop(access); /* the moves hold it */
    for (uint32_t part = 0; part < parts; part++) {
        tmem_range range =
            tmem_range_at(first->address + part * first->split, layout_tmem_lanes(first->shape), columns_of(first));
        tmem_check_allocated(lane0, block, range, name, first->origin);
        if (first->load)
            tmem_check_read(lane0, block, range, access, first->origin);
        else
            tmem_check_write(lane0, block, range, access, false, first->origin);
    }
}

static void start(emu_thread *thread, lane_move *move, const char *name) {
    tmem_thread_of(thread);
    if (!layout_tmem_registers(move->shape, move->count))
        emu_fault(thread, move->origin, "%s.%s of %u registers a thread does not exist", name, shape_name(move->shape),
                  move->count);
    emu_warp_meet(thread, ~0u, name, false, move, issue, move->origin);
}

void emu_api_tmem_load(emu_u32 *registers, emu_u32 count, emu_u32 address, int shape, int pack, int offset) {
    lane_move move = {.load = registers,
                      .count = count,
                      .address = address,
                      .split = (uint32_t)offset,
                      .shape = (enum emu_shape)shape,
                      .packed = pack,
                      .origin = EMU_ORIGIN};
    start(emu_self(), &move, "tcgen05.ld");
}

void emu_api_tmem_store(const emu_u32 *registers, emu_u32 count, emu_u32 address, int shape, int unpack, int offset) {
    lane_move move = {.store = registers,
                      .count = count,
                      .address = address,
                      .split = (uint32_t)offset,
                      .shape = (enum emu_shape)shape,
                      .packed = unpack,
                      .origin = EMU_ORIGIN};
    start(emu_self(), &move, "tcgen05.st");
}

/* ---- completion ---- */

static uint32_t *cell_at(struct emu_tmem *tmem, const tmem_move *move, struct layout_cell cell) {
    return &tmem->cells[(move->address >> 16) + cell.lane][(move->address & 0xffff) + cell.column];
}

static void load_registers(struct emu_tmem *tmem, const tmem_move *move, uint32_t lane) {
    for (uint32_t i = 0; i < move->count; i++) {
        if (!move->packed) {
            move->registers[i] = *cell_at(tmem, move, layout_tmem_cell(move->shape, lane, i, move->split));
            continue;
        }
        struct layout_cell low = layout_tmem_packed_cell(move->shape, lane, i, 0, move->split);
        struct layout_cell high = layout_tmem_packed_cell(move->shape, lane, i, 1, move->split);
        move->registers[i] = (*cell_at(tmem, move, low) & 0xffff) | *cell_at(tmem, move, high) << 16;
    }
}

static void store_cells(struct emu_tmem *tmem, const tmem_move *move, uint32_t lane) {
    for (uint32_t i = 0; i < move->count; i++) {
        if (!move->packed) {
            *cell_at(tmem, move, layout_tmem_cell(move->shape, lane, i, move->split)) = move->data[i];
            continue;
        }
        *cell_at(tmem, move, layout_tmem_packed_cell(move->shape, lane, i, 0, move->split)) = move->data[i] & 0xffff;
        *cell_at(tmem, move, layout_tmem_packed_cell(move->shape, lane, i, 1, move->split)) = move->data[i] >> 16;
    }
}

static void give_registers_back(emu_thread *thread, const tmem_move *move) {
    emu_registers **link = &thread->registers;
    while (*link && *link != &move->owned)
        link = &(*link)->next;
    if (*link)
        *link = move->owned.next;
}

/* The lane's moves of the kind are over. Its access is kept for the fence. */
static void finish(emu_thread *thread, bool stores) {
    tmem_thread *state = thread->tcgen05;
    struct emu_tmem *tmem = tmem_of(thread->block);
    state->moves_end = &state->moves;
    while (*state->moves_end) {
        tmem_move *move = *state->moves_end;
        if (!move->registers != stores) {
            state->moves_end = &move->next;
            continue;
        }
        *state->moves_end = move->next;
        if (stores) {
            store_cells(tmem, move, thread->lane);
        } else {
            give_registers_back(thread, move);
            load_registers(tmem, move, thread->lane);
        }
        move->access->waited[thread->lane] = thread->clock;
        tmem_reader *waited = tmem_calloc(1, sizeof *waited);
        waited->access = move->access; /* the move's reference */
        waited->next = state->unfenced;
        state->unfenced = waited;
        free(move);
    }
}

static void finish_loads(emu_thread *lane0, void *const requests[EMU_WARP]) {
    for (uint32_t lane = 0; lane < EMU_WARP; lane++)
        if (requests[lane])
            finish(lane0 + lane, false);
}

static void finish_stores(emu_thread *lane0, void *const requests[EMU_WARP]) {
    for (uint32_t lane = 0; lane < EMU_WARP; lane++)
        if (requests[lane])
            finish(lane0 + lane, true);
}

void emu_api_tmem_wait(int stores) {
    emu_thread *thread = emu_self();
    uintptr_t origin = EMU_ORIGIN;
    tmem_thread_of(thread);
    emu_warp_meet(thread, ~0u, stores ? "tcgen05.wait::st" : "tcgen05.wait::ld", false, thread,
                  stores ? finish_stores : finish_loads, origin);
}

void tmem_drop_moves(emu_thread *thread, tmem_thread *state) {
    while (state->moves) {
        tmem_move *move = state->moves;
        state->moves = move->next;
        give_registers_back(thread, move);
        tmem_access_drop(move->access);
        free(move);
    }
    while (state->unfenced) {
        tmem_reader *waited = state->unfenced;
        state->unfenced = waited->next;
        tmem_access_drop(waited->access);
        free(waited);
    }
}

/* ---- fences ---- */

void tmem_fence_before(emu_thread *thread) {
    tmem_thread *state = tmem_thread_of(thread);
    while (state->unfenced) {
        tmem_reader *waited = state->unfenced;
        state->unfenced = waited->next;
        waited->access->fenced[thread->lane] = thread->clock;
        tmem_access_drop(waited->access);
        free(waited);
    }
}

void emu_api_tcgen05_fence(int after) {
    emu_thread *thread = emu_self();
    if (!after) {
        tmem_fence_before(thread);
        return;
    }
    tmem_thread *state = tmem_thread_of(thread);
    emu_view_clear(&state->after);
    emu_view_copy(&state->after, &thread->view);
}
