/* mbarriers, bulk copies, wgmma and setmaxnreg on an emulated device: kernels whose results are compared with float64
 * sums, and the same kernels with one mistake each, which must be found and named. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "emulated_kernel.h"
#include "test_inputs.h"

enum { STAGES = 3, BLOCK = 64, BLOCK_ELEMENTS = BLOCK * BLOCK };

/* ---- kernels ---- */

typedef struct shape {
    int n, blocks, blocks_k; /* N; blocks of the grid; blocks of 64 along K */
    bool a_k_major, bf16;
} shape;

/* The holes of ptx_sm90.cuh and ptx_sm90_rs.cuh, as templates/kernels/wgmma_gemm.lua fills them. */
static char *kernel_source(const char *file, const shape *s, bool registers) {
    int count = s->n / 2;
    char *list = test_alloc((size_t)count * 8), *operands = test_alloc((size_t)count * 16), number[7][16],
         fragments[64];
    char *list_at = list, *operands_at = operands;
    for (int i = 0; i < count; i++) {
        list_at += sprintf(list_at, "%s%%%d", i ? ", " : "", i);
        operands_at += sprintf(operands_at, "%s\"+f\"(d[%d])", i ? ", " : "", i);
    }
    const int values[] = {s->n,      count, count, registers ? count + 4 : count + 1, registers ? count + 5 : count + 2,
                          count + 3, STAGES};
    for (int i = 0; i < 7; i++)
        (void)snprintf(number[i], sizeof number[i], "%d", values[i]);
    (void)snprintf(fragments, sizeof fragments, "%%%d, %%%d, %%%d, %%%d", count, count + 1, count + 2, count + 3);
    const kernel_fill fills[] = {{"n", number[0]},
                                 {"registers", number[1]},
                                 {"a_index", number[2]},
                                 {"b_index", number[3]},
                                 {"accumulate_index", number[4]},
                                 {"transpose_index", number[5]},
                                 {"stages", number[6]},
                                 {"a_list", fragments},
                                 {"d_list", list},
                                 {"d_operands", operands},
                                 {"type", s->bf16 ? "bf16" : "f16"},
                                 {"a_k_major", s->a_k_major ? "true" : "false"},
                                 {NULL, NULL}};
    const char *const pieces[] = {"templates/lib/base.cuh",
                                  "templates/lib/ptx.cuh",
                                  "templates/lib/ptx_sm90.cuh",
                                  registers ? "templates/lib/ptx_sm90_rs.cuh" : "templates/lib/ptx_tma.cuh",
                                  registers ? "\n" : "templates/lib/ptx_cluster.cuh",
                                  file};
    char *text = kernel_text(pieces, sizeof pieces / sizeof *pieces, fills);
    free(list);
    free(operands);
    return text;
}

/* The text with the first occurrence of find replaced. */
static char *planted(char *text, const char *find, const char *put) {
    char *at = strstr(text, find);
    if (!at)
        fail_msg("the text that a mistake is planted in is gone: %s", find);
    size_t size = strlen(text) + strlen(put) + 1;
    char *changed = test_alloc(size);
    (void)snprintf(changed, size, "%.*s%s%s", (int)(at - text), text, put, at + strlen(find));
    free(text);
    return changed;
}

static test_kernel *load(const char *name, const char *text) {
    mlp_message why = {{0}};
    mlpbwd_status status;
    test_kernel *kernel = kernel_load("emulated:sm_90a", name, text, &status, &why);
    if (!kernel)
        fail_msg("%s: %s", name, why.text);
    return kernel;
}

/* ---- numbers ---- */

/* Of a 16-bit type, as double. */
static double value_of(uint16_t bits, bool bf16) {
    int exponent_bits = bf16 ? 8 : 5, mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1), mantissa = bits & ((1 << mantissa_bits) - 1);
    double sign = bits >> 15 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1)
        return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Finite numbers of both signs; for fp16 every hundredth is subnormal. */
static uint16_t random_bits(uint32_t *state, bool bf16) {
    uint32_t r = next_random(state), mantissa = next_random(state);
    if (bf16)
        return (uint16_t)((r & 1) << 15 | (120 + r / 2 % 9) << 7 | (mantissa & 0x7f));
    uint32_t exponent = r % 100 == 7 ? 0 : 9 + r / 2 % 9;
    return (uint16_t)((r & 1) << 15 | exponent << 10 | (mantissa & 0x3ff));
}

