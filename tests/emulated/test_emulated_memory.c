/* The emulated device's memory as threads use it: bounds, never-written reads, races of threads, warps and blocks,
 * words that order blocks. */
#include "c_kernel.h"

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

int main(void) {
    if (!find_program())
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),           cmocka_unit_test(test_never_written),
        cmocka_unit_test(test_races_in_a_block), cmocka_unit_test(test_random_accesses),
        cmocka_unit_test(test_blocks),           cmocka_unit_test(test_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
