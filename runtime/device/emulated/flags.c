/* Words by which threads of different blocks order themselves: ordered loads and stores, atomic operations, fences (PTX
 * ISA 8.7 to 8.10: release and acquire patterns, with a fence or in the operation itself). */
#include <stdio.h>
#include <stdlib.h>

#include "core.h"
#include "shadow.h"
#include "sm90.h"

/* What a release of the word gives to whoever acquires from it. */
typedef struct flag {
    uintptr_t address;   /* 0: free place */
    uint32_t generation; /* of the cluster whose shared memory it is; 0: global memory */
    emu_foreign *foreign;
} flag;

static struct {
    flag *at;
    size_t count, capacity; /* a power of two */
} flags;

/* A thread's fences. Far: device and system scope, which orders words of global memory; near: any fence, enough for
 * words of shared memory. released: what the last fence gives to later relaxed stores; seen: what relaxed loads have
 * found, for the next fence. */
enum { NEAR, FAR };
struct order {
    emu_foreign *released[2], *seen[2];
    uint32_t initialised; /* the thread's clock at fence.mbarrier_init; 0: none */
};

static flag *find(uintptr_t address, uint32_t generation) {
    size_t at = (address / 4 * 0x9e3779b97f4a7c15u >> 20) & (flags.capacity - 1);
    while (flags.at[at].address && (flags.at[at].address != address || flags.at[at].generation != generation))
        at = (at + 1) & (flags.capacity - 1);
    return &flags.at[at];
}

static void grow(void) {
    flag *old = flags.at;
    size_t old_capacity = flags.capacity;
    flags.capacity = old_capacity ? old_capacity * 2 : 64;
    flags.at = calloc(flags.capacity, sizeof *flags.at);
    if (!flags.at) {
        flags.at = old;
        flags.capacity = old_capacity;
        emu_out_of_memory();
    }
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].address)
            *find(old[i].address, old[i].generation) = old[i];
    free(old);
}

static emu_foreign **flag_of(uintptr_t address, uint32_t generation) {
    if (flags.count * 2 >= flags.capacity)
        grow();
    flag *place = find(address, generation);
    if (!place->address) {
        *place = (flag){address, generation, NULL};
        flags.count++;
    }
    return &place->foreign;
}

void emu_flags_forget(void) {
    for (size_t i = 0; i < flags.capacity; i++)
        emu_foreign_clear(&flags.at[i].foreign);
    free(flags.at);
    flags.at = NULL;
    flags.count = flags.capacity = 0;
}

/* ---- fences ---- */

static struct order *order_of(emu_thread *thread) {
    if (!thread->order)
        thread->order = calloc(1, sizeof(struct order));
    if (!thread->order)
        emu_out_of_memory();
    return thread->order;
}

void emu_order_free(emu_thread *thread) {
    struct order *order = thread->order;
    thread->order = NULL;
    for (int scope = NEAR; order && scope <= FAR; scope++) {
        emu_foreign_clear(&order->released[scope]);
        emu_foreign_clear(&order->seen[scope]);
    }
    free(order);
}

static void add(emu_foreign **into, emu_foreign *from) {
    emu_view to = {NULL, NULL, *into};
    const emu_view more = {NULL, NULL, from};
    emu_view_join(&to, &more);
    *into = to.foreign;
}

static void memory_fence(emu_thread *thread, int widest) {
    struct order *order = order_of(thread);
    for (int scope = NEAR; scope <= widest; scope++) {
        emu_acquire_far(thread, order->seen[scope]);
        emu_foreign_clear(&order->seen[scope]);
    }
    for (int scope = NEAR; scope <= widest; scope++) {
        emu_foreign_clear(&order->released[scope]);
        emu_release_far(thread, &order->released[scope]);
    }
}

void emu_order_release(emu_thread *thread, emu_view *into) {
    const struct order *order = thread->order;
    const emu_foreign *released = order ? order->released[NEAR] : NULL;
    for (uint32_t i = 0; released && i < released->count; i++) {
        const emu_view own = {released->at[i].known, released->at[i].fenced, NULL};
        if (released->at[i].cluster == thread->block->cluster->generation)
            emu_view_join(into, &own);
    }
    if (released)
        add(&into->foreign, order->released[NEAR]);
    if (order && order->initialised)
        emu_view_learn(into, emu_slot(thread), order->initialised, false);
}

void emu_api_fence(int kind) {
    emu_thread *self = emu_self();
    switch (kind) {
    case EMU_FENCE_BLOCK:
    case EMU_FENCE_CLUSTER:
        memory_fence(self, NEAR);
        break;
    case EMU_FENCE_DEVICE:
    case EMU_FENCE_SYSTEM:
        memory_fence(self, FAR);
        break;
    case EMU_FENCE_MBARRIER_INIT:
        emu_mbarrier_init_fence(self);
        order_of(self)->initialised = self->clock++; /* what it does from now on is not in it */
        break;
    default: /* the kinds of fence.proxy.async: which memory they are for is not told apart */
        emu_proxy_fence(self);
    }
}

void emu_api_nanosleep(emu_u32 nanoseconds) {
    (void)nanoseconds;
    emu_yield(emu_self(), "nanosleep", EMU_ORIGIN);
}

/* ---- the words ---- */

/* The word's place in memory: checks and records the access, and finds its flag. */
typedef struct word {
    emu_foreign **foreign;
    int scope; /* of the fences that order it */
} word;

