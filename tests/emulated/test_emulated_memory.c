/* The emulated device's memory, driven by kernels that are C functions of this program: bounds, never-written reads,
 * races of threads, warps and blocks, words that order blocks, asynchronous effects, dependent launches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/emulated/emulator.h"

extern const char __executable_start[], end[];

/* ---- a kernel's side ---- */

enum { DYNAMIC = 4096 };
static __thread _Alignas(1024) unsigned char shared[DYNAMIC];

static void shared_range(unsigned char **first, size_t *bytes, unsigned char **dynamic, size_t *dynamic_bytes) {
    *first = *dynamic = shared;
    *bytes = *dynamic_bytes = sizeof shared;
}

#define KERNEL __attribute__((noinline))
#define INLINED static inline __attribute__((always_inline))

static KERNEL void hook(uintptr_t address, uint32_t bytes, bool write) {
    union {
        uintptr_t number;
        void *any;
    } place = {.number = address};
    emu_api_access(place.any, bytes, write, __builtin_return_address(0));
}

/* As the compiler's thread sanitizer does it. The empty statement keeps the call from becoming a jump, which would have
 * the caller's return address. */
INLINED void touch(const void *address, uint32_t bytes, bool write) {
    hook((uintptr_t)address, bytes, write);
    __asm__ volatile("");
}
INLINED uint32_t load(const uint32_t *address) {
    touch(address, sizeof *address, false);
    return *address;
}
INLINED void store(uint32_t *address, uint32_t value) {
    touch(address, sizeof *address, true);
    *address = value;
}

static uint32_t thread_index(void) {
    return emu_api_builtin(EMU_THREAD_INDEX);
}
static uint32_t block_index(void) {
    return emu_api_builtin(EMU_BLOCK_INDEX);
}
static uint32_t *words(void) { /* of shared memory; the compiler must not keep the address from thread to thread */
    return (uint32_t *)(void *)emu_self()->block->shared;
}
static uint32_t *argument(void **arguments) {
    return *(uint32_t **)arguments[0];
}

/* ---- the host's side ---- */

typedef struct setting {
    uint32_t blocks, threads, cluster, seed;
    bool programmatic;
} setting;

static char fault[2048], program[4096];

static bool launch(void (*entry)(void **arguments), uint32_t *memory, setting how) {
    const emu_code code = {.entry = entry,
                           .shared_range = shared_range,
                           .path = program,
                           .first = (uintptr_t)__executable_start,
                           .end = (uintptr_t)end};
    const emu_dims dims = {.grid = {how.blocks ? how.blocks : 1, 1, 1},
                           .block = {how.threads ? how.threads : 1, 1, 1},
                           .cluster = {how.cluster ? how.cluster : 1, 1, 1},
                           .shared_bytes = 2048,
                           .programmatic = how.programmatic};
    const emu_options options = {.seed = how.seed, .timing = EMU_LATE, .units = 4};
    void *arguments[] = {&memory};
    return emu_launch_run(&code, &dims, &options, arguments, fault, sizeof fault, NULL);
}

static void passes(void (*entry)(void **arguments), uint32_t *memory, setting how) {
    if (!launch(entry, memory, how))
        fail_msg("a correct kernel has failed: %s", fault);
}

/* Three parts of the report, "" for none. */
static void faults(void (*entry)(void **arguments), uint32_t *memory, setting how, const char *a, const char *b,
                   const char *c) {
    if (launch(entry, memory, how))
        fail_msg("no fault has been found; \"%s\" was expected", a);
    const char *parts[] = {a, b, c, "test_emulated_memory.c:", "thread ("};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!strstr(fault, parts[i]))
            fail_msg("\"%s\" is not in the report: %s", parts[i], fault);
}

static uint32_t *fresh(size_t bytes, bool written) {
    uint32_t *memory = emu_global_allocate(bytes);
    assert_non_null(memory);
    if (written) {
        memset(memory, 0, bytes);
        emu_global_host_wrote(memory, bytes);
    }
    return memory;
}

/* ---- bounds, never-written memory ---- */