/* Where element (row, column) of a 64 x 64 block stands in the 128-byte swizzle: chunks of 8 move by row & 7. */
static int swizzled(int row, int column) {
    return row * BLOCK + ((column / 8) ^ (row & 7)) * 8 + column % 8;
}

typedef struct operands {
    int m, n, k;
    uint16_t *a, *b;               /* [m][k], [k][n] */
    uint16_t *a_blocks, *b_blocks; /* as the kernel reads them */
} operands;

static operands make_operands(const shape *s) {
    operands o = {.m = s->blocks * BLOCK, .n = s->n, .k = s->blocks_k * BLOCK};
    size_t a_size = (size_t)o.m * (size_t)o.k, b_size = (size_t)o.k * (size_t)o.n;
    o.a = test_alloc(a_size * 2), o.a_blocks = test_alloc(a_size * 2);
    o.b = test_alloc(b_size * 2), o.b_blocks = test_alloc(b_size * 2);
    uint32_t state = 1;
    for (int m = 0; m < o.m; m++) {
        for (int k = 0; k < o.k; k++) {
            int block = s->a_k_major ? m / BLOCK * s->blocks_k + k / BLOCK : k / BLOCK * s->blocks + m / BLOCK;
            int inside = s->a_k_major ? swizzled(m % BLOCK, k % BLOCK) : swizzled(k % BLOCK, m % BLOCK);
            o.a[m * o.k + k] = o.a_blocks[block * BLOCK_ELEMENTS + inside] = random_bits(&state, s->bf16);
        }
    }
    for (int k = 0; k < o.k; k++) {
        for (int n = 0; n < o.n; n++) {
            int block = k / BLOCK * (o.n / BLOCK) + n / BLOCK;
            o.b[k * o.n + n] = random_bits(&state, s->bf16);
            o.b_blocks[block * BLOCK_ELEMENTS + swizzled(k % BLOCK, n % BLOCK)] = o.b[k * o.n + n];
        }
    }
    return o;
}

static void free_operands(operands *o) {
    free(o->a);
    free(o->b);
    free(o->a_blocks);
    free(o->b_blocks);
}

/* Every element within one rounding to fp32 for each 16 of K, of the sum of magnitudes. */
static void check_product(const operands *o, bool bf16, const float *d) {
    for (int m = 0; m < o->m; m++) {
        for (int n = 0; n < o->n; n++) {
            double sum = 0, magnitude = 0;
            for (int k = 0; k < o->k; k++) {
                double term = value_of(o->a[m * o->k + k], bf16) * value_of(o->b[k * o->n + n], bf16);
                sum += term;
                magnitude += fabs(term);
            }
            double error = fabs(d[m * o->n + n] - sum), allowed = o->k / 16 * 0x1p-24 * magnitude;
            if (!(error <= allowed))
                fail_msg("element (%d, %d) is %.9g; %.9g is right, within %.3g", m, n, (double)d[m * o->n + n], sum,
                         allowed);
        }
    }
}

/* ---- the ring ---- */

static mlpbwd_status run_ring(const char *text, const shape *s, const operands *o, float *result, mlp_message *why) {
    test_kernel *kernel = load("sm90_ring.cu", text);
    size_t a_bytes = (size_t)o->m * (size_t)o->k * 2, b_bytes = (size_t)o->k * (size_t)o->n * 2;
    size_t d_bytes = (size_t)o->m * (size_t)o->n * 4;
    void *a = kernel_buffer(kernel, o->a_blocks, a_bytes), *b = kernel_buffer(kernel, o->b_blocks, b_bytes);
    void *d = kernel_buffer(kernel, NULL, d_bytes);
    int blocks_k = s->blocks_k;
    void *arguments[] = {&a, &b, &d, &blocks_k};
    const kernel_dims dims = {
        .grid = {(uint32_t)s->blocks}, .block = {384}, .shared_bytes = (size_t)STAGES * 8192 * (size_t)(1 + s->n / 64)};
    mlpbwd_status status = kernel_run(kernel, "ring", &dims, arguments, why);
    if (status == MLPBWD_OK && result)
        kernel_read(kernel, result, d, d_bytes);
    kernel_free(kernel);
    return status;
}

