/* What can be done wrong with tcgen05, tensor memory and cluster launch control: each case is one of the kernels of
 * test_emulated_sm100.c with one change, and the emulation must say what it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sm100_fixture.h"

enum { MOST_WORDS = 4 };

typedef struct plant {
    const char *what, *kernel;
    const char *find, *put;           /* the first occurrence of find becomes put; NULL: nothing is changed */
    const char *expected[MOST_WORDS]; /* parts of the report; none: the results are wrong instead */
} plant;

static const kernel_fill gemm_fills[] = {{"tile_m", "128"},      {"tile_n", "64"},        {"operand_type", "0"},
                                         {"a_mn_major", "true"}, {"b_mn_major", "false"}, {NULL, NULL}};
static const kernel_fill pair_fills[] = {{"pair_m", "256"}, {"tile_n", "128"}, {"operand_type", "0"}, {NULL, NULL}};
static const kernel_fill small_fills[] = {{"tf32", "false"}, {"a_in_tensor_memory", "false"}, {NULL, NULL}};
static const kernel_fill tensor_memory_fills[] = {{"tf32", "false"}, {"a_in_tensor_memory", "true"}, {NULL, NULL}};

/* ---- running ---- */

static mlpbwd_status run_gemm(test_kernel *kernel, bool *right, mlp_message *why) {
    enum { M = 640, N = 64, K = 256 };
    int tiles_m = M / 128, tiles_n = 1, blocks_k = K / 64;
    uint16_t *blocks_a = sm100_blocks(0, M, K, SM100_F16, true), *blocks_b = sm100_blocks(1, N, K, SM100_F16, false);
    void *a = kernel_buffer(kernel, blocks_a, (size_t)M * K * 2),
         *b = kernel_buffer(kernel, blocks_b, (size_t)N * K * 2);
    static float d[M * N];
    void *c = kernel_buffer(kernel, NULL, sizeof d);
    const kernel_dims dims = {.grid = {1}, .block = {192}, .shared_bytes = (size_t)3 * (128 + N) * 128};
    void *arguments[] = {(void *)&a, (void *)&b, (void *)&c, &tiles_m, &tiles_n, &blocks_k};
    mlpbwd_status status = kernel_run(kernel, "umma_gemm", &dims, arguments, why);
    free(blocks_a);
    free(blocks_b);
    if (status == MLPBWD_OK) {
        kernel_read(kernel, d, c, sizeof d);
        *right = sm100_equal(d, M, N, K, NULL, 0);
    }
    return status;
}

static mlpbwd_status run_pair(test_kernel *kernel, bool *right, mlp_message *why) {
    enum { M = 768, N = 128, K = 128 };
    static uint16_t zeros[M * K];
    int tiles_m = M / 256, tiles_n = 1, blocks_k = K / 64;
    void *a = kernel_buffer(kernel, zeros, sizeof zeros), *c = kernel_buffer(kernel, NULL, (size_t)M * N * 4);
    const dev_tensor tensor_a = {.address = a,
                                 .element = DEV_F16,
                                 .rank = 2,
                                 .size = {K, M},
                                 .stride = {(uint64_t)K * 2},
                                 .box = {64, 128},
                                 .swizzle = DEV_SWIZZLE_128B};
    dev_tensor tensor_b = tensor_a;
    tensor_b.size[0] = N;
    tensor_b.size[1] = K;
    tensor_b.box[1] = 64;
    dev_tensor_map map_a, map_b;
    assert_int_equal(dev_tensor_map_encode(kernel_context(kernel), &tensor_a, &map_a, why), MLPBWD_OK);
    assert_int_equal(dev_tensor_map_encode(kernel_context(kernel), &tensor_b, &map_b, why), MLPBWD_OK);
    const kernel_dims dims = {.grid = {2}, .block = {192}, .shared_bytes = (size_t)2 * (128 + N / 2) * 128};
    void *arguments[] = {&map_a, &map_b, (void *)&c, &tiles_m, &tiles_n, &blocks_k};
    *right = true;
    return kernel_run(kernel, "umma_pair", &dims, arguments, why);
}