static void read_behind(void **arguments) {
    load(argument(arguments) + 20);
}
static void read_across(void **arguments) {
    touch(argument(arguments) + 14, 16, false);
}
static void write_before(void **arguments) {
    store(argument(arguments) - 1, 1);
}
static void read_first(void **arguments) {
    load(argument(arguments));
}
static void write_first(void **arguments) {
    store(argument(arguments), 7);
}
static uint32_t module_variable = 5;
static void write_module(void **arguments) {
    (void)arguments;
    store(&module_variable, 1);
}
static void read_module(void **arguments) {
    (void)arguments;
    load(&module_variable);
}
static uint32_t *somebodys;
static void read_local_of_another(void **arguments) {
    uint32_t local = 0;
    (void)arguments;
    if (thread_index() == 0)
        somebodys = &local;
    emu_api_barrier_sync(0, 0);
    store(&local, 1);
    if (thread_index() == 1)
        load(somebodys);
}

static void test_bounds(void **state) {
    (void)state;
    uint32_t *memory = fresh(64, true);
    assert_int_equal((uintptr_t)memory % 256, 0);
    faults(read_behind, memory, (setting){0}, "read of 4 bytes", "outside every allocation", "ends 16 bytes before it");
    faults(read_across, memory, (setting){0}, "read of 16 bytes", "outside", "ends 8 bytes before the end");
    faults(write_before, memory, (setting){0}, "write of 4 bytes", "outside", "starts 4 bytes behind it");
    faults(read_first, NULL, (setting){0}, "null pointer", "", "");
    faults(write_module, NULL, (setting){0}, "a variable of the module", "", "");
    passes(read_module, NULL, (setting){0});
    faults(read_local_of_another, NULL, (setting){.threads = 2}, "a local variable of thread (0,0,0)", "", "");
    assert_true(emu_global_contains(memory, 64));
    assert_false(emu_global_contains(memory, 65));
    assert_false(emu_global_free(memory + 1));
    assert_true(emu_global_free(memory));
    assert_false(emu_global_free(memory));
    faults(read_first, memory, (setting){0}, "byte 0 of one of 64 bytes that has been freed", "", "");
}

static void shared_behind_dynamic(void **arguments) {
    (void)arguments;
    touch((unsigned char *)words() + 2040, 16, true);
}
static void shared_unwritten(void **arguments) {
    (void)arguments;
    store(words(), 1);
    touch(words(), 8, false);
}

static void test_never_written(void **state) {
    (void)state;
    uint32_t *memory = fresh(64, false);
    float poison;
    memcpy(&poison, memory, sizeof poison);
    assert_true(poison != poison);
    faults(read_first, memory, (setting){0}, "never been written", "byte 0 of an allocation of 64", "");
    passes(write_first, memory, (setting){0});
    passes(read_first, memory, (setting){0}); /* a later launch knows */
    assert_int_equal(memory[0], 7);
    faults(read_first, memory + 1, (setting){0}, "never been written", "byte 4", "");
    emu_global_host_wrote(memory + 1, 4);
    passes(read_first, memory + 1, (setting){0});
    assert_true(emu_global_free(memory));
    faults(shared_unwritten, NULL, (setting){0}, "never been written", "shared memory at 0x404",
           "byte 4 of the dynamic");
    faults(shared_behind_dynamic, NULL, (setting){0}, "ends 8 bytes behind the 2048 bytes of dynamic", "", "");
}

/* ---- races in a block ---- */

static void write_then_read(void **arguments) { /* thread 0 writes, the last one reads */
    (void)arguments;
    if (thread_index() == 0)
        store(words(), 1);
    else if (thread_index() == emu_api_builtin(EMU_BLOCK_SIZE) - 1)
        load(words());
}
static void write_barrier_read(void **arguments) {
    (void)arguments;
    store(words() + thread_index(), 1);
    emu_api_barrier_sync(0, 0);
    load(words() + 63 - thread_index());
    emu_api_barrier_sync(0, 0);
    store(words() + 63 - thread_index(), 2);
}
static void write_after_read(void **arguments) {
    (void)arguments;
    store(words() + thread_index(), 1);
    emu_api_barrier_sync(0, 0);
    load(words() + 63 - thread_index());
    store(words() + thread_index(), 2);
}
static void write_syncwarp_read(void **arguments) {
    (void)arguments;
    store(words() + thread_index(), 1);
    emu_api_warp_sync(0xffffffffu);
    load(words() + (thread_index() ^ 1));
}
static void parts_of_a_word(void **arguments) {
    (void)arguments;
    unsigned char *byte = (unsigned char *)words() + thread_index();
    touch(byte, 1, true);
    touch(byte, 1, false);
    emu_api_barrier_sync(0, 0);
    touch(words(), 4, false);
    emu_api_barrier_sync(0, 0);
    if (thread_index() == 3)
        touch(words(), 16, true);
    emu_api_barrier_sync(0, 0);
    touch(byte, 1, true);
}
static void halves_that_overlap(void **arguments) {
    (void)arguments;
    touch((unsigned char *)words() + thread_index(), 2, true);
}
static void vector_and_word(void **arguments) {
    (void)arguments;
    if (thread_index() == 0)
        touch(words() + 4, 16, true);
    else
        touch(words() + 6, 4, true);
}