static word touch(emu_thread *thread, const void *address, uint32_t bytes, int kind, bool reads, uintptr_t origin) {
    uintptr_t at = (uintptr_t)address;
    uint32_t offset;
    emu_block *block = emu_shared_of(thread, at, &offset);
    if (at % bytes != 0)
        emu_fault(thread, origin, "an atomic or ordered access of %u bytes at 0x%llx, which is not a multiple of that",
                  bytes, (unsigned long long)at);
    if (block) {
        if (!reads && !emu_shared_outside(block, offset, bytes))
            emu_shared_written(block, offset, bytes);
        emu_shared_touch(thread, block, offset, bytes, kind, origin);
        return (word){flag_of(at, block->cluster->generation), NEAR};
    }
    if (!reads) {
        emu_allocation *allocation = emu_allocation_find(thread, at, bytes, kind, origin);
        emu_bits_set(allocation->written, at - allocation->start, bytes, true);
    }
    emu_global_touch(thread, at, bytes, kind, origin);
    return (word){flag_of(at, 0), FAR};
}

static void acquire(emu_thread *thread, word from, int order) {
    if (order == EMU_ACQUIRE || order == EMU_ACQUIRE_RELEASE)
        emu_acquire_far(thread, *from.foreign);
    else if (*from.foreign)
        add(&order_of(thread)->seen[from.scope], *from.foreign);
}

static void release(emu_thread *thread, word to, int order) {
    const struct order *fences = thread->order;
    if (order == EMU_RELEASE || order == EMU_ACQUIRE_RELEASE)
        emu_release_far(thread, to.foreign);
    else if (fences && fences->released[to.scope])
        add(to.foreign, fences->released[to.scope]);
}

static uint32_t load32(const void *address) {
    uint32_t value;
    memcpy(&value, address, sizeof value);
    return value;
}

/* Others go first; the deadlock report says what is waited for. */
static void poll(emu_thread *thread, const char *what, const void *address, uintptr_t origin) {
    char text[96];
    uint32_t offset;
    const emu_block *block = emu_shared_of(thread, (uintptr_t)address, &offset);
    if (!block && !emu_allocation_of((uintptr_t)address))
        return; /* the access itself will say so */
    snprintf(text, sizeof text, "%s of the word at 0x%llx, which holds %u", what,
             block ? EMU_SHARED_START + offset : (unsigned long long)(uintptr_t)address, load32(address));
    emu_yield(thread, text, origin);
}

emu_u32 emu_api_load_ordered(const void *address, int order) {
    emu_thread *self = emu_self();
    poll(self, "ordered load", address, EMU_ORIGIN);
    acquire(self, touch(self, address, sizeof(uint32_t), EMU_ATOMIC, true, EMU_ORIGIN), order);
    return load32(address);
}

void emu_api_store_ordered(void *address, emu_u32 value, int order) {
    emu_thread *self = emu_self();
    word place = touch(self, address, sizeof value, EMU_WRITE | EMU_ATOMIC, false, EMU_ORIGIN);
    emu_foreign_clear(place.foreign); /* what an earlier store released is not in this value */
    release(self, place, order);
    if (load32(address) != value)
        emu_progress(self->block->launch);
    memcpy(address, &value, sizeof value);
}

static float as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t as_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t reduced(uint64_t old, uint64_t value, uint64_t compare, int reduction) {
    uint32_t a = (uint32_t)old, b = (uint32_t)value;
    switch (reduction) {
    case EMU_ADD_F32:
        return as_bits(as_float(a) + as_float(b));
    case EMU_MAX_F32: /* a NaN counts as missing */
        return as_float(b) > as_float(a) || as_float(a) != as_float(a) ? b : a;
    case EMU_ADD_U32:
        return a + b;
    case EMU_MIN_U32:
        return a < b ? a : b;
    case EMU_MAX_U32:
        return a > b ? a : b;
    case EMU_AND_U32:
        return a & b;
    case EMU_OR_U32:
        return a | b;
    case EMU_COMPARE_AND_SWAP_U32:
        return a == (uint32_t)compare ? b : a;
    case EMU_ADD_U64:
        return old + value;
    default: /* EMU_EXCHANGE_U32 */
        return b;
    }
}

/* May a loop be waiting for the word with this? A lock is taken by an exchange; adding nothing is a load. */
static bool may_poll(uint64_t value, int reduction) {
    switch (reduction) {
    case EMU_COMPARE_AND_SWAP_U32:
    case EMU_EXCHANGE_U32:
        return true;
    case EMU_AND_U32:
    case EMU_MIN_U32:
        return (uint32_t)value == UINT32_MAX;
    case EMU_ADD_F32:
    case EMU_MAX_F32:
        return false;
    default:
        return value == 0;
    }
}

emu_u64 emu_api_reduce(void *address, emu_u64 value, emu_u64 compare, int reduction, int order) {
    emu_thread *self = emu_self();
    uint32_t bytes = reduction == EMU_ADD_U64 ? sizeof(uint64_t) : sizeof(uint32_t);
    if (may_poll(value, reduction))
        poll(self, "atomic operation", address, EMU_ORIGIN);
    word place = touch(self, address, bytes, EMU_WRITE | EMU_ATOMIC, true, EMU_ORIGIN);
    acquire(self, place, order);
    release(self, place, order);
    uint64_t old = 0;
    memcpy(&old, address, bytes);
    uint64_t next = reduced(old, value, compare, reduction);
    if (next != old)
        emu_progress(self->block->launch);
    memcpy(address, &next, bytes);
    return old;
}