static mlpbwd_status run_small(test_kernel *kernel, bool *right, mlp_message *why) {
    enum { M = 128, N = 64, K = 64 };
    static uint16_t host[2][M * K];
    for (uint32_t operand = 0; operand < 2; operand++)
        for (size_t i = 0; i < (size_t)M * K; i++)
            host[operand][i] = sm100_half(sm100_value(operand, i), SM100_F16);
    void *a = kernel_buffer(kernel, host[0], sizeof host[0]), *b = kernel_buffer(kernel, host[1], sizeof host[1]);
    static float d[M * N];
    void *c = kernel_buffer(kernel, NULL, sizeof d);
    const kernel_dims dims = {.block = {128}, .shared_bytes = (size_t)(M + N) * 128};
    void *arguments[] = {(void *)&a, (void *)&b, (void *)&c};
    mlpbwd_status status = kernel_run(kernel, "umma_small", &dims, arguments, why);
    if (status == MLPBWD_OK) {
        kernel_read(kernel, d, c, sizeof d);
        *right = sm100_equal(d, M, N, K, NULL, 0);
    }
    return status;
}

static mlpbwd_status run_clc(test_kernel *kernel, bool *right, mlp_message *why) {
    enum { BLOCKS = 12 };
    static const uint32_t zeros[BLOCKS];
    void *marks = kernel_buffer(kernel, zeros, sizeof zeros), *workers = kernel_buffer(kernel, zeros, sizeof zeros);
    const kernel_dims dims = {.grid = {BLOCKS}, .block = {64}};
    void *arguments[] = {(void *)&marks, (void *)&workers};
    *right = true;
    return kernel_run(kernel, "umma_clc", &dims, arguments, why);
}

typedef struct subject {
    const char *name, *kernel;
    const kernel_fill *fills;
    mlpbwd_status (*run)(test_kernel *kernel, bool *right, mlp_message *why);
} subject;
static const subject subjects[] = {{"gemm", "umma_gemm", gemm_fills, run_gemm},
                                   {"pair", "umma_pair", pair_fills, run_pair},
                                   {"small", "umma_small", small_fills, run_small},
                                   {"a in tensor memory", "umma_small", tensor_memory_fills, run_small},
                                   {"clc", "umma_clc", NULL, run_clc}};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

/* ---- the mistakes ---- */

#define COMMIT "umma_commit<1>(done);"
#define LAST_WAIT "    mbarrier_wait(done, 0);\n    tcgen05_fence_after();\n"
#define LOAD "    tmem_load_32x32b(sums, mine);\n    tmem_wait_load();\n"
#define FREE "        tmem_free<1, 128>(tmem);\n"
#define ALLOCATE "        tmem_allocate<1, 128>(shared_address(&tmem_address));\n"
#define RELEASE "            tcgen05_fence_before();\n            mbarrier_arrive(sums_empty"

