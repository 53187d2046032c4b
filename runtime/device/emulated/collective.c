/* Warp-wide instructions that exchange values (PTX ISA 9.7.9.6 shfl, 9.7.13.9 vote, 9.7.13.14 elect), and the built-ins
 * and clocks that a kernel may read. */
#include <stdio.h>

#include "core.h"

void emu_api_warp_sync(emu_u32 mask) {
    emu_warp_meet(emu_self(), mask, "__syncwarp", true, NULL, NULL, EMU_ORIGIN);
}

typedef struct shuffle_request {
    uint32_t value, result;
    int operand, kind, width;
    uintptr_t origin;
} shuffle_request;

static int shuffle_source(const shuffle_request *request, int lane) {
    int first = lane & ~(request->width - 1), within = lane & (request->width - 1), from = within;
    switch (request->kind) {
    case EMU_SHUFFLE_XOR:
        from = within ^ request->operand;
        break;
    case EMU_SHUFFLE_INDEX:
        from = request->operand & (request->width - 1);
        break;
    case EMU_SHUFFLE_UP:
        from = within - request->operand;
        break;
    default:
        from = within + request->operand;
    }
    return from < 0 || from >= request->width ? lane : first + from;
}

static void shuffle(emu_thread *first, void *const requests[EMU_WARP]) {
    for (int lane = 0; lane < EMU_WARP; lane++) {
        shuffle_request *own = requests[lane];
        if (!own)
            continue;
        int from = shuffle_source(own, lane);
        const shuffle_request *source = requests[from];
        if (!source)
            emu_fault(&first[lane], own->origin, "shuffle: lane %d reads from lane %d, which the mask does not have",
                      lane, from);
        own->result = source->value;
    }
}

emu_u32 emu_api_shuffle(emu_u32 mask, emu_u32 value, int operand, int kind, int width) {
    emu_thread *self = emu_self();
    shuffle_request request = {.value = value, .operand = operand, .kind = kind, .width = width, .origin = EMU_ORIGIN};
    if (width < 1 || width > EMU_WARP || (width & (width - 1)))
        emu_fault(self, EMU_ORIGIN, "shuffle with width %d; 1, 2, 4, 8, 16 or 32 would be right", width);
    emu_warp_meet(self, mask, "shuffle", false, &request, shuffle, EMU_ORIGIN);
    return request.result;
}

typedef struct vote_request {
    uint32_t predicate, result;
} vote_request;

static void vote(emu_thread *first, void *const requests[EMU_WARP]) {
    (void)first;
    uint32_t result = 0;
    for (uint32_t lane = 0; lane < EMU_WARP; lane++) {
        const vote_request *own = requests[lane];
        if (own && own->predicate)
            result |= 1u << lane;
    }
    for (uint32_t lane = 0; lane < EMU_WARP; lane++) {
        vote_request *own = requests[lane];
        if (own)
            own->result = result;
    }
}

emu_u32 emu_api_ballot(emu_u32 mask, int predicate) {
    vote_request request = {.predicate = predicate != 0};
    emu_warp_meet(emu_self(), mask, "ballot", false, &request, vote, EMU_ORIGIN);
    return request.result;
}

/* The lowest lane is elected; PTX promises the same lane for the same mask, no more. */
emu_u32 emu_api_elect(emu_u32 mask) {
    emu_thread *self = emu_self();
    emu_warp_meet(self, mask, "elect.sync", false, NULL, NULL, EMU_ORIGIN);
    return self->lane == (uint32_t)__builtin_ctz(mask);
}

emu_u32 emu_api_active_mask(void) {
    const emu_thread *self = emu_self(), *first = self - self->lane;
    uint32_t mask = 0, left = self->block->launch->threads - self->warp * EMU_WARP;
    for (uint32_t lane = 0; lane < EMU_WARP && lane < left; lane++)
        if (first[lane].state != EMU_EXITED)
            mask |= 1u << lane;
    return mask;
}

emu_u32 emu_api_builtin(int which) {
    const emu_thread *self = emu_self();
    const emu_block *block = self->block;
    if (which == EMU_CLUSTER_RANK)
        return block->rank;
    if (which == EMU_CLUSTER_SIZE)
        return block->cluster->size;
    if (which == EMU_SM)
        return (emu_u32)(block->cluster - block->launch->resident) * block->cluster->size + block->rank;
    const uint32_t *values[] = {self->index, block->index, block->launch->dims.block, block->launch->dims.grid};
    return values[which / 3][which % 3];
}

/* Not a time: it only grows. */
emu_u64 emu_api_clock(void) {
    return ++emu_self()->block->launch->ticks;
}

void emu_api_trap(void) {
    emu_fault(emu_self(), EMU_ORIGIN, "the kernel called __trap");
}