static void test_races_in_a_block(void **state) {
    (void)state;
    faults(write_then_read, NULL, (setting){.threads = 2}, "two threads of one warp", "shared memory at 0x400",
           "after the write at");
    faults(write_then_read, NULL, (setting){.threads = 64}, "two threads of one block", "a barrier", "");
    passes(write_barrier_read, NULL, (setting){.threads = 64});
    for (uint32_t seed = 0; seed < 4; seed++)
        faults(write_after_read, NULL, (setting){.threads = 64, .seed = seed}, "race between", "shared memory", "");
    passes(write_syncwarp_read, NULL, (setting){.threads = 32});
    passes(parts_of_a_word, NULL, (setting){.threads = 4});
    faults(halves_that_overlap, NULL, (setting){.threads = 2}, "two threads of one warp", "write of 2 bytes", "");
    faults(vector_and_word, NULL, (setting){.threads = 2}, "race", "write of 4 bytes", "shared memory at 0x418");
}

/* Random accesses between barriers: a race is there exactly when two threads touch one byte between the same barriers,
 * and one of them writes. */
enum { RANDOM_THREADS = 40, ROUNDS = 4, ACCESSES = 3, RANDOM_BYTES = 256 };
typedef struct random_access {
    uint32_t offset, bytes;
    bool write;
} random_access;
static random_access accesses[ROUNDS][RANDOM_THREADS][ACCESSES];
static bool random_is_global;

static void random_accesses(void **arguments) {
    unsigned char *memory = random_is_global ? (unsigned char *)argument(arguments) : emu_self()->block->shared;
    if (!random_is_global && thread_index() == 0)
        touch(memory, RANDOM_BYTES, true);
    for (int round = 0; round < ROUNDS; round++) {
        emu_api_barrier_sync(0, 0);
        for (int i = 0; i < ACCESSES; i++) {
            const random_access *at = &accesses[round][thread_index()][i];
            touch(memory + at->offset, at->bytes, at->write);
        }
    }
}

static bool draw_accesses(uint32_t write_percent) { /* returns whether there is a race */
    bool race = false;
    for (int round = 0; round < ROUNDS; round++) {
        static uint8_t readers[RANDOM_BYTES][RANDOM_THREADS], writers[RANDOM_BYTES][RANDOM_THREADS];
        memset(readers, 0, sizeof readers);
        memset(writers, 0, sizeof writers);
        for (int thread = 0; thread < RANDOM_THREADS; thread++) {
            for (int i = 0; i < ACCESSES; i++) {
                random_access *at = &accesses[round][thread][i];
                at->bytes = 1u << rand() % 5;
                at->offset = (uint32_t)rand() % (RANDOM_BYTES / at->bytes) * at->bytes;
                at->write = (uint32_t)rand() % 1000 < write_percent;
                for (uint32_t k = at->offset; k < at->offset + at->bytes; k++)
                    (at->write ? writers : readers)[k][thread] = 1;
            }
        }
        for (int byte = 0; byte < RANDOM_BYTES; byte++)
            for (int a = 0; a < RANDOM_THREADS; a++)
                for (int b = 0; writers[byte][a] && b < RANDOM_THREADS; b++)
                    race |= a != b && (writers[byte][b] || readers[byte][b]);
    }
    return race;
}

