/* Clusters, words between blocks and dependent launches with one mistake each: the emulated device must find it and say
 * what it is. */
#include "tma_support.h"

/* ---- clusters ---- */

static void exchange_faults(const char *file, const char *entry, const kernel_fill *changed, const char *const *parts) {
    test_kernel *kernel = load_with(file, changed);
    void *out = kernel_buffer(kernel, NULL, 4096);
    uint32_t turns = 3;
    kernel_dims dims = {.grid = {2}, .block = {32}, .attributes = {.cluster = {2, 1, 1}}};
    must_fault(kernel, entry, &dims, (void *[]){&out, &turns}, parts);
    kernel_free(kernel);
}

static void test_unordered_exchange(void **state) {
    (void)state;
    exchange_faults("cluster_exchange.cu", "exchange", FILL("barrier", ""), PARTS("cluster_exchange.cu:"));
}

/* The sender's memory goes while the copy from it is under way. */
static void test_exit_while_copy_reads(void **state) {
    (void)state;
    exchange_faults("cluster_exchange.cu", "exchange", FILL("last", ""),
                    PARTS("bulk copy", "reads the shared memory of block", "has exited", "cluster_exchange.cu:"));
}

static void test_exit_while_peer_reads(void **state) {
    (void)state;
    exchange_faults(
        "cluster_exchange.cu", "exchange",
        (const kernel_fill[]){{"barrier", "cluster_barrier_arrive_relaxed(); cluster_barrier_wait();"}, {NULL, NULL}},
        PARTS("cluster_exchange.cu:"));
}

/* Execution order alone, by a word that releases nothing, lets the block end before the read of its memory. */
static void test_peek(void **state) {
    (void)state;
    static const char *const flags[][2] = {{"atomicExch(flag, 1)", "atomicAdd(flag, 0)"},
                                           {"store_release(flag, 1)", "load_acquire(flag)"}};
    for (int i = 0; i < 2; i++) {
        uint32_t zero = 0;
        const kernel_fill changed[] = {{"set", flags[i][0]}, {"get", flags[i][1]}, {NULL, NULL}};
        test_kernel *kernel = load_with("cluster_arrive.cu", changed);
        void *out = kernel_buffer(kernel, NULL, 4), *flag = kernel_buffer(kernel, &zero, sizeof zero);
        kernel_dims dims = {.grid = {2}, .block = {32}, .attributes = {.cluster = {2, 1, 1}}};
        void **arguments = (void *[]){&out, &flag};
        if (i == 0)
            must_fault(kernel, "peek", &dims, arguments,
                       PARTS("block (0,0,0) may have ended before this access", "cluster_arrive.cu:", "block (1,0,0)"));
        else
            run_right(kernel, "peek", &dims, arguments);
        kernel_free(kernel);
    }
}

static void test_wait_without_arrival(void **state) {
    (void)state;
    exchange_faults("cluster_arrive.cu", "hand_over", FILL("last", "cluster_barrier_wait();"),
                    PARTS("barrier.cluster.wait without an arrival", "cluster_arrive.cu:"));
}

static void test_two_arrivals(void **state) {
    (void)state;
    exchange_faults("cluster_arrive.cu", "hand_over",
                    FILL("last", "cluster_barrier_arrive(); cluster_barrier_arrive();"),
                    PARTS("a second time without a wait", "cluster_arrive.cu:"));
}

static void test_missing_arrival(void **state) {
    (void)state;
    exchange_faults("cluster_arrive.cu", "hand_over",
                    FILL("last",
                         "if (rank == 1 && threadIdx.x == 5)\n"
                         "    for (u32 phase = 0; phase < 4; phase++) mbarrier_wait_cluster(barrier, phase & 1);\n"
                         "cluster_barrier_arrive(); cluster_barrier_wait();"),
                    PARTS("deadlock", "barrier.cluster, round 1: 1 of 64 threads have not arrived",
                          "block (1,0,0), thread (5,0,0)", "mbarrier"));
}