static void check_ring(const shape *s) {
    operands o = make_operands(s);
    float *result = test_alloc((size_t)o.m * (size_t)o.n * 4);
    char *text = kernel_source("tests/emulated/kernels/sm90_ring.cu", s, false);
    mlp_message why = {{0}};
    if (run_ring(text, s, &o, result, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    check_product(&o, s->bf16, result);
    free(text);
    free(result);
    free_operands(&o);
}

static void test_ring_equals_float64(void **state) {
    (void)state;
    const shape shapes[] = {{64, 2, 7, true, false},  {128, 1, 5, false, false}, {256, 1, 7, true, true},
                            {256, 1, 5, false, true}, {128, 2, 3, true, false},  {64, 1, 1, false, true}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_ring(&shapes[i]);
}

static void set_order(const char *seed, const char *timing) {
    assert_int_equal(setenv("MLPBWD_EMULATED_SEED", seed, 1), 0);
    assert_int_equal(setenv("MLPBWD_EMULATED_TIMING", timing, 1), 0);
}

static void test_ring_in_any_order(void **state) {
    (void)state;
    static const char *const orders[][2] = {{"0", "early"}, {"1", "late"}, {"2", "mixed"}, {"3", "mixed"}};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        set_order(orders[i][0], orders[i][1]);
        check_ring(&(shape){64, 2, 7, i % 2 == 0, false});
    }
    set_order("0", "late");
}

/* Infinities, NaN and subnormals as IEEE has them; the other rows and columns stay clean. */
static void test_special_values(void **state) {
    (void)state;
    const shape s = {64, 1, 1, true, false};
    operands o = make_operands(&s);
    const struct {
        int row, column;
        uint16_t bits;
    } set[] = {{0, 0, 0x7c00}, {1, 0, 0xfc00}, {2, 5, 0x7e00}, {3, 1, 0x0001}, {4, 1, 0x83ff}};
    for (int row = 0; row < 5; row++)
        for (int k = 0; k < o.k; k++)
            o.a_blocks[swizzled(row, k)] = 0;
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        o.a_blocks[swizzled(set[i].row, set[i].column)] = set[i].bits;
    o.b_blocks[swizzled(0, 0)] = 0x4000; /* 2 */
    o.b_blocks[swizzled(0, 1)] = 0;
    o.b_blocks[swizzled(1, 0)] = 0x0001;
    float *d = test_alloc((size_t)o.m * (size_t)o.n * 4);
    char *text = kernel_source("tests/emulated/kernels/sm90_ring.cu", &s, false);
    mlp_message why = {{0}};
    assert_int_equal(run_ring(text, &s, &o, d, &why), MLPBWD_OK);
    assert_true(isinf(d[0]) && d[0] > 0);
    assert_true(isinf(d[64]) && d[64] < 0);
    assert_true(isnan(d[1])); /* Inf * 0 */
    for (int n = 0; n < 64; n++)
        assert_true(isnan(d[2 * 64 + n]));
    assert_true(d[3 * 64] == 0x1p-48F); /* the smallest subnormal's square */
    assert_true(d[4 * 64] == -1023 * 0x1p-48F);
    for (int i = 5 * 64; i < 64 * 64; i++)
        assert_true(isfinite(d[i]));
    free(text);
    free(d);
    free_operands(&o);
}

/* ---- A in registers ---- */

static mlpbwd_status run_fragments(const char *text, const operands *o, float *result, mlp_message *why) {
    test_kernel *kernel = load("sm90_fragments.cu", text);
    size_t a_bytes = (size_t)o->m * (size_t)o->k * 2, b_bytes = (size_t)o->k * (size_t)o->n * 2;
    size_t d_bytes = (size_t)o->m * (size_t)o->n * 4;
    uint16_t *b_steps = test_alloc(b_bytes);
    /* [step][column / 8][k / 8][column % 8][k % 8] */
    for (int k = 0; k < o->k; k++)
        for (int n = 0; n < o->n; n++)
            b_steps[k / 16 * o->n * 16 + n / 8 * 128 + k % 16 / 8 * 64 + n % 8 * 8 + k % 8] = o->b[k * o->n + n];
    void *a = kernel_buffer(kernel, o->a, a_bytes), *b = kernel_buffer(kernel, b_steps, b_bytes);
    void *d = kernel_buffer(kernel, NULL, d_bytes);
    int steps = o->k / 16;
    void *arguments[] = {&a, &b, &d, &steps};
    const kernel_dims dims = {.grid = {1}, .block = {128}, .shared_bytes = b_bytes};
    mlpbwd_status status = kernel_run(kernel, "fragments", &dims, arguments, why);
    if (status == MLPBWD_OK && result)
        kernel_read(kernel, result, d, d_bytes);
    kernel_free(kernel);
    free(b_steps);
    return status;
}

static void test_fragments_equal_float64(void **state) {
    (void)state;
    const shape shapes[] = {{64, 1, 2, true, false}, {256, 1, 1, true, true}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        operands o = make_operands(&shapes[i]);
        float *result = test_alloc((size_t)o.m * (size_t)o.n * 4);
        char *text = kernel_source("tests/emulated/kernels/sm90_fragments.cu", &shapes[i], true);
        mlp_message why = {{0}};
        if (run_fragments(text, &o, result, &why) != MLPBWD_OK)
            fail_msg("%s", why.text);
        check_product(&o, shapes[i].bf16, result);
        free(text);
        free(result);
        free_operands(&o);
    }
}

/* ---- copies ---- */

enum { CHUNK = 512, CHUNKS = 3, BLOCKS = 2, ELEMENTS = CHUNK * CHUNKS * BLOCKS };

static mlpbwd_status run_copies(const char *text, float *to, float *sum, mlp_message *why) {
    test_kernel *kernel = load("sm90_copies.cu", text);
    static float from[ELEMENTS];
    const float zeros[CHUNK] = {0};
    for (int i = 0; i < ELEMENTS; i++)
        from[i] = (float)(i * 7 % 1000);
    void *in = kernel_buffer(kernel, from, sizeof from), *out = kernel_buffer(kernel, NULL, sizeof from);
    void *total = kernel_buffer(kernel, zeros, sizeof zeros);
    int chunks = CHUNKS;
    void *arguments[] = {&in, &out, &total, &chunks};
    const kernel_dims dims = {.grid = {BLOCKS}, .block = {128}, .shared_bytes = (size_t)2 * CHUNK * 4};
    mlpbwd_status status = kernel_run(kernel, "copies", &dims, arguments, why);
    if (status == MLPBWD_OK) {
        kernel_read(kernel, to, out, sizeof from);
        kernel_read(kernel, sum, total, sizeof zeros);
    }
    kernel_free(kernel);
    return status;
}

static const shape any_shape = {64, 1, 1, true, false};

static void test_copies(void **state) {
    (void)state;
    static float to[ELEMENTS], sum[CHUNK];
    static const char *const orders[][2] = {{"0", "late"}, {"0", "early"}, {"5", "mixed"}};
    char *text = kernel_source("tests/emulated/kernels/sm90_copies.cu", &any_shape, false);
    for (size_t order = 0; order < sizeof orders / sizeof *orders; order++) {
        mlp_message why = {{0}};
        set_order(orders[order][0], orders[order][1]);
        if (run_copies(text, to, sum, &why) != MLPBWD_OK)
            fail_msg("%s", why.text);
        for (int i = 0; i < ELEMENTS; i++)
            assert_true(to[i] == 2.0F * (float)(i * 7 % 1000));
        for (int i = 0; i < CHUNK; i++) {
            float expected = 0;
            for (int chunk = 0; chunk < CHUNKS * BLOCKS; chunk++)
                expected += (float)((chunk * CHUNK + i) * 7 % 1000);
            assert_true(sum[i] == expected);
        }
    }
    set_order("0", "late");
    free(text);
}

/* ---- a cluster ---- */

enum { HALF = 256, ROUNDS = 3, SENT = 2 * ROUNDS * HALF, RECEIVED = 2 * SENT + 4 * HALF };

static mlpbwd_status run_cluster(const char *text, uint32_t *to, mlp_message *why) {
    test_kernel *kernel = load("sm90_cluster.cu", text);
    uint32_t from[SENT];
    for (uint32_t i = 0; i < SENT; i++)
        from[i] = i * 3;
    void *in = kernel_buffer(kernel, from, sizeof from), *out = kernel_buffer(kernel, NULL, RECEIVED * 4);
    int rounds = ROUNDS;
    void *arguments[] = {&in, &out, &rounds};
    const kernel_dims dims = {.grid = {2}, .block = {128}, .shared_bytes = (size_t)4 * HALF * 4};
    mlpbwd_status status = kernel_run(kernel, "pair", &dims, arguments, why);
    for (int rank = 0; rank < 2 && status == MLPBWD_OK && to; rank++) {
        kernel_read(kernel, to + rank * SENT, (uint32_t *)out + rank * SENT, SENT * 4);
        kernel_read(kernel, to + 2 * SENT + rank * 128, (uint32_t *)out + 2 * SENT + rank * 2 * HALF, 128 * 4);
    }
    kernel_free(kernel);
    return status;
}

static void test_cluster(void **state) {
    (void)state;
    static const char *const orders[][2] = {{"0", "late"}, {"0", "early"}, {"7", "mixed"}, {"8", "mixed"}};
    static uint32_t to[2 * SENT + 256];
    char *text = kernel_source("tests/emulated/kernels/sm90_cluster.cu", &any_shape, false);
    for (size_t order = 0; order < sizeof orders / sizeof *orders; order++) {
        mlp_message why = {{0}};
        set_order(orders[order][0], orders[order][1]);
        if (run_cluster(text, to, &why) != MLPBWD_OK)
            fail_msg("%s", why.text);
        for (uint32_t i = 0; i < 2 * SENT; i++)
            assert_int_equal(to[i], i % SENT * 3);
        for (uint32_t i = 0; i < 256; i++) /* from the other block */
            assert_int_equal(to[2 * SENT + i], (i < 128 ? 1000 : 0) + i % 128);
    }
    set_order("0", "late");
    free(text);
}

/* ---- mistakes ---- */

enum kernel { RING, FRAGMENTS, COPIES, CLUSTER };
static const char *const files[] = {"tests/emulated/kernels/sm90_ring.cu", "tests/emulated/kernels/sm90_fragments.cu",
                                    "tests/emulated/kernels/sm90_copies.cu", "tests/emulated/kernels/sm90_cluster.cu"};

typedef struct plant {
    enum kernel kernel;
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
    {RING,
     "an arrival that never comes",
     "if (k > 0 && lane == 0)",
     "if (k > 0 && lane == 0 && warp != 2)",
     {"deadlock", "1 of 4 arrivals missing", "mbarrier at shared 0x"}},
    {RING,
     "two arrivals by one thread",
     ARRIVE,
     ARRIVE "            if (k > 0 && lane == 0)\n" ARRIVE,
     {"has had more arrivals than its count of 4", "cannot know that phase", "sm90_ring.cu"}},
    {RING,
     "two arrivals of the producer",
     "                mbarrier_arrive_expect(barrier, STAGE_BYTES);\n",
     "                mbarrier_arrive_expect(barrier, STAGE_BYTES), mbarrier_arrive(barrier);\n",
     {"more arrivals than its count of 1 in phase 0", "16384 bytes missing"}},
    {RING,
     "too many bytes expected",
     "(barrier, STAGE_BYTES)",
     "(barrier, STAGE_BYTES + 16)",
     {"deadlock", "all 1 arrivals have come, 16 of 16400 bytes missing"}},
    {RING,
     "too few bytes expected",
     "(barrier, STAGE_BYTES)",
     "(barrier, STAGE_BYTES - 16)",
     {"expected 16368 bytes, but 16384 have been copied", "expect_tx is too small"}},
    {RING,
     "one copy not expected",
     "(barrier, STAGE_BYTES)",
     "(barrier, BLOCK_BYTES)",
     {"ends with the 8192 bytes that it expected", "expect_tx is too small"}},
    {RING,
     "more bytes than a barrier counts",
     "(barrier, STAGE_BYTES)",
     "(barrier, 1 << 20)",
     {"expect_tx of 1048576 bytes", "more than 1048575"}},
    {RING, "a barrier that nobody initialised", INIT_FULL, "", {"there is no mbarrier at shared 0x"}},
    {RING, "a barrier initialised twice", INIT_FULL, INIT_FULL INIT_FULL, {"mbarrier.init over a live one"}},
    {RING,
     "a count of 0",
     "mbarrier_init(full + stage * 8, 1)",
     "mbarrier_init(full + stage * 8, 0)",
     {"a count of 0", "1 to 1048575"}},
    {RING,
     "a barrier at an odd place",
     "mbarrier_init(full + stage * 8, 1)",
     "mbarrier_init(full + stage * 8 + 4, 1)",
     {"not a multiple of 8"}},
    {RING,
     "no fence after the initialisation",
     "        mbarrier_init_fence();\n",
     "",
     {"not visible to asynchronous operations", "fence.mbarrier_init"}},
    {RING, "no block barrier after the initialisation", "    __syncthreads();\n", "", {"mbarrier"}},
    {RING,
     "a store to a barrier's memory",
     INIT_FULL,
     INIT_FULL "            barriers.full[stage] = 0;\n",
     {"mbarrier"}},
    {RING, "a parity that does not exist", "k / STAGES & 1);", "k / STAGES + 2);", {"parity 2", "0 or 1"}},
    {RING, "the wrong parity", "k / STAGES & 1);", "k / STAGES & 1 ^ 1);", {"wgmma", "bulk copy"}},
    {RING,
     "a stage given back before it was read",
     COMMIT,
     COMMIT
     "            if (lane == 0)\n                mbarrier_arrive(empty + k % STAGES * 8);\n            continue;\n",
     {"bulk copy", "wgmma", "still reads"}},
    {RING,
     "no wait for the last product",
     "        wgmma_wait<0>();\n",
     "",
     {"accumulators of a wgmma are read", "wgmma.wait_group"}},
    {RING,
     "no fence before the first product",
     "            wgmma_fence();\n",
     "",
     {"wgmma without a wgmma.fence before it"}},
    {RING,
     "accumulators changed without a fence",
     "            wgmma_fence();\n",
     "            if (k == 0)\n                wgmma_fence();\n            else\n                wgmma_wait<0>(), "
     "sums[3] += 1.0f;\n",
     {"have been written since the last wgmma.fence"}},
    {RING,
     "accumulators changed behind the fence",
     "            wgmma_fence();\n",
     "            wgmma_wait<0>();\n            wgmma_fence();\n            sums[3] = k;\n",
     {"have been written since the last wgmma.fence"}},
    {RING,
     "another shape on the same accumulators",
     COMMIT,
     "            wgmma_f16<!A_K_MAJOR>(*(float (*)[4])sums, "
     "matrix_descriptor(stage, BLOCK_BYTES, 1024), "
     "matrix_descriptor(stage + BLOCK_BYTES, BLOCK_BYTES, 1024), 1);\n" COMMIT,
     {"another shape", "N = 8", "N = 64"}},
    {RING,
     "products that are not committed",
     COMMIT,
     "            if (k + 1 < blocks_k)\n    " COMMIT,
     {"accumulators of a wgmma are read"}},
    {RING,
     "a warp with other operands",
     WGMMA_B,
     "matrix_descriptor(stage + BLOCK_BYTES + (step ^ warp / 2) * 2048, BLOCK_BYTES, 1024)",
     {"different operands", "warpgroup 0"}},
    {RING,
     "a lane with other operands",
     WGMMA_B,
     "matrix_descriptor(stage + BLOCK_BYTES + (step ^ lane / 31) * 2048, BLOCK_BYTES, 1024)",
     {"lanes 0 and 31", "different operands"}},
    {RING,
     "a warp that skips a fence",
     "            wgmma_fence();\n",
     "            if (warp != 3 || k == 0)\n                wgmma_fence();\n",
     {"the warps of warpgroup 0 execute different instructions", "wgmma.fence"}},
    {RING,
     "a warp that leaves early",
     "        for (int k = 0; k < blocks_k; ++k) {\n            const u32 stage = base + k % STAGES * STAGE_BYTES;\n",
     "        if (warp == 1)\n            return;\n        for (int k = 0; k < blocks_k; ++k) {\n            const u32 "
     "stage = base + k % STAGES * STAGE_BYTES;\n",
     {"has exited without", "all four warps"}},
    {RING,
     "an operand that starts inside a row pattern",
     WGMMA_A,
     "matrix_descriptor(stage + 128 + step * STEP_A, BLOCK_BYTES, 1024)",
     {"operand A", "must start in row 0"}},
    {RING,
     "a stride that does not fit the swizzle",
     WGMMA_A,
     "matrix_descriptor(stage + step * STEP_A, BLOCK_BYTES, 512)",
     {"operand A", "stride offset is 512"}},
    {RING, "a descriptor with a bit of Blackwell", WGMMA_B, WGMMA_B " | (u64)1 << 46", {"operand B", "bit 46"}},
    {RING,
     "an operand outside of shared memory",
     WGMMA_B,
     "matrix_descriptor(stage + BLOCK_BYTES + step * 2048 + (k ? 0x38000 : 0), BLOCK_BYTES, 1024)",
     {"wgmma", "shared", "0x3"}},
    {RING,
     "an operand that the copy has not brought",
     "            mbarrier_wait(full + k % STAGES * 8, k / STAGES & 1);\n",
     "            if (k != 1)\n                mbarrier_wait(full + k % STAGES * 8, k / STAGES & 1);\n",
     {"wgmma", "bulk copy", "still writes"}},
    {RING,
     "no register count of setmaxnreg",
     "registers_decrease<64>",
     "registers_decrease<60>",
     {"setmaxnreg to 60", "multiple of 8"}},
    {RING,
     "a decrease that is none",
     "registers_decrease<64>",
     "registers_decrease<176>",
     {"setmaxnreg.dec to 176", "a thread has 168", "must not be more"}},
    {RING,
     "registers taken by half of a warpgroup",
     "        registers_decrease<64>();\n",
     "        if (thread < 192 || thread >= 256)\n            registers_decrease<64>();\n",
     {"setmaxnreg.dec", "has exited without"}},
    {RING,
     "a copy to an odd place",
     LOAD_A,
     "bulk_load(stage + 8, a, BLOCK_BYTES, barrier);",
     {"shared address", "not a multiple of 16"}},
    {RING,
     "a copy from an odd place",
     LOAD_A,
     "bulk_load(stage, a + 1, BLOCK_BYTES, barrier);",
     {"global address", "not a multiple of 16"}},
    {RING,
     "a copy of an odd size",
     LOAD_A,
     "bulk_load(stage, a, BLOCK_BYTES - 8, barrier);",
     {"the size is not a multiple of 16"}},
    {RING,
     "a copy from beyond the tensor",
     LOAD_A,
     "bulk_load(stage, a + (i64)blocks_k * 4096, BLOCK_BYTES, barrier);",
     {"bulk copy", "allocation"}},
    {FRAGMENTS,
     "A's registers written too early",
     "        load_fragment(fragment[1],",
     "        fragment[0][1] = 0;\n        load_fragment(fragment[1],",
     {"A fragments of a wgmma are written", "wgmma.wait_group"}},
    {FRAGMENTS,
     "A's registers written without a fence",
     "columns);\n        wgmma_fence();\n",
     "columns);\n",
     {"A registers have been written since the last wgmma.fence"}},
    {FRAGMENTS,
     "the barrier not waited for",
     "    mbarrier_wait(barrier, 0);\n",
     "",
     {"wgmma", "bulk copy", "still writes"}},
    {COPIES,
     "no proxy fence between stores and a copy of them",
     "        fence_proxy_async_shared();\n",
     "",
     {"bulk copy to global memory", "fence.proxy.async"}},
    {COPIES,
     "no block barrier between stores and a copy of them",
     "        fence_proxy_async_shared();\n        __syncthreads();\n",
     "        fence_proxy_async_shared();\n",
     {"bulk copy to global memory"}},
    {COPIES,
     "a buffer written while a copy still reads it",
     "            bulk_commit();\n            bulk_wait_read<0>();\n",
     "            bulk_commit();\n            if (i) bulk_wait_read<1>(); else bulk_wait_read<0>();\n",
     {"bulk", "still reads"}},
    {COPIES,
     "a group that is not committed",
     "            bulk_commit();\n            bulk_wait_read<0>();\n",
     "",
     {"bulk", "still reads"}},
    {COPIES,
     "a load that nobody waits for",
     "    if (threadIdx.x == 0)\n        bulk_wait<0>();\n",
     "    if (threadIdx.x == 0) {\n        bulk_wait<0>();\n        mbarrier_arrive_expect(barrier, 64);\n"
     "        bulk_load(shared_address(in), from, 64, barrier);\n    }\n",
     {"block (0,0,0) has ended and nobody has waited", "64 of 64 bytes missing"}},
    {COPIES,
     "no wait before the end",
     "            bulk_wait_read<0>();\n        }\n    }\n    if (threadIdx.x == 0)\n        bulk_wait<0>();\n",
     "            if (i + 1 < chunks)\n                bulk_wait_read<0>();\n        }\n    }\n",
     {"ended without cp.async.bulk.wait_group", "may still read shared memory"}},
    {COPIES,
     "no commit before the end",
     "            bulk_commit();\n",
     "            if (i + 1 < chunks)\n                bulk_commit();\n",
     {"ended without cp.async.bulk.commit_group"}},
    {COPIES,
     "a load over a buffer that was read and not fenced",
     "out[j] = 2.0f * in[j];\n        fence_proxy_async_shared();\n",
     "out[j] = 1.0f;\n        fence_proxy_async_shared();\n        to[at + threadIdx.x] = in[threadIdx.x];\n",
     {"bulk copy", "fence.proxy.async"}},
    {CLUSTER,
     "no cluster barrier after the initialisation",
     "    cluster_barrier_arrive();\n    cluster_barrier_wait();\n    for",
     "    __syncthreads();\n    for",
     {"mbarrier"}},
    {CLUSTER,
     "a wait at another block's barrier",
     "mbarrier_wait(full, round & 1)",
     "mbarrier_wait(shared_of_rank(full, peer), round & 1)",
     {"another block (rank", "wait only at its own block's"}},
    {CLUSTER,
     "a copy to a block that the cluster has not",
     "HALF * 4, full, 3);",
     "HALF * 4, full, 5);",
     {"multicast to the ranks 0x5 of a cluster of 2 blocks"}},
    {CLUSTER,
     "a barrier in another block than the copy's target",
     "512, shared_of_rank(copied, peer));",
     "512, copied);",
     {"goes to the block of rank", "its mbarrier is in that of rank"}},
    {CLUSTER,
     "own arrivals only",
     "            mbarrier_arrive_cluster(shared_of_rank(empty, peer));\n",
     "",
     {"deadlock", "4 of 8 arrivals missing"}},
    {CLUSTER,
     "a stage given back by its own block's readers only",
     "            mbarrier_arrive_cluster(shared_of_rank(empty, peer));\n",
     "            mbarrier_arrive(empty);\n",
     {"bulk copy", "shared memory"}},
    {CLUSTER,
     "a block that leaves while the other still copies into it",
     "    mbarrier_wait(copied, 0);\n",
     "    if (rank == 1)\n        return;\n    mbarrier_wait(copied, 0);\n",
     {"may have ended before this access"}},
    {CLUSTER,
     "readers that do not fence before the next copy",
     "        fence_proxy_async_shared();\n        __syncwarp();\n",
     "        __syncwarp();\n",
     {"bulk copy", "fence.proxy.async"}},
    {RING,
     "registers that nobody has released",
     "registers_decrease<64>",
     "registers_decrease<160>",
     {"deadlock", "setmaxnreg.inc from 168 to 256", "needs 2816 more"}},
};

static mlpbwd_status run_planted(const plant *p, mlp_message *why) {
    const shape s = p->kernel == RING ? (shape){64, 1, 7, true, false} : (shape){64, 1, 2, true, false};
    char *text = planted(kernel_source(files[p->kernel], &s, p->kernel == FRAGMENTS), p->find, p->put);
    static float to[ELEMENTS], sum[CHUNK];
    operands o = make_operands(&s);
    mlpbwd_status status = p->kernel == RING        ? run_ring(text, &s, &o, NULL, why)
                           : p->kernel == FRAGMENTS ? run_fragments(text, &o, NULL, why)
                           : p->kernel == COPIES    ? run_copies(text, to, sum, why)
                                                    : run_cluster(text, NULL, why);
    free_operands(&o);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_equals_float64),
        cmocka_unit_test(test_ring_in_any_order),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_fragments_equal_float64),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_cluster),
        cmocka_unit_test(test_each_mistake_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
