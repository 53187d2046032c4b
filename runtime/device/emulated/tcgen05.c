/* tcgen05.mma and commit (PTX ISA 9.7.16.10, 9.7.16.12). Products of a thread wait in a queue, in which its commits
 * wait, too: everything takes effect as late as the barrier that a commit arrives on allows. Whoever has waited for
 * that barrier knows the queue up to the commit. See tmem.h. */
#include "tcgen05.h"
#include "sm90.h"
#include "warpgroup.h"

/* ---- products ---- */

static void product_dispose(emu_async *operation) {
    umma_product *self = (umma_product *)operation;
    for (unsigned i = 0; i < self->parts; i++) {
        if (self->part[i].read_a)
            emu_effect_drop(self->part[i].read_a);
        if (self->part[i].read_b)
            emu_effect_drop(self->part[i].read_b);
        tmem_access_drop(self->part[i].write);
        tmem_access_drop(self->part[i].tmem_a);
    }
}

/* The thread's queue of products; a thread takes one with its first product. */
static tmem_thread *queue_of(emu_thread *thread, uintptr_t origin) {
    tmem_thread *state = tmem_thread_of(thread);
    struct emu_tmem *tmem = tmem_of(thread->block);
    if (state->slot)
        return state;
    if (tmem->queues == EMU_PRODUCT_QUEUES)
        emu_fault(thread, origin,
                  "more than %d threads of a block issue tcgen05.mma or commit; one elected thread should",
                  (int)EMU_PRODUCT_QUEUES);
    state->slot = emu_mbarrier_slot(thread->block, EMU_MBARRIERS + tmem->queues++);
    return state;
}

/* An operand in the block's shared memory: checks its descriptor, and marks what it covers as being read. */
static void read_operand(emu_thread *thread, const umma_product *self, emu_block *block, struct layout_operand *operand,
                         emu_u64 bits, char name, emu_effect **effect, uintptr_t origin) {
    char reason[LAYOUT_REASON];
    if (!layout_decode_sm100(bits, &operand->at, reason) || !layout_check_operand(operand, reason))
        emu_fault(thread, origin, "tcgen05.mma, operand %c: %s", name, reason);
    *effect =
        emu_effect_new(thread, false, name == 'A' ? "tcgen05.mma (operand A)" : "tcgen05.mma (operand B)", origin);
    (*effect)->poison_allowed = true;
    const emu_chunks *chunks = emu_operand_chunks(operand, EMU_GROUP_WARPS);
    for (uint32_t i = 0; i < chunks->range_count; i++) {
        uint32_t first = chunks->ranges[i].first, bytes = chunks->ranges[i].bytes;
        if (first >= block->shared_bytes || block->shared_bytes - first < bytes)
            emu_fault(
                thread, origin,
                "tcgen05.mma, operand %c: the descriptor 0x%llx (start 0x%x, leading offset %u, stride offset %u) "
                "leads to shared address 0x%x, which the block does not have",
                name, bits, operand->at.start, operand->at.leading, operand->at.stride, first + EMU_SHARED_START);
        emu_shared_effect(&self->async.view, *effect, block, first, bytes, false);
    }
}

/* Lanes that `rows` rows of an M = 64 product take, one quarter after another; else one range. */
static unsigned lane_ranges(const struct layout_instruction *shape, bool pair, uint32_t address, uint32_t columns,
                            tmem_range ranges[4]) {
    bool quarters = !pair && shape->m == 64;
    ranges[0] = tmem_range_at(address, quarters ? TMEM_GROUP : TMEM_LANES, columns);
    for (unsigned i = 1; quarters && i < 4; i++) {
        ranges[i] = ranges[0];
        ranges[i].lane += i * 32;
    }
    return quarters ? 4 : 1;
}