static const plant plants[] = {
    {"accumulators read before the wait",
     "small",
     LAST_WAIT,
     "    __syncthreads();\n    tcgen05_fence_after();\n",
     {"accumulators are read before the wait", "tcgen05.ld", "tcgen05.commit", "umma_small.cu:"}},
    {"accumulators read before their products are issued",
     "small",
     LAST_WAIT,
     "",
     {"tcgen05.ld", "nothing has written", "the wait"}},
    {"the allocation's address taken for 0",
     "small",
     "const u32 tmem = tmem_address",
     "const u32 tmem = 0",
     {"not allocated"}},
    {"no fence after the wait",
     "small",
     LAST_WAIT,
     "    mbarrier_wait(done, 0);\n",
     {"a tcgen05 fence is missing", "after_thread_sync"}},
    {"registers used before wait::ld",
     "small",
     LOAD,
     "    tmem_load_32x32b(sums, mine);\n",
     {"registers of tcgen05.ld before tcgen05.wait::ld"}},
    {"tensor memory released before wait::ld",
     "gemm",
     "                    tmem_load_32x32b(sums, from + column);\n                    tmem_wait_load();\n",
     "                    tmem_load_32x32b(sums, from + column);\n                    if (column == 32) {\n"
     "                        tcgen05_fence_before();\n"
     "                        mbarrier_arrive(sums_empty + sums_of.at * 8);\n"
     "                        mbarrier_wait(sums_full + (sums_of.at ^ 1) * 8, sums_of.phase ^ sums_of.at);\n"
     "                        mbarrier_wait(sums_full + sums_of.at * 8, sums_of.phase ^ 1);\n"
     "                    }\n                    tmem_wait_load();\n",
     {"tensor memory is released before wait::ld", "tcgen05.mma", "tcgen05.ld"}},
    {"no fence before the release",
     "gemm",
     RELEASE,
     "            mbarrier_arrive(sums_empty",
     {"a tcgen05 fence is missing", "before_thread_sync"}},
    {"accumulators overwritten without waiting for their release",
     "gemm",
     "mbarrier_wait(sums_empty + sums_of.at * 8, sums_of.phase ^ 1);",
     "",
     {"tcgen05.mma writes", "tensor memory"}},
    {"the quarter of the lanes counted from the first warp that stores",
     "gemm",
     "quarter = warp % 4",
     "quarter = warp - 2",
     {"wrong lane quadrant", "warp 2", "lanes 64-95"}},
    {"an allocation that is not freed",
     "small",
     FREE,
     "        (void)0;\n",
     {"tensor memory is not freed", "128 columns"}},
    {"an allocation freed with products in flight",
     "small",
     COMMIT,
     COMMIT "\n    }\n    if (warp == 0) {\n        __syncwarp();\n        tmem_free<1, 128>(tmem);",
     {"freed with work in flight", "tcgen05.mma"}},
    {"an allocation freed with loads in flight",
     "small",
     "    __syncthreads();\n    if (warp == 0)\n        tmem_free",
     "    if (warp == 0)\n        tmem_free",
     {"freed with work in flight", "tcgen05.ld"}},
    {"an allocation freed twice", "small", FREE, FREE "    if (warp == 0)\n" FREE, {"free already"}},
    {"another number of columns freed",
     "small",
     "tmem_free<1, 128>",
     "tmem_free<1, 64>",
     {"64 columns of an allocation of 128"}},
    {"tensor memory used after it was freed",
     "small",
     FREE,
     FREE "    tmem_load_32x32b(sums, mine);\n    tmem_wait_load();\n",
     {"was freed"}},
    {"tensor memory that is not allocated",
     "small",
     "tmem_load_32x32b(sums, mine)",
     "tmem_load_32x32b(sums, mine - 64)",
     {"not allocated"}},
    {"an odd number of columns",
     "small",
     ALLOCATE,
     "        tmem_allocate<1, 96>(shared_address(&tmem_address));\n",
     {"power of two"}},
    {"an allocation that waits for ever",
     "small",
     ALLOCATE,
     "        tmem_allocate<1, 512>(shared_address(&tmem_address)), "
     "tmem_allocate<1, 512>(shared_address(&tmem_address));\n",
     {"deadlock", "tcgen05.alloc of 512 columns", "512 of 512 are in use"}},
    {"allocations that grow",
     "small",
     ALLOCATE,
     "    {\n        tmem_allocate<1, 32>(shared_address(&tmem_address));\n" ALLOCATE "    }\n",
     {"must not grow"}},
    {"an allocation after the permit was given up",
     "small",
     ALLOCATE,
     "    {\n        tmem_relinquish<1>();\n" ALLOCATE "    }\n",
     {"permit"}},
    {"both sizes of group in one kernel",
     "pair",
     "tmem_relinquish<2>",
     "tmem_relinquish<1>",
     {"cta_group::1", "cta_group::2"}},
    {"sums added to what nobody wrote",
     "small",
     "umma_f16<1>(tmem, at_a, at_b, INSTRUCTION, step > 0)",
     "umma_f16<1>(tmem, at_a, at_b, INSTRUCTION, 1)",
     {"must not accumulate"}},
    {"a load of what nobody wrote",
     "small",
     "tmem_load_32x32b(sums, mine)",
     "tmem_load_32x32b(sums, mine + 32)",
     {"nothing has written"}},
    {"every lane issues",
     "small",
     "    if (threadIdx.x == 0) {\n        for (int step",
     "    if (threadIdx.x < 2) {\n        for (int step",
     {"thread are not ordered", "tcgen05.mma"}},
    {"products of two shapes on one accumulator",
     "small",
     "INSTRUCTION, step > 0);\n        }\n",
     "step == 3 ? umma_instruction(0, 128, 32, false, false) : INSTRUCTION, step > 0);\n        }\n",
     {"products of different shape"}},
    {"bit 46 of a descriptor missing",
     "small",
     "umma_f16<1>(tmem, at_a,",
     "umma_f16<1>(tmem, at_a & ~(1ull << 46),",
     {"bits 46-48"}},
    {"an M that does not exist",
     "small",
     "umma_f16<1>(tmem, at_a, at_b, INSTRUCTION",
     "umma_f16<1>(tmem, at_a, at_b, umma_instruction(0, 96, N, false, false)",
     {"M (16 times bits 24-28) 96"}},
    {"an N that does not exist",
     "small",
     "umma_f16<1>(tmem, at_a, at_b, INSTRUCTION",
     "umma_f16<1>(tmem, at_a, at_b, umma_instruction(0, 128, 264, false, false)",
     {"N (8 times bits 17-22) 264"}},
    {"LBO and SBO swapped in a K-major operand",
     "small",
     "umma_descriptor(stage + step * 32, 0, 1024)",
     "umma_descriptor(stage + step * 32, 1024, 16)",
     {"stride offset is 16"}},
    {"LBO and SBO swapped in an MN-major operand",
     "gemm",
     "(A_MN_MAJOR ? 2048 : 32), BLOCK_BYTES, 1024)",
     "(A_MN_MAJOR ? 2048 : 32), 1024, BLOCK_BYTES)",
     {NULL}},
    {"a K-major step in an MN-major operand", "gemm", "(A_MN_MAJOR ? 2048 : 32)", "32", {NULL}},
    {"a stage that is not aligned to the swizzle",
     "small",
     "at_a = umma_descriptor(stage + step * 32",
     "at_a = umma_descriptor(stage + 256 + step * 32",
     {"must start in row 0"}},
    {"no proxy fence between st.shared and the product",
     "small",
     "    fence_proxy_async_shared();\n",
     "",
     {"tcgen05.mma (operand A)", "fence.proxy.async"}},
    {"a product of a stage that is still being filled",
     "gemm",
     "                mbarrier_wait(full + stage_of.at * 8, stage_of.phase);\n",
     "                __nanosleep(20);\n",
     {"tcgen05.mma (operand", "bulk copy"}},
    {"a stage given back before it is read",
     "gemm",
     "                mbarrier_wait(full + stage_of.at * 8, stage_of.phase);\n",
     "                mbarrier_wait(full + stage_of.at * 8, stage_of.phase);\n"
     "                mbarrier_arrive(empty + stage_of.at * 8);\n",
     {"tcgen05.mma"}},
    {"no commit", "small", COMMIT, "", {"deadlock", "mbarrier", "1 of 1 arrivals missing"}},
    {"two commits in one phase", "small", COMMIT, COMMIT " " COMMIT, {"nobody has waited", "mbarrier", "phase 1"}},
    {"no wait::st before A in tensor memory is read",
     "a in tensor memory",
     "        tmem_wait_store();\n",
     "",
     {"tcgen05.mma reads", "tcgen05.wait::st has not been executed"}},
    {"no fence between the store of A and the barrier",
     "a in tensor memory",
     "        tmem_wait_store();\n        tcgen05_fence_before();\n",
     "        tmem_wait_store();\n",
     {"a tcgen05 fence is missing", "before_thread_sync"}},
    {"M and N of one block in a pair's instruction",
     "pair",
     "umma_instruction(0, PAIR_M, TILE_N",
     "umma_instruction(0, PAIR_M / 4, TILE_N",
     {"M (16 times bits 24-28) 64"}},
    {"the blocks of a pair allocate at different times",
     "pair",
     "    if (warp == 1)\n        tmem_allocate",
     "    if (rank == 1) {\n        cluster_barrier_arrive();\n        cluster_barrier_wait();\n    }\n    if (warp == "
     "1)\n        tmem_allocate",
     {"deadlock", "in the other block of its pair"}},
    {"a block of the pair that exits while the other uses it",
     "pair",
     "    cluster_barrier_arrive();\n    cluster_barrier_wait();\n    if (warp == 1) {\n",
     "    if (warp == 1) {\n",
     {"may have ended"}},
    {"expected bytes of one block of the pair only",
     "pair",
     "2 * STAGE_BYTES);\n                tma",
     "STAGE_BYTES);\n                tma",
     {"expect_tx is too small"}},
    {"a pair's accumulator released by one of its blocks",
     "pair",
     "mbarrier_init(sums_empty + i * 8, 256)",
     "mbarrier_init(sums_empty + i * 8, 128)",
     {"more arrivals than its count of 128"}},
    {"the accumulator's release sent to the block's own barrier",
     "pair",
     "mbarrier_arrive_cluster(shared_of_rank(sums_empty + sums_of.at * 8, 0))",
     "mbarrier_arrive(sums_empty + sums_of.at * 8)",
     {"deadlock", "128 of 256 arrivals missing"}},
    {"a commit that tells one block of the pair only",
     "pair",
     "umma_commit_multicast<2>(empty + stage_of.at * 8, 3)",
     "umma_commit<2>(empty + stage_of.at * 8)",
     {"deadlock", "1 of 1 arrivals missing"}},
    {"a request after a refusal",
     "clc",
     "        if (!cancel_succeeded(words))\n            break;\n",
     "        if (!cancel_succeeded(words)) {\n            cancel_fence_release();\n            continue;\n        }\n",
     {"was refused"}},
    {"the next block asked of a refused request",
     "clc",
     "        if (!cancel_succeeded(words))\n            break;\n",
     "",
     {"refused request"}},
    {"an answer overwritten without a proxy fence",
     "clc",
     "        cancel_fence_release();\n",
     "",
     {"clusterlaunchcontrol.try_cancel", "fence.proxy.async"}},
};
enum { PLANTS = sizeof plants / sizeof *plants };