static void test_random_accesses(void **state) {
    (void)state;
    int races = 0, clean = 0;
    uint32_t *memory = fresh(RANDOM_BYTES, true);
    srand(1);
    for (int i = 0; i < 300; i++) {
        static const uint32_t percents[] = {0, 1, 2, 5, 20};
        bool race = draw_accesses(percents[i % 5]);
        random_is_global = i % 2;
        bool fine = launch(random_accesses, memory, (setting){.threads = RANDOM_THREADS, .seed = (uint32_t)i});
        if (fine == race)
            fail_msg("case %d: %s, but the emulation says: %s", i, race ? "a race" : "no race", fine ? "fine" : fault);
        if (race && !strstr(fault, "race between two threads"))
            fail_msg("case %d: %s", i, fault);
        races += race;
        clean += !race;
    }
    assert_in_range(races, 50, 250);
    assert_in_range(clean, 50, 250);
    assert_true(emu_global_free(memory));
}

/* ---- blocks ---- */

static void blocks_write_one_word(void **arguments) {
    store(argument(arguments), block_index());
}
static void blocks_write_their_own(void **arguments) {
    load(argument(arguments) + 8);
    store(argument(arguments) + block_index(), 1);
}
static void blocks_read_what_one_writes(void **arguments) {
    if (block_index() == 2)
        store(argument(arguments), 1);
    else
        load(argument(arguments));
}
static void blocks_add(void **arguments) {
    emu_api_reduce(argument(arguments), 1, 0, EMU_ADD_U32, EMU_RELAXED);
}
static void blocks_add_and_read(void **arguments) {
    emu_api_reduce(argument(arguments), 1, 0, EMU_ADD_U32, EMU_RELAXED);
    load(argument(arguments));
}

static void test_blocks(void **state) {
    (void)state;
    uint32_t *memory = fresh(64, true);
    faults(blocks_write_one_word, memory, (setting){.blocks = 2}, "race between two blocks", "global memory at",
           "block (0,0,0)");
    passes(blocks_write_their_own, memory, (setting){.blocks = 8});
    for (uint32_t seed = 0; seed < 6; seed++)
        faults(blocks_read_what_one_writes, memory, (setting){.blocks = 9, .seed = seed}, "race between two blocks",
               "block (2,0,0)", "");
    memory[0] = 0;
    passes(blocks_add, memory, (setting){.blocks = 9, .threads = 33});
    assert_int_equal(memory[0], 9 * 33);
    faults(blocks_add_and_read, memory, (setting){.blocks = 2}, "race between two blocks", "atomic operation", "read");
    assert_true(emu_global_free(memory));
}

/* Block 0 writes word 0 and sets the flag in word 16; the others wait for it and read. */
static int release_order, acquire_order, release_fence, acquire_fence; /* a fence of -1: none */
static void pass_a_message(void **arguments) {
    uint32_t *memory = argument(arguments);
    if (block_index() == 0) {
        store(memory, 42);
        emu_api_barrier_sync(0, 0);
        if (thread_index() > 0)
            return;
        if (release_fence >= 0)
            emu_api_fence(release_fence);
        emu_api_store_ordered(memory + 16, 1, release_order);
    } else {
        if (thread_index() == 0) {
            while (emu_api_load_ordered(memory + 16, acquire_order) == 0)
                emu_api_nanosleep(100);
            if (acquire_fence >= 0)
                emu_api_fence(acquire_fence);
        }
        emu_api_barrier_sync(0, 0);
        if (load(memory) != 42)
            emu_api_trap();
    }
}
static void count_up(void **arguments) { /* the last block reads what all have written */
    uint32_t *memory = argument(arguments);
    store(memory + block_index(), block_index());
    emu_api_fence(EMU_FENCE_DEVICE);
    if (emu_api_reduce(memory + 16, 1, 0, EMU_ADD_U32, EMU_RELAXED) != 8)
        return;
    emu_api_fence(EMU_FENCE_DEVICE);
    for (uint32_t i = 0; i < 9; i++)
        load(memory + i);
}
static void count_up_without_fence(void **arguments) {
    uint32_t *memory = argument(arguments);
    store(memory + block_index(), block_index());
    if (emu_api_reduce(memory + 16, 1, 0, EMU_ADD_U32, EMU_RELAXED) == 8)
        load(memory + 4);
}
static void wait_for_nobody(void **arguments) {
    while (emu_api_load_ordered(argument(arguments) + 16, EMU_ACQUIRE) == 0)
        continue;
}