static void check_lane(emu_thread *thread, const struct layout_instruction *shape, bool pair, uint32_t address,
                       const char *which, uintptr_t origin) {
    uint32_t lane = address >> 16;
    bool half = !pair && shape->m == 64;
    if (lane != 0 && !(half && lane == TMEM_GROUP))
        emu_fault(thread, origin, "tcgen05.mma of M = %u with %s at lane %u of tensor memory: must be 0%s", shape->m,
                  which, lane, half ? " or 16" : "");
}

/* The accumulators, and A where it is in tensor memory, in one block. */
static void use_tensor_memory(emu_thread *thread, umma_product *self, umma_part *at, uintptr_t origin) {
    const struct layout_instruction *shape = &self->shape;
    const tmem_thread *state = thread->tcgen05;
    tmem_range ranges[4];
    unsigned count;
    if (self->a_in_tmem) {
        uint32_t columns = shape->k * (shape->a_type == EMU_TF32 ? 4 : 2) / 4;
        at->tmem_a = tmem_access_new(thread, TMEM_PRODUCT_A, origin);
        at->tmem_a->slot = state->slot;
        at->tmem_a->clock = self->clock;
        count = lane_ranges(shape, self->pair, self->a_address, columns, ranges);
        if (self->pair && shape->m == 128) /* its rows are in the lower half */
            ranges[0].lanes = TMEM_LANES / 2;
        for (unsigned i = 0; i < count; i++) {
            tmem_check_allocated(thread, at->block, ranges[i], "tcgen05.mma (operand A)", origin);
            tmem_check_read(thread, at->block, ranges[i], at->tmem_a, origin);
        }
    }
    at->write = tmem_access_new(thread, TMEM_PRODUCT, origin);
    at->write->slot = state->slot;
    at->write->clock = self->clock;
    at->write->d = self->d;
    at->write->m = shape->m;
    at->write->n = shape->n;
    count = lane_ranges(shape, self->pair, self->d, layout_accumulator_columns(shape->m, shape->n, self->pair), ranges);
    for (unsigned i = 0; i < count; i++) {
        tmem_check_allocated(thread, at->block, ranges[i], "tcgen05.mma", origin);
        tmem_check_write(thread, at->block, ranges[i], at->write, self->accumulate, origin);
    }
}

static void product_run(emu_async *operation) {
    umma_product *self = (umma_product *)operation;
    const struct layout_instruction *shape = &self->shape;
    for (unsigned i = 0; i < self->parts; i++) {
        const umma_part *at = &self->part[i];
        if (at->block->live == 0)
            emu_fault_at(operation->block->launch, &operation->site,
                         "block (%u,%u,%u) has exited before a tcgen05.mma that uses its memory is over",
                         at->block->index[0], at->block->index[1], at->block->index[2]);
    }
    umma_multiply(self);
    for (unsigned i = 0; i < self->parts; i++) {
        const umma_part *at = &self->part[i];
        if (at->read_a)
            emu_effect_retire(at->read_a, at->block, self->slot, self->clock);
        emu_effect_retire(at->read_b, at->block, self->slot, self->clock);
    }
    operation->block->launch->multiplies += (uint64_t)shape->m * shape->n * shape->k;
}

