/* The kernels of test_emulated_sm90.c with one mistake in each, which the emulation must find and name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sm90_kernels.h"

typedef struct plant {
    enum sm90_kernel kernel;
    const char *what, *find, *put, *expected[3];
} plant;

#define ARRIVE "                mbarrier_arrive(empty + (k - 1) % STAGES * 8);\n"
#define INIT_FULL "            mbarrier_init(full + stage * 8, 1);\n"
#define WGMMA_A "matrix_descriptor(stage + step * STEP_A, BLOCK_BYTES, 1024)"
#define WGMMA_B "matrix_descriptor(stage + BLOCK_BYTES + step * 2048, BLOCK_BYTES, 1024)"
#define LOAD_A                                                                                                         \
    "bulk_load(stage, a + (A_K_MAJOR ? block * blocks_k + k : k * blocks + block) * 4096, BLOCK_BYTES, barrier);"
#define COMMIT "            wgmma_commit();\n"

static const plant plants[] = {
    {SM90_RING,
     "an arrival that never comes",
     "if (k > 0 && lane == 0)",
     "if (k > 0 && lane == 0 && warp != 2)",
     {"deadlock", "1 of 4 arrivals missing", "mbarrier at shared 0x"}},
    {SM90_RING,
     "two arrivals by one thread",
     ARRIVE,
     ARRIVE "            if (k > 0 && lane == 0)\n" ARRIVE,
     {"has had more arrivals than its count of 4", "cannot know that phase", "sm90_ring.cu"}},
    {SM90_RING,
     "two arrivals of the producer",
     "                mbarrier_arrive_expect(barrier, STAGE_BYTES);\n",
     "                mbarrier_arrive_expect(barrier, STAGE_BYTES), mbarrier_arrive(barrier);\n",
     {"more arrivals than its count of 1 in phase 0", "16384 bytes missing"}},
    {SM90_RING,
     "too many bytes expected",
     "(barrier, STAGE_BYTES)",
     "(barrier, STAGE_BYTES + 16)",
     {"deadlock", "all 1 arrivals have come, 16 of 16400 bytes missing"}},
    {SM90_RING,
     "too few bytes expected",
     "(barrier, STAGE_BYTES)",
     "(barrier, STAGE_BYTES - 16)",
     {"expected 16368 bytes, but 16384 have been copied", "expect_tx is too small"}},
    {SM90_RING,
     "one copy not expected",
     "(barrier, STAGE_BYTES)",
     "(barrier, BLOCK_BYTES)",
     {"ends with the 8192 bytes that it expected", "expect_tx is too small"}},
    {SM90_RING,
     "more bytes than a barrier counts",
     "(barrier, STAGE_BYTES)",
     "(barrier, 1 << 20)",
     {"expect_tx of 1048576 bytes", "more than 1048575"}},
    {SM90_RING, "a barrier that nobody initialised", INIT_FULL, "", {"there is no mbarrier at shared 0x"}},
    {SM90_RING, "a barrier initialised twice", INIT_FULL, INIT_FULL INIT_FULL, {"mbarrier.init over a live one"}},
    {SM90_RING,
     "a count of 0",
     "mbarrier_init(full + stage * 8, 1)",
     "mbarrier_init(full + stage * 8, 0)",
     {"a count of 0", "1 to 1048575"}},
    {SM90_RING,
     "a barrier at an odd place",
     "mbarrier_init(full + stage * 8, 1)",
     "mbarrier_init(full + stage * 8 + 4, 1)",
     {"not a multiple of 8"}},
    {SM90_RING,
     "no fence after the initialisation",
     "        mbarrier_init_fence();\n",
     "",
     {"not visible to asynchronous operations", "fence.mbarrier_init"}},
    {SM90_RING, "no block barrier after the initialisation", "    __syncthreads();\n", "", {"mbarrier"}},
    {SM90_RING,
     "a store to a barrier's memory",
     INIT_FULL,
     INIT_FULL "            barriers.full[stage] = 0;\n",
     {"mbarrier"}},
    {SM90_RING, "a parity that does not exist", "k / STAGES & 1);", "k / STAGES + 2);", {"parity 2", "0 or 1"}},
    {SM90_RING, "the wrong parity", "k / STAGES & 1);", "k / STAGES & 1 ^ 1);", {"wgmma", "bulk copy"}},
    {SM90_RING,
     "a stage given back before it was read",
     COMMIT,
     COMMIT
     "            if (lane == 0)\n                mbarrier_arrive(empty + k % STAGES * 8);\n            continue;\n",
     {"bulk copy", "wgmma", "still reads"}},
    {SM90_RING,
     "no wait for the last product",
     "        wgmma_wait<0>();\n",
     "",
     {"accumulators of a wgmma are read", "wgmma.wait_group"}},
    {SM90_RING,
     "no fence before the first product",
     "            wgmma_fence();\n",
     "",
     {"wgmma without a wgmma.fence before it"}},
    {SM90_RING,
     "accumulators changed without a fence",
     "            wgmma_fence();\n",
     "            if (k == 0)\n                wgmma_fence();\n            else\n                wgmma_wait<0>(), "
     "sums[3] += 1.0f;\n",
     {"have been written since the last wgmma.fence"}},
    {SM90_RING,
     "accumulators changed behind the fence",
     "            wgmma_fence();\n",
     "            wgmma_wait<0>();\n            wgmma_fence();\n            sums[3] = k;\n",
     {"have been written since the last wgmma.fence"}},
    {SM90_RING,
     "another shape on the same accumulators",
     COMMIT,
     "            wgmma_f16<!A_K_MAJOR>(*(float (*)[4])sums, "
     "matrix_descriptor(stage, BLOCK_BYTES, 1024), "
     "matrix_descriptor(stage + BLOCK_BYTES, BLOCK_BYTES, 1024), 1);\n" COMMIT,
     {"another shape", "N = 8", "N = 64"}},
    {SM90_RING,
     "products that are not committed",
     COMMIT,
     "            if (k + 1 < blocks_k)\n    " COMMIT,
     {"accumulators of a wgmma are read"}},
    {SM90_RING,
     "a warp with other operands",
     WGMMA_B,
     "matrix_descriptor(stage + BLOCK_BYTES + (step ^ warp / 2) * 2048, BLOCK_BYTES, 1024)",
     {"different operands", "warpgroup 0"}},
    {SM90_RING,
     "a lane with other operands",
     WGMMA_B,
     "matrix_descriptor(stage + BLOCK_BYTES + (step ^ lane / 31) * 2048, BLOCK_BYTES, 1024)",
     {"lanes 0 and 31", "different operands"}},
    {SM90_RING,
     "a warp that skips a fence",
     "            wgmma_fence();\n",
     "            if (warp != 3 || k == 0)\n                wgmma_fence();\n",
     {"the warps of warpgroup 0 execute different instructions", "wgmma.fence"}},
    {SM90_RING,
     "a warp that leaves early",
     "        for (int k = 0; k < blocks_k; ++k) {\n            const u32 stage = base + k % STAGES * STAGE_BYTES;\n",
     "        if (warp == 1)\n            return;\n        for (int k = 0; k < blocks_k; ++k) {\n            const u32 "
     "stage = base + k % STAGES * STAGE_BYTES;\n",
     {"has exited without", "all four warps"}},
    {SM90_RING,
     "an operand that starts inside a row pattern",
     WGMMA_A,
     "matrix_descriptor(stage + 128 + step * STEP_A, BLOCK_BYTES, 1024)",
     {"operand A", "must start in row 0"}},
    {SM90_RING,
     "a stride that does not fit the swizzle",
     WGMMA_A,
     "matrix_descriptor(stage + step * STEP_A, BLOCK_BYTES, 512)",
     {"operand A", "stride offset is 512"}},
    {SM90_RING, "a descriptor with a bit of Blackwell", WGMMA_B, WGMMA_B " | (u64)1 << 46", {"operand B", "bit 46"}},
    {SM90_RING,
     "an operand outside of shared memory",
     WGMMA_B,
     "matrix_descriptor(stage + BLOCK_BYTES + step * 2048 + (k ? 0x38000 : 0), BLOCK_BYTES, 1024)",
     {"wgmma", "shared", "0x3"}},
    {SM90_RING,
     "an operand that the copy has not brought",
     "            mbarrier_wait(full + k % STAGES * 8, k / STAGES & 1);\n",
     "            if (k != 1)\n                mbarrier_wait(full + k % STAGES * 8, k / STAGES & 1);\n",
     {"wgmma", "bulk copy", "still writes"}},
    {SM90_RING,
     "no register count of setmaxnreg",
     "registers_decrease<64>",
     "registers_decrease<60>",
     {"setmaxnreg to 60", "multiple of 8"}},
    {SM90_RING,
     "a decrease that is none",
     "registers_decrease<64>",
     "registers_decrease<176>",
     {"setmaxnreg.dec to 176", "a thread has 168", "must not be more"}},
    {SM90_RING,
     "registers taken by half of a warpgroup",
     "        registers_decrease<64>();\n",
     "        if (thread < 192 || thread >= 256)\n            registers_decrease<64>();\n",
     {"setmaxnreg.dec", "has exited without"}},
    {SM90_RING,
     "a copy to an odd place",
     LOAD_A,
     "bulk_load(stage + 8, a, BLOCK_BYTES, barrier);",
     {"shared address", "not a multiple of 16"}},
    {SM90_RING,
     "a copy from an odd place",
     LOAD_A,
     "bulk_load(stage, a + 1, BLOCK_BYTES, barrier);",
     {"global address", "not a multiple of 16"}},
    {SM90_RING,
     "a copy of an odd size",
     LOAD_A,
     "bulk_load(stage, a, BLOCK_BYTES - 8, barrier);",
     {"the size is not a multiple of 16"}},
    {SM90_RING,
     "a copy from beyond the tensor",
     LOAD_A,
     "bulk_load(stage, a + (i64)blocks_k * 4096, BLOCK_BYTES, barrier);",
     {"bulk copy", "allocation"}},
    {SM90_FRAGMENTS,
     "A's registers written too early",
     "        load_fragment(fragment[1],",
     "        fragment[0][1] = 0;\n        load_fragment(fragment[1],",
     {"A fragments of a wgmma are written", "wgmma.wait_group"}},
    {SM90_FRAGMENTS,
     "A's registers written without a fence",
     "columns);\n        wgmma_fence();\n",
     "columns);\n",
     {"A registers have been written since the last wgmma.fence"}},
    {SM90_FRAGMENTS,
     "the barrier not waited for",
     "    mbarrier_wait(barrier, 0);\n",
     "",
     {"wgmma", "bulk copy", "still writes"}},
    {SM90_COPIES,
     "no proxy fence between stores and a copy of them",
     "        fence_proxy_async_shared();\n",
     "",
     {"bulk copy to global memory", "fence.proxy.async"}},
    {SM90_COPIES,
     "no block barrier between stores and a copy of them",
     "        fence_proxy_async_shared();\n        __syncthreads();\n",
     "        fence_proxy_async_shared();\n",
     {"bulk copy to global memory"}},
    {SM90_COPIES,
     "a buffer written while a copy still reads it",
     "            bulk_commit();\n            bulk_wait_read<0>();\n",
     "            bulk_commit();\n            if (i) bulk_wait_read<1>(); else bulk_wait_read<0>();\n",
     {"bulk", "still reads"}},
    {SM90_COPIES,
     "a group that is not committed",
     "            bulk_commit();\n            bulk_wait_read<0>();\n",
     "",
     {"bulk", "still reads"}},
    {SM90_COPIES,
     "a load that nobody waits for",
     "    if (threadIdx.x == 0)\n        bulk_wait<0>();\n",
     "    if (threadIdx.x == 0) {\n        bulk_wait<0>();\n        mbarrier_arrive_expect(barrier, 64);\n"
     "        bulk_load(shared_address(in), from, 64, barrier);\n    }\n",
     {"block (0,0,0) has ended and nobody has waited", "64 of 64 bytes missing"}},
    {SM90_COPIES,
     "no wait before the end",
     "            bulk_wait_read<0>();\n        }\n    }\n    if (threadIdx.x == 0)\n        bulk_wait<0>();\n",
     "            if (i + 1 < chunks)\n                bulk_wait_read<0>();\n        }\n    }\n",
     {"ended without cp.async.bulk.wait_group", "may still read shared memory"}},
    {SM90_COPIES,
     "no commit before the end",
     "            bulk_commit();\n",
     "            if (i + 1 < chunks)\n                bulk_commit();\n",
     {"ended without cp.async.bulk.commit_group"}},
    {SM90_COPIES,
     "a load over a buffer that was read and not fenced",
     "out[j] = 2.0f * in[j];\n        fence_proxy_async_shared();\n",
     "out[j] = 1.0f;\n        fence_proxy_async_shared();\n        to[at + threadIdx.x] = in[threadIdx.x];\n",
     {"bulk copy", "fence.proxy.async"}},
    {SM90_CLUSTER,
     "no cluster barrier after the initialisation",
     "    cluster_barrier_arrive();\n    cluster_barrier_wait();\n    for",
     "    __syncthreads();\n    for",
     {"mbarrier"}},
    {SM90_CLUSTER,
     "a wait at another block's barrier",
     "mbarrier_wait(full, round & 1)",
     "mbarrier_wait(shared_of_rank(full, peer), round & 1)",
     {"another block (rank", "wait only at its own block's"}},
    {SM90_CLUSTER,
     "a copy to a block that the cluster has not",
     "HALF * 4, full, 3);",
     "HALF * 4, full, 5);",
     {"multicast to the ranks 0x5 of a cluster of 2 blocks"}},
    {SM90_CLUSTER,
     "a barrier in another block than the copy's target",
     "512, shared_of_rank(copied, peer));",
     "512, copied);",
     {"goes to the block of rank", "its mbarrier is in that of rank"}},
    {SM90_CLUSTER,
     "own arrivals only",
     "            mbarrier_arrive_cluster(shared_of_rank(empty, peer));\n",
     "",
     {"deadlock", "4 of 8 arrivals missing"}},
    {SM90_CLUSTER,
     "a stage given back by its own block's readers only",
     "            mbarrier_arrive_cluster(shared_of_rank(empty, peer));\n",
     "            mbarrier_arrive(empty);\n",
     {"bulk copy", "shared memory"}},
    {SM90_CLUSTER,
     "a block that leaves while the other still copies into it",
     "    mbarrier_wait(copied, 0);\n",
     "    if (rank == 1)\n        return;\n    mbarrier_wait(copied, 0);\n",
     {"may have ended before this access"}},
    {SM90_CLUSTER,
     "readers that do not fence before the next copy",
     "        fence_proxy_async_shared();\n        __syncwarp();\n",
     "        __syncwarp();\n",
     {"bulk copy", "fence.proxy.async"}},
    {SM90_RING,
     "registers that nobody has released",
     "registers_decrease<64>",
     "registers_decrease<160>",
     {"deadlock", "setmaxnreg.inc from 168 to 256", "needs 2816 more"}},
};

static mlpbwd_status run_planted(const plant *p, mlp_message *why) {
    const sm90_shape shape = {64, 1, p->kernel == SM90_RING ? 7 : 2, true, false};
    char *text = sm90_planted(sm90_source(p->kernel, &shape), p->find, p->put);
    static float values[SM90_ELEMENTS];
    static uint32_t words[SM90_SENT];
    sm90_operands operands = sm90_operands_make(&shape);
    mlpbwd_status status;
    if (p->kernel == SM90_RING)
        status = sm90_run_ring("emulated:sm_90a", text, &shape, &operands, NULL, why);
    else if (p->kernel == SM90_FRAGMENTS)
        status = sm90_run_fragments("emulated:sm_90a", text, &operands, NULL, why);
    else if (p->kernel == SM90_COPIES)
        status = sm90_run_copies("emulated:sm_90a", text, values, NULL, NULL, why);
    else
        status = sm90_run_cluster("emulated:sm_90a", text, words, NULL, why);
    sm90_operands_free(&operands);
    free(text);
    return status;
}

static void test_each_mistake_is_found(void **state) {
    (void)state;
    int missed = 0;
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
        mlp_message why = {{0}};
        bool right = run_planted(&plants[i], &why) != MLPBWD_OK;
        for (size_t e = 0; e < 3 && plants[i].expected[e]; e++)
            right &= strstr(why.text, plants[i].expected[e]) != NULL;
        missed += !right;
        print_message("%s: %s\n    %s\n", right ? "found" : "NOT FOUND AS IT SHOULD BE", plants[i].what,
                      why.text[0] ? why.text : "(nothing was reported)");
    }
    assert_int_equal(missed, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_mistake_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
