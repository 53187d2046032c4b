/* The emulated device's memory as others than a block's own threads use it: peers in a cluster, asynchronous
 * operations, the launch before. */
#include "c_kernel.h"

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
static emu_view issuer; /* a fault leaves it to the host */

static void forget_operation(void) {
    emu_effect_drop(running);
    running = NULL;
    emu_view_clear(&issuer);
}

/* Thread 0 writes (or reads), has an operation read (write) the same memory, and writes again. */
static void effect_of(bool writes, bool then_write) {
    emu_thread *self = emu_self();
    for (uint32_t i = 0; i < 16; i++)
        store(words() + i, i);
    if (fence_first)
        emu_api_fence(EMU_FENCE_PROXY_ASYNC);
    emu_view_of(self, &issuer);
    running = emu_effect_new(self, writes, "bulk copy", (uintptr_t)__builtin_return_address(0));
    emu_shared_effect(&issuer, running, self->block, 16, 32, false);
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
    const setting two = {.threads = entry == other_thread_after_engine ? 2 : 1};
    bool fine = launch(entry, NULL, two);
    forget_operation();
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
    emu_view_of(self, &issuer);
    emu_global_effect(&issuer, self, running, (uintptr_t)memory, 64, false);
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
        forget_operation();
    }
    for (uint32_t seed = 0; seed < 4; seed++) {
        assert_false(launch(global_engine_and_block, memory, (setting){.blocks = 2, .seed = seed}));
        assert_non_null(strstr(fault, "bulk store"));
        forget_operation();
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

static void read_first(void **arguments) {
    load(argument(arguments));
}
static void write_first(void **arguments) {
    store(argument(arguments), 7);
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
    if (!find_program())
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clusters),           cmocka_unit_test(test_effects),
        cmocka_unit_test(test_global_effects),     cmocka_unit_test(test_registers),
        cmocka_unit_test(test_dependent_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