void emu_api_umma(emu_u32 d, emu_u64 descriptor_a, emu_u32 tmem_a, int a_in_tmem, emu_u64 descriptor_b,
                  emu_u32 instruction, int accumulate, int tf32, int pair) {
    emu_thread *thread = emu_self();
    emu_block *block = thread->block;
    uintptr_t origin = EMU_ORIGIN;
    struct layout_instruction shape;
    char reason[LAYOUT_REASON];
    tmem_check_group(thread, pair, origin);
    if (!layout_decode_instruction(instruction, tf32, pair, &shape, reason))
        emu_fault(thread, origin, "tcgen05.mma: %s", reason);
    if (shape.d_f16)
        emu_fault(thread, origin, "tcgen05.mma with f16 sums: emulated devices have fp32 sums only");
    if (a_in_tmem && shape.a_major == LAYOUT_MN_MAJOR)
        emu_fault(thread, origin,
                  "tcgen05.mma with A in tensor memory and bit 15 of the instruction descriptor set: "
                  "only A in shared memory can be MN-major");
    tmem_thread *state = queue_of(thread, origin);
    check_lane(thread, &shape, pair, d, "D", origin);
    if (a_in_tmem)
        check_lane(thread, &shape, pair, tmem_a, "A", origin);
    umma_product *self = emu_async_new(thread, sizeof *self, "tcgen05.mma", origin);
    self->async.queue = state;
    self->async.run = product_run;
    self->async.dispose = product_dispose;
    self->shape = shape;
    self->pair = pair;
    self->accumulate = accumulate;
    self->a_in_tmem = a_in_tmem;
    self->d = d;
    self->a_address = tmem_a;
    self->slot = state->slot;
    self->clock = ++state->products;
    self->parts = pair ? 2 : 1;
    unsigned bytes = tf32 ? 4 : 2;
    for (unsigned i = 0; i < self->parts; i++) {
        umma_part *at = &self->part[i];
        at->block = !pair || i == block->rank % 2 ? block : tmem_peer(thread, "tcgen05.mma", origin);
        at->share = layout_pair_share(shape.m, shape.n, pair, i);
        at->a = (struct layout_operand){
            .major = shape.a_major, .element_bytes = bytes, .mn = at->share.a_rows, .k = shape.k};
        at->b = (struct layout_operand){
            .major = shape.b_major, .element_bytes = bytes, .mn = at->share.b_columns, .k = shape.k};
        if (!a_in_tmem)
            read_operand(thread, self, at->block, &at->a, descriptor_a, 'A', &at->read_a, origin);
        read_operand(thread, self, at->block, &at->b, descriptor_b, 'B', &at->read_b, origin);
        use_tensor_memory(thread, self, at, origin);
    }
    emu_async_post(&self->async);
}

/* ---- commits ---- */

typedef struct commit {
    emu_async async;
    uint32_t slot, clock; /* the epoch of the last product before it */
    unsigned count;
    emu_signal signals[EMU_MAX_CLUSTER];
} commit;

static void commit_run(emu_async *operation) {
    commit *self = (commit *)operation;
    if (self->clock)
        emu_view_learn(&operation->view, self->slot, self->clock, true);
    for (unsigned i = 0; i < self->count; i++)
        emu_signal_arrive(&self->signals[i], operation, &operation->view);
}

static void add_signal(commit *self, emu_mbarrier *barrier) {
    emu_signal_begin(&self->signals[self->count++], barrier, &self->async.site);
}

void emu_api_umma_commit(emu_u32 barrier, emu_u32 mask, int pair) {
    emu_thread *thread = emu_self();
    uintptr_t origin = EMU_ORIGIN;
    const char *what = "tcgen05.commit";
    emu_cluster *cluster = thread->block->cluster;
    tmem_check_group(thread, pair, origin);
    if (mask >> cluster->size)
        emu_fault(thread, origin, "tcgen05.commit with mask 0x%x in a cluster of %u blocks", mask, cluster->size);
    tmem_thread *state = queue_of(thread, origin);
    tmem_fence_before(thread); /* implied: 9.7.16.6.4.2 */
    commit *self = emu_async_new(thread, sizeof *self, what, origin);
    self->async.queue = state;
    self->async.run = commit_run;
    self->slot = state->slot;
    self->clock = state->products;
    if (mask == 0) {
        add_signal(self, emu_mbarrier_find(thread, barrier, false, what, origin));
    } else {
        uint32_t offset;
        emu_shared_resolve(thread, barrier, sizeof(uint64_t), &offset, origin);
        for (uint32_t rank = 0; rank < cluster->size; rank++)
            if (mask >> rank & 1)
                add_signal(self, emu_mbarrier_at(thread, &cluster->blocks[rank], offset, false, what, origin));
    }
    emu_async_post(&self->async);
}