static void set_orders(int release, int fence, int acquire, int second_fence) {
    release_order = release;
    release_fence = fence;
    acquire_order = acquire;
    acquire_fence = second_fence;
}

static void test_flags(void **state) {
    (void)state;
    for (uint32_t seed = 0; seed < 3; seed++) {
        uint32_t *memory = fresh(256, true);
        const setting how = {.blocks = 3, .threads = 1, .seed = seed};
#define AGAIN (memset(memory, 0, 256), memory)
        set_orders(EMU_RELEASE, -1, EMU_ACQUIRE, -1);
        passes(pass_a_message, AGAIN, how);
        set_orders(EMU_RELAXED, EMU_FENCE_DEVICE, EMU_RELAXED, EMU_FENCE_DEVICE);
        passes(pass_a_message, AGAIN, how);
        set_orders(EMU_RELAXED, EMU_FENCE_DEVICE, EMU_ACQUIRE, -1);
        passes(pass_a_message, AGAIN, how);
        set_orders(EMU_RELAXED, -1, EMU_ACQUIRE, -1);
        faults(pass_a_message, AGAIN, how, "race between two blocks", "a release and an acquire", "write at");
        set_orders(EMU_RELEASE, -1, EMU_RELAXED, -1);
        faults(pass_a_message, AGAIN, how, "race between two blocks", "", "");
        set_orders(EMU_RELAXED, EMU_FENCE_BLOCK, EMU_ACQUIRE, -1);
        faults(pass_a_message, AGAIN, how, "race between two blocks", "", "");
        passes(count_up, AGAIN, (setting){.blocks = 9, .seed = seed});
        faults(count_up_without_fence, AGAIN, (setting){.blocks = 9, .seed = seed}, "race between two blocks", "", "");
        assert_false(launch(wait_for_nobody, AGAIN, how));
        assert_non_null(strstr(fault, "ordered load of the word at"));
        assert_non_null(strstr(fault, "which holds 0"));
        assert_true(emu_global_free(memory));
    }
}

/* ---- clusters ---- */

static bool cluster_waits, cluster_waits_again;
static void read_of_peer(void **arguments) {
    (void)arguments;
    uint32_t own = emu_api_shared_address(words()), value, rank = emu_api_builtin(EMU_CLUSTER_RANK);
    emu_api_store_shared(&rank, own, 4);
    if (cluster_waits) {
        emu_api_cluster_arrive(1);
        emu_api_cluster_wait(1);
    }
    emu_api_load_shared(&value, emu_api_map_shared_rank(own, rank ^ 1), 4);
    if (value != (rank ^ 1))
        emu_api_trap();
    if (cluster_waits_again) {
        emu_api_cluster_arrive(1);
        emu_api_cluster_wait(1);
    }
    store(words(), 3);
    emu_api_cluster_arrive(1); /* nobody leaves while the other reads */
    emu_api_cluster_wait(1);
}
static void address_of_nobody(void **arguments) {
    (void)arguments;
    uint32_t value;
    emu_api_load_shared(&value, emu_api_shared_address(words()) + (1u << EMU_RANK_SHIFT), 4);
}

static void test_clusters(void **state) {
    (void)state;
    const setting pair = {.blocks = 4, .cluster = 2};
    cluster_waits = cluster_waits_again = true;
    passes(read_of_peer, NULL, pair);
    cluster_waits_again = false;
    faults(read_of_peer, NULL, pair, "race between two blocks of one cluster", "of block", "a barrier of the cluster");
    cluster_waits = false;
    faults(read_of_peer, NULL, pair, "never been written", "shared memory", "");
    faults(address_of_nobody, NULL, (setting){0}, "block 1 of the cluster, which has 1", "", "");
}

/* ---- asynchronous effects; here the test is the copy engine ---- */

static bool fence_first, retire_first, warp_first;
static emu_effect *running;