/* ---- words between blocks ---- */

static void test_race(void **state) {
    (void)state;
    test_kernel *kernel = load_with("cluster_flag.cu", NULL);
    void *word = kernel_buffer(kernel, NULL, 4);
    kernel_dims dims = {.grid = {2}, .block = {32}};
    must_fault(kernel, "race", &dims, (void *[]){&word}, PARTS("block (0,0,0)", "block (1,0,0)", "cluster_flag.cu:"));
    kernel_free(kernel);
}

static void test_counter_without_order(void **state) {
    (void)state;
    uint32_t zero = 0;
    test_kernel *kernel = load_with("cluster_flag.cu", FILL("count", "atomicAdd(counter, 1)"));
    void *parts = kernel_buffer(kernel, NULL, 4096), *counter = kernel_buffer(kernel, &zero, sizeof zero);
    void *sum = kernel_buffer(kernel, NULL, 4096);
    kernel_dims dims = {.grid = {4}, .block = {32}};
    must_fault(kernel, "gather", &dims, (void *[]){&parts, &counter, &sum}, PARTS("cluster_flag.cu:", "read"));
    kernel_free(kernel);
}

/* A device of 4 units, 6 blocks that each wait for the one behind it. */
static void test_block_never_scheduled(void **state) {
    (void)state;
    uint32_t zeros[6] = {0};
    test_kernel *kernel = load_with("cluster_flag.cu", NULL);
    void *flags = kernel_buffer(kernel, zeros, sizeof zeros);
    kernel_dims dims = {.grid = {(uint32_t)kernel_device(kernel)->units + 2}, .block = {32}};
    must_fault(kernel, "backwards", &dims, (void *[]){&flags},
               PARTS("deadlock", "2 of 6 blocks have not started, the first of them number 4", "ordered load",
                     "cluster_flag.cu:"));
    kernel_free(kernel);
}

/* ---- dependent launches ---- */

static void dependent(const char *wait, bool programmatic, bool waited_for, bool faults) {
    static float values[128];
    mlp_message why = {""};
    test_kernel *kernel = load_with("cluster_dependent.cu", FILL("wait", wait));
    void *in = kernel_buffer(kernel, values, sizeof values), *between = kernel_buffer(kernel, NULL, sizeof values);
    void *out = kernel_buffer(kernel, NULL, sizeof values);
    kernel_dims dims = {.grid = {2}, .block = {64}, .attributes = {.programmatic = programmatic}};
    mlpbwd_status status =
        (waited_for ? kernel_run : kernel_launch)(kernel, "first", &dims, (void *[]){&between, &in}, &why);
    if (status)
        fail_msg("%s", why.text);
    if (faults)
        must_fault(kernel, "second", &dims, (void *[]){&out, &between, &in},
                   PARTS("before griddepcontrol.wait", "cluster_dependent.cu:"));
    else
        run_right(kernel, "second", &dims, (void *[]){&out, &between, &in});
    kernel_free(kernel);
}

static void test_missing_dependency_wait(void **state) {
    (void)state;
    dependent("", true, false, true);
    dependent("if (threadIdx.x == 0) dependency_wait();", true, false, true); /* the others do not know */
    dependent("", false, false, false);                                       /* a plain launch waits by itself */
    dependent("", true, true, false);                                         /* nothing runs any more */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unordered_exchange),      cmocka_unit_test(test_exit_while_copy_reads),
        cmocka_unit_test(test_exit_while_peer_reads),   cmocka_unit_test(test_peek),
        cmocka_unit_test(test_wait_without_arrival),    cmocka_unit_test(test_two_arrivals),
        cmocka_unit_test(test_missing_arrival),         cmocka_unit_test(test_race),
        cmocka_unit_test(test_counter_without_order),   cmocka_unit_test(test_block_never_scheduled),
        cmocka_unit_test(test_missing_dependency_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