static const subject *find_subject(const char *name) {
    size_t i = 0;
    while (i < SUBJECTS && strcmp(subjects[i].name, name) != 0)
        i++;
    assert_true(i < SUBJECTS);
    return &subjects[i];
}

/* The report, or "" and whether the results are right. */
static bool run_subject(const subject *of, const char *find, const char *put, mlp_message *why) {
    bool right = false;
    test_kernel *kernel = sm100_load(of->kernel, of->fills, find, put);
    if (of->run(kernel, &right, why) == MLPBWD_OK)
        why->text[0] = 0;
    kernel_free(kernel);
    return right;
}

static void test_unchanged_kernels_pass(void **state) {
    (void)state;
    for (size_t i = 0; i < SUBJECTS; i++) {
        mlp_message why = {{0}};
        bool right = run_subject(&subjects[i], NULL, NULL, &why);
        assert_string_equal(why.text, "");
        assert_true(right);
    }
}

static void test_each_mistake_is_found(void **state) {
    (void)state;
    int missed = 0;
    for (size_t i = 0; i < PLANTS; i++) {
        const plant *p = &plants[i];
        mlp_message why = {{0}};
        bool right = run_subject(find_subject(p->kernel), p->find, p->put, &why);
        bool found = p->expected[0] ? why.text[0] != 0 : !right;
        for (size_t e = 0; e < MOST_WORDS && p->expected[e]; e++)
            found &= strstr(why.text, p->expected[e]) != NULL;
        missed += !found;
        print_message("%s: %s\n    %s\n", found ? "found" : "NOT FOUND AS IT SHOULD BE", p->what,
                      why.text[0] ? why.text
                      : right     ? "(nothing was reported)"
                                  : "(the results are wrong)");
    }
    assert_int_equal(missed, 0);
}

/* Which of two mistakes' consequences comes first depends on the order. */
static int usual_order(void **state) {
    (void)state;
    return unsetenv("MLPBWD_EMULATED_SEED") || unsetenv("MLPBWD_EMULATED_TIMING") || unsetenv("MLPBWD_EMULATED_UNITS");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unchanged_kernels_pass),
        cmocka_unit_test(test_each_mistake_is_found),
    };
    return cmocka_run_group_tests(tests, usual_order, NULL);
}