/* Thread 0 writes (or reads), has an operation read (write) the same memory, and writes again. */
static void effect_of(bool writes, bool then_write) {
    emu_thread *self = emu_self();
    emu_view view;
    for (uint32_t i = 0; i < 16; i++)
        store(words() + i, i);
    if (fence_first)
        emu_api_fence(EMU_FENCE_PROXY_ASYNC);
    emu_view_of(self, &view);
    running = emu_effect_new(self, writes, "bulk copy", (uintptr_t)__builtin_return_address(0));
    emu_shared_effect(&view, running, self->block, 16, 32, false);
    emu_view_clear(&view);
    if (writes)
        emu_shared_written(self->block, 16, 32);
    load(words());
    if (!writes)
        load(words() + 4);
    if (retire_first)
        emu_effect_retire(running, self->block, emu_slot(self), self->clock);
    if (then_write)
        store(words() + 4, 9);
    else
        load(words() + 4);
}
static KERNEL void read_by_engine(void **arguments) {
    (void)arguments;
    effect_of(false, true);
}
static KERNEL void write_by_engine(void **arguments) {
    (void)arguments;
    effect_of(true, false);
}
static KERNEL void other_thread_after_engine(void **arguments) {
    (void)arguments;
    if (thread_index() == 0)
        effect_of(true, false);
    if (warp_first)
        emu_api_warp_sync(3);
    if (thread_index() == 1)
        load(words() + 4);
}
static KERNEL void engine_reads_unwritten(void **arguments) {
    (void)arguments;
    emu_thread *self = emu_self();
    running = emu_effect_new(self, false, "bulk store", (uintptr_t)__builtin_return_address(0));
    running->poison_allowed = retire_first;
    emu_shared_effect(&self->view, running, self->block, 16, 32, false);
}
static void run_effect(void (*entry)(void **arguments), bool fence, bool retire, const char *a, const char *b) {
    fence_first = fence;
    retire_first = retire;
    running = NULL;
    const setting two = {.threads = entry == other_thread_after_engine ? 2 : 1};
    bool fine = launch(entry, NULL, two);
    emu_effect_drop(running);
    if (fine != !a)
        fail_msg("\"%s\" was expected, not \"%s\"", a ? a : "success", fine ? "success" : fault);
    if (a && (!strstr(fault, a) || !strstr(fault, b)))
        fail_msg("\"%s\" and \"%s\" are not in the report: %s", a, b, fault);
}

static void opaque_object(void **arguments) {
    (void)arguments;
    emu_shared_opaque(emu_self()->block, 8, 8, true, "mbarrier");
    store(words() + 1, 1);
    store(words() + 3, 1);
}
static void opaque_no_more(void **arguments) {
    (void)arguments;
    emu_shared_opaque(emu_self()->block, 8, 8, true, "mbarrier");
    emu_shared_opaque(emu_self()->block, 8, 8, false, "mbarrier");
    store(words() + 3, 1);
    load(words() + 2);
}

static void test_effects(void **state) {
    (void)state;
    run_effect(read_by_engine, true, true, NULL, NULL);
    run_effect(read_by_engine, true, false, "write of 4 bytes", "bulk copy issued at");
    assert_non_null(strstr(fault, "still reads it"));
    run_effect(read_by_engine, false, true, "fence.proxy.async", "bulk copy reads shared memory at 0x410");
    run_effect(write_by_engine, true, true, NULL, NULL);
    run_effect(write_by_engine, true, false, "read of 4 bytes", "still writes it");
    run_effect(write_by_engine, false, true, "fence.proxy.async", "bulk copy writes shared memory at 0x410");
    warp_first = true;
    run_effect(other_thread_after_engine, true, true, NULL, NULL);
    warp_first = false;
    run_effect(other_thread_after_engine, true, true, "read of 4 bytes", "nothing has told this thread");
    run_effect(engine_reads_unwritten, true, false, "bulk store reads", "never been written");
    run_effect(engine_reads_unwritten, true, true, NULL, NULL);
    faults(opaque_object, NULL, (setting){0}, "write of 4 bytes", "mbarrier at 0x408", "shared memory at 0x40c");
    faults(opaque_no_more, NULL, (setting){0}, "never been written", "shared memory at 0x408", "");
}

