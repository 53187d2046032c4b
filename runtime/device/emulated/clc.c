/* Cluster launch control (PTX ISA 9.7.13.17, 9.7.13.18): a running cluster takes the place of one that has not started.
 * The answer is opaque to kernels; here it is the first block's index and a word that says what it is. */
#include <string.h>

#include "sm90.h"

enum { ANSWER_BYTES = 16, WORDS = 4 };
#define ANSWER_NO 0x5c1c0000u /* in the last word: no answer of anything else is likely to hold it */
#define ANSWER_YES (ANSWER_NO | 1)

typedef struct cancel {
    emu_async async;
    unsigned count;
    uint32_t offset;
    struct cancel_target {
        emu_block *block;
        emu_effect *write;
        emu_signal signal;
    } targets[EMU_MAX_CLUSTER];
} cancel;

static void cancel_dispose(emu_async *operation) {
    cancel *self = (cancel *)operation;
    for (unsigned i = 0; i < self->count; i++)
        emu_effect_drop(self->targets[i].write);
}

/* The launch's next cluster, which then never starts. */
static void take_cluster(emu_launch *launch, uint32_t answer[WORDS]) {
    const emu_dims *dims = &launch->dims;
    memset(answer, 0, ANSWER_BYTES);
    answer[3] = ANSWER_NO;
    if (launch->next_cluster == launch->clusters)
        return;
    uint32_t number = launch->next_cluster++;
    for (int i = 0; i < 3; i++) {
        uint32_t clusters = dims->grid[i] / dims->cluster[i];
        answer[i] = number % clusters * dims->cluster[i];
        number /= clusters;
    }
    answer[3] = ANSWER_YES;
}

static void cancel_run(emu_async *operation) {
    cancel *self = (cancel *)operation;
    uint32_t answer[WORDS];
    take_cluster(operation->block->launch, answer);
    for (unsigned i = 0; i < self->count; i++) {
        struct cancel_target *target = &self->targets[i];
        memcpy(target->block->shared + self->offset, answer, ANSWER_BYTES);
        emu_shared_written(target->block, self->offset, ANSWER_BYTES);
        emu_signal_retire(&target->signal, target->write);
        emu_signal_bytes(&target->signal, operation, ANSWER_BYTES);
    }
}

static const char what[] = "clusterlaunchcontrol.try_cancel";

static void add_target(cancel *self, emu_thread *thread, emu_block *block, uint32_t barrier, uintptr_t origin) {
    if (block->live == 0)
        emu_fault(thread, origin, "%s answers to all blocks of the cluster, but (%u,%u,%u) has exited", what,
                  block->index[0], block->index[1], block->index[2]);
    emu_mbarrier *signalled = emu_mbarrier_at(thread, block, barrier, false, what, origin);
    struct cancel_target *target = &self->targets[self->count];
    target->block = block;
    target->write = emu_effect_new(thread, true, what, origin);
    self->count++;
    emu_shared_effect(&self->async.view, target->write, block, self->offset, ANSWER_BYTES, false);
    emu_signal_begin(&target->signal, signalled, &self->async.site);
}

void emu_api_cancel_request(emu_u32 shared, emu_u32 barrier, int multicast) {
    emu_thread *thread = emu_self();
    emu_block *block = thread->block;
    uintptr_t origin = EMU_ORIGIN;
    uint32_t offset, barrier_offset;
    if (block->cancel_refused.origin)
        emu_fault(thread, origin,
                  "%s after this block has seen that an earlier one was refused (at %s): there is nothing left to ask "
                  "for, and the result is undefined",
                  what, emu_place(block->launch, &block->cancel_refused));
    if (shared % ANSWER_BYTES != 0)
        emu_fault(thread, origin, "%s with its answer at shared address 0x%x: must be a multiple of 16", what, shared);
    if (emu_shared_resolve(thread, shared, ANSWER_BYTES, &offset, origin) != block ||
        emu_shared_resolve(thread, barrier, sizeof(uint64_t), &barrier_offset, origin) != block)
        emu_fault(thread, origin, "%s with an answer or mbarrier in another block's shared memory: must be its own",
                  what);
    cancel *self = emu_async_new(thread, sizeof *self, what, origin);
    self->async.run = cancel_run;
    self->async.dispose = cancel_dispose;
    self->offset = offset;
    if (!multicast) {
        add_target(self, thread, block, barrier_offset, origin);
    } else {
        for (uint32_t rank = 0; rank < block->cluster->size; rank++)
            add_target(self, thread, &block->cluster->blocks[rank], barrier_offset, origin);
    }
    emu_async_post(&self->async);
}

static bool check_answer(emu_thread *thread, const emu_u32 *answer, uintptr_t origin) {
    if ((answer[3] | 1) != ANSWER_YES)
        emu_fault(
            thread, origin,
            "clusterlaunchcontrol.query_cancel of 16 bytes that are no answer of try_cancel: 0x%08x 0x%08x 0x%08x "
            "0x%08x",
            answer[0], answer[1], answer[2], answer[3]);
    return answer[3] == ANSWER_YES;
}

int emu_api_cancel_succeeded(const emu_u32 *response) {
    emu_thread *thread = emu_self();
    uintptr_t origin = EMU_ORIGIN;
    bool yes = check_answer(thread, response, origin);
    if (!yes && !thread->block->cancel_refused.origin)
        thread->block->cancel_refused = emu_site_of(thread, origin);
    return yes;
}

emu_u32 emu_api_cancel_first_block(const emu_u32 *response, int dimension) {
    emu_thread *thread = emu_self();
    uintptr_t origin = EMU_ORIGIN;
    if (!check_answer(thread, response, origin))
        emu_fault(thread, origin,
                  "clusterlaunchcontrol.query_cancel.get_first_ctaid of a refused request: no block was given");
    return response[dimension];
}