static void far_effect(emu_thread *self, uint32_t *memory, bool writes) {
    running = emu_effect_new(self, writes, "bulk store", (uintptr_t)__builtin_return_address(0));
    emu_view view;
    emu_view_of(self, &view);
    emu_global_effect(&view, self, running, (uintptr_t)memory, 64, false);
    emu_view_clear(&view);
}
static KERNEL void global_engine(void **arguments) {
    emu_thread *self = emu_self();
    uint32_t *memory = argument(arguments);
    store(memory + 4, 1);
    if (fence_first)
        emu_api_fence(EMU_FENCE_PROXY_ASYNC_GLOBAL);
    far_effect(self, memory, true);
    load(memory + 16);
    if (retire_first)
        emu_effect_retire(running, self->block, emu_slot(self), self->clock);
    load(memory + 4);
}
static KERNEL void global_engine_and_block(void **arguments) {
    if (block_index() == 1)
        store(argument(arguments) + 4, 1);
    else
        far_effect(emu_self(), argument(arguments), false);
}

static void test_global_effects(void **state) {
    (void)state;
    uint32_t *memory = fresh(4096, true);
    static const struct {
        bool fence, retire;
        const char *expected;
    } cases[] = {{true, true, NULL}, {true, false, "still writes it"}, {false, true, "fence.proxy.async"}};
    for (int i = 0; i < 3; i++) {
        fence_first = cases[i].fence;
        retire_first = cases[i].retire;
        assert_int_equal(launch(global_engine, memory + 250, (setting){0}), cases[i].expected == NULL);
        if (cases[i].expected && !strstr(fault, cases[i].expected))
            fail_msg("%s is not in: %s", cases[i].expected, fault);
        emu_effect_drop(running);
    }
    for (uint32_t seed = 0; seed < 4; seed++) {
        assert_false(launch(global_engine_and_block, memory, (setting){.blocks = 2, .seed = seed}));
        assert_non_null(strstr(fault, "bulk store"));
        emu_effect_drop(running);
    }
    assert_true(emu_global_free(memory));
}

/* ---- registers, dependent launches ---- */

static void registers_in_flight(void **arguments) {
    float accumulators[4] = {0};
    emu_thread *self = emu_self();
    emu_registers owned = {.first = (uintptr_t)accumulators,
                           .end = (uintptr_t)(accumulators + 4),
                           .what = "accumulators of wgmma",
                           .site = emu_site_of(self, (uintptr_t)__builtin_return_address(0))};
    self->registers = &owned;
    touch(&owned, 4, false); /* another local variable */
    if (argument(arguments)) {
        owned.reads_allowed = true;
        touch(accumulators + 3, 4, false);
        touch(accumulators + 3, 4, true);
    }
    touch(accumulators + 3, 4, false);
    self->registers = NULL;
}

static void test_registers(void **state) {
    (void)state;
    uint32_t *memory = fresh(4, true);
    faults(registers_in_flight, NULL, (setting){0}, "accumulators of wgmma are read before wgmma.wait_group", "issued",
           "");
    faults(registers_in_flight, memory, (setting){0}, "accumulators of wgmma are written", "", "");
    assert_true(emu_global_free(memory));
}

static void write_after_dependency(void **arguments) {
    emu_self()->dependency_wait = true;
    store(argument(arguments), 1);
}

static void test_dependent_launches(void **state) {
    (void)state;
    uint32_t *memory = fresh(64, true);
    const setting dependent = {.programmatic = true};
    passes(write_first, memory, (setting){0});
    passes(read_first, memory + 1, dependent);
    faults(read_first, memory, dependent, "before griddepcontrol.wait", "the launch before", "writes");
    faults(write_first, memory + 1, dependent, "before griddepcontrol.wait", "reads", "");
    passes(write_after_dependency, memory, dependent);
    faults(read_first, memory, dependent, "before griddepcontrol.wait", "", "");
    passes(read_first, memory, (setting){0});
    passes(write_first, memory, (setting){0});
    emu_global_settle();
    passes(read_first, memory, dependent);
    assert_true(emu_global_free(memory));
}

int main(void) {
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_never_written),
        cmocka_unit_test(test_races_in_a_block),
        cmocka_unit_test(test_random_accesses),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_clusters),
        cmocka_unit_test(test_effects),
        cmocka_unit_test(test_global_effects),
        cmocka_unit_test(test_registers),
        cmocka_unit_test(test_dependent_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
