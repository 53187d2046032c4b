/* cp.async, ldmatrix and mma.sync: results against float64 on an emulated device and, where there is one, a real GPU;
 * and the mistakes that the emulation must find. */
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

static char emulated[] = "emulated:sm_80", real[] = "cuda:0";

/* C[16][8] = A[16][K] * B[K][8], K = STEPS * 16, 16 at a time through a ring of two stages that cp.async fills. A row
 * of a stage is 16 bytes of a column of chunks: [2][16] of A, [16] of B. */
static const char product[] =
    "constexpr int STEPS = ${steps}, TILE = 16 * 2 + 16;\n"
    "extern __shared__ __align__(1024) unsigned char shared_memory[];\n"
    "__device__ __forceinline__ void fetch(u32 stage, const u16 *a, const u16 *b, int step) {\n"
    "    int lane = threadIdx.x;\n"
    "    cp_async_16(stage + lane * 16, a + (lane % 16) * STEPS * 16 + step * 16 + lane / 16 * 8, 16);\n"
    "    if (lane < 16)\n"
    "        cp_async_16(stage + (32 + lane) * 16, b + (step * 16 + lane) * 8, ${b_bytes});\n"
    "    cp_async_commit();\n"
    "}\n"
    "extern \"C\" __global__ void product(const u16 *a, const u16 *b, float *c) {\n"
    "    u32 shared = shared_address(shared_memory);\n"
    "    int lane = threadIdx.x;\n"
    "    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};\n"
    "    fetch(shared, a, b, 0);\n"
    "    for (int step = 0; step < STEPS; ++step) {\n"
    "        u32 stage = shared + step % 2 * TILE * 16;\n"
    "        if (step + 1 < STEPS)\n"
    "            fetch(shared + (step + 1) % 2 * TILE * 16, a, b, step + 1);\n"
    "        else\n"
    "            cp_async_commit();\n"
    "        cp_async_wait<${pending}>();\n"
    "        ${arrived}\n"
    "        u32 fragment_a[4], fragment_b[4];\n"
    "        ldmatrix_x4(fragment_a, stage + lane * 16${skew});\n"
    "        ldmatrix_x4_trans(fragment_b, stage + (32 + lane % 16) * 16);\n"
    "        ${mma}(sums, fragment_a, fragment_b[0], fragment_b[1]);\n"
    "        ${done}\n"
    "    }\n"
    "    for (int e = 0; e < 4; ++e)\n"
    "        c[(lane / 4 + e / 2 * 8) * 8 + lane % 4 * 2 + e % 2] = sums[e];\n"
    "}\n";

enum { STEPS = 5, K = STEPS * 16, M = 16, N = 8 };

typedef struct variant {
    const char *mma, *b_bytes, *pending, *arrived, *skew, *done;
} variant;
static const variant right_f16 = {"mma_f16", "16", "1", "__syncwarp();", "", "__syncwarp();"},
                     right_bf16 = {"mma_bf16", "16", "1", "__syncwarp();", "", "__syncwarp();"};

static char *product_text(const variant *v) {
    const kernel_fill fills[] = {{"steps", "5"},          {"mma", v->mma},   {"b_bytes", v->b_bytes},
                                 {"pending", v->pending}, {"skew", v->skew}, {"arrived", v->arrived},
                                 {"done", v->done},       {NULL, NULL}};
    const char *const pieces[] = {"templates/lib/base.cuh", "templates/lib/ptx.cuh", product};
    return kernel_text(pieces, sizeof pieces / sizeof pieces[0], fills);
}

/* Some finite number of the type, subnormals among them, and its value. */
static uint16_t draw(uint32_t *seed, bool bf16, double *value) {
    *seed = *seed * 1664525U + 1013904223U;
    uint16_t bits = (uint16_t)(*seed >> 16);
    unsigned exponent_bits = bf16 ? 8 : 5, mantissa_bits = 15 - exponent_bits;
    int bias = bf16 ? 127 : 15, exponent = bf16 ? 122 + (bits >> 7) % 8 : (bits >> 10) % 20;
    unsigned mantissa = bits & ((1U << mantissa_bits) - 1);
    bits = (uint16_t)((bits & 0x8000U) | (unsigned)exponent << mantissa_bits | mantissa);
    double fraction = mantissa / (double)(1U << mantissa_bits);
    double magnitude = exponent ? ldexp(1 + fraction, exponent - bias) : ldexp(fraction, 1 - bias);
    *value = bits & 0x8000U ? -magnitude : magnitude;
    return bits;
}

typedef struct operands {
    uint16_t a[M][K], b[K][N];
    double a_value[M][K], b_value[K][N];
} operands;

static void draw_operands(operands *o, bool bf16) {
    uint32_t seed = 12345;
    for (int i = 0; i < M * K; i++)
        o->a[i / K][i % K] = draw(&seed, bf16, &o->a_value[i / K][i % K]);
    for (int i = 0; i < K * N; i++)
        o->b[i / N][i % N] = draw(&seed, bf16, &o->b_value[i / N][i % N]);
}

/* Takes the text over. */
static test_kernel *load(const char *device, char *text) {
    mlp_message why = {""};
    mlpbwd_status status;
    test_kernel *kernel = kernel_load(device, "product.cu", text, &status, &why);
    free(text);
    if (!kernel && (status == MLPBWD_NO_DEVICE || (status == MLPBWD_UNSUPPORTED && device == real))) {
        print_message("%s\n", why.text);
        skip();
    }
    if (!kernel)
        fail_msg("%s", why.text);
    return kernel;
}

static mlpbwd_status run(test_kernel *kernel, const operands *o, float c[M][N], mlp_message *why) {
    uint16_t *a = kernel_buffer(kernel, o->a, sizeof o->a), *b = kernel_buffer(kernel, o->b, sizeof o->b);
    float *out = kernel_buffer(kernel, NULL, sizeof(float) * M * N);
    void *arguments[] = {&a, &b, &out};
    kernel_dims dims = {.block = {32}, .shared_bytes = 2048};
    mlpbwd_status status = kernel_run(kernel, "product", &dims, arguments, why);
    if (status == MLPBWD_OK)
        kernel_read(kernel, c, out, sizeof(float) * M * N);
    return status;
}

/* Each of the five sums of 16 products may be rounded to fp32 in any way: 2^-21 of the sum of magnitudes. */
static void check_product(const operands *o, float c[M][N]) {
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            double sum = 0, magnitude = 0;
            for (int k = 0; k < K; k++) {
                sum += o->a_value[m][k] * o->b_value[k][n];
                magnitude += fabs(o->a_value[m][k] * o->b_value[k][n]);
            }
            if (!(fabs(c[m][n] - sum) <= magnitude * 0x1p-21))
                fail_msg("element (%d,%d) is %.9g; %.9g is right", m, n, (double)c[m][n], sum);
        }
}

static void check_products(const char *device) {
    static const variant *const variants[] = {&right_f16, &right_bf16};
    for (int bf16 = 0; bf16 < 2; bf16++) {
        test_kernel *kernel = load(device, product_text(variants[bf16]));
        operands o;
        float c[M][N];
        mlp_message why = {""};
        draw_operands(&o, bf16);
        if (run(kernel, &o, c, &why))
            fail_msg("%s", why.text);
        check_product(&o, c);
        kernel_free(kernel);
    }
}

static void test_product(void **state) {
    check_products(*state);
}

/* The same with threads and copies in other orders. */
static void test_orders(void **state) {
    (void)state;
    static const char *const timings[] = {"early", "mixed", "late"};
    for (int seed = 1; seed <= 6; seed++) {
        char number[16];
        (void)snprintf(number, sizeof number, "%d", seed);
        assert_int_equal(setenv("MLPBWD_EMULATED_SEED", number, 1), 0);
        assert_int_equal(setenv("MLPBWD_EMULATED_TIMING", timings[seed % 3], 1), 0);
        check_products(emulated);
    }
    assert_int_equal(unsetenv("MLPBWD_EMULATED_SEED"), 0);
    assert_int_equal(unsetenv("MLPBWD_EMULATED_TIMING"), 0);
}

/* cp.async with fewer bytes than 16 fills the rest with zeros: the last columns of C vanish. */
static void test_zero_fill(void **state) {
    variant v = right_f16;
    v.b_bytes = "6";
    test_kernel *kernel = load(*state, product_text(&v));
    operands o;
    float c[M][N];
    mlp_message why = {""};
    draw_operands(&o, false);
    for (int i = 0; i < K * N; i++)
        if (i % N >= 3)
            o.b_value[i / N][i % N] = 0;
    if (run(kernel, &o, c, &why))
        fail_msg("%s", why.text);
    check_product(&o, c);
    kernel_free(kernel);
}

/* ---- mistakes ---- */

static void expect_words(const char *report, const char *const *words) {
    for (; *words; words++)
        if (!strstr(report, *words))
            fail_msg("\"%s\" does not say \"%s\"", report, *words);
}

static void expect_report(const variant *v, const char *const *words) {
    test_kernel *kernel = load(emulated, product_text(v));
    operands o;
    float c[M][N];
    mlp_message why = {""};
    draw_operands(&o, false);
    assert_int_equal(run(kernel, &o, c, &why), MLPBWD_DEVICE_ERROR);
    expect_words(why.text, words);
    kernel_free(kernel);
}

static void test_mistakes(void **state) {
    (void)state;
    variant v = right_f16;
    v.pending = "2"; /* the stage that is read has not been waited for */
    expect_report(&v, (const char *const[]){"ldmatrix", "cp.async", "still writes", "product.cu:", NULL});
    v = right_f16;
    v.arrived = ""; /* each lane has waited for its own copies only */
    expect_report(&v, (const char *const[]){"cp.async", "product.cu:", NULL});
    v = right_f16;
    v.done = ""; /* lanes that have not read the stage yet see it filled anew */
    expect_report(&v, (const char *const[]){"cp.async writes", "product.cu:", NULL});
    v = right_f16;
    v.skew = " + 4";
    expect_report(&v, (const char *const[]){"ldmatrix: shared address", "not a multiple of 16", NULL});
    v = right_f16;
    v.b_bytes = "20";
    expect_report(&v, (const char *const[]){"cp.async of 16 bytes is to read 20", NULL});
    v = right_f16;
    v.mma = "if (lane < 31) mma_f16"; /* .aligned: all lanes */
    expect_report(&v, (const char *const[]){"mma.sync", NULL});
}

/* ---- arrivals on an mbarrier ---- */

static const char arrival[] =
    "extern \"C\" __global__ void arrival(const u32 *in, u32 *out) {\n"
    "    __shared__ __align__(16) u32 words[128];\n"
    "    __shared__ u64 barrier;\n"
    "    u32 full = shared_address(&barrier);\n"
    "    if (threadIdx.x == 0)\n"
    "        mbarrier_init(full, 32);\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x < 32) {\n"
    "        cp_async_16(shared_address(words + threadIdx.x * 4), in + threadIdx.x * 4, 16);\n"
    "        ${arrive};\n"
    "    } else {\n"
    "        ${wait};\n"
    "        for (int i = 0; i < 4; ++i)\n"
    "            out[threadIdx.x - 32 + i * 32] = words[127 - (threadIdx.x - 32 + i * 32)];\n"
    "    }\n"
    "}\n";

static const char rs_wrapper[] =
    "#ifndef MLPBWD_EMULATED\n"
    "__device__ __forceinline__ void cp_async_arrive(u32 barrier) {\n"
    "    asm volatile(\"cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];\" ::\"r\"(barrier) : \"memory\");\n"
    "}\n"
    "#endif\n";

static mlpbwd_status run_arrival(const char *device, const char *arrive, const char *wait, uint32_t out[128],
                                 mlp_message *why) {
    const kernel_fill fills[] = {{"arrive", arrive},
                                 {"wait", wait},
                                 {"type", "f16"},
                                 {"registers", "4"},
                                 {"n", "8"},
                                 {"d_list", "%0,%1,%2,%3"},
                                 {"a_index", "4"},
                                 {"b_index", "5"},
                                 {"accumulate_index", "6"},
                                 {"transpose_index", "7"},
                                 {"d_operands", "\"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3])"},
                                 {NULL, NULL}};
    const char *const pieces[] = {"templates/lib/base.cuh", "templates/lib/ptx.cuh", "templates/lib/ptx_sm90.cuh",
                                  rs_wrapper, arrival};
    char *text = kernel_text(pieces, sizeof pieces / sizeof pieces[0], fills);
    test_kernel *kernel = load(device, text);
    uint32_t in[128];
    for (uint32_t i = 0; i < 128; i++)
        in[i] = i * 2654435761U;
    uint32_t *from = kernel_buffer(kernel, in, sizeof in), *to = kernel_buffer(kernel, NULL, sizeof in);
    void *arguments[] = {&from, &to};
    kernel_dims dims = {.block = {64}};
    mlpbwd_status status = kernel_run(kernel, "arrival", &dims, arguments, why);
    if (status == MLPBWD_OK) {
        kernel_read(kernel, out, to, sizeof in);
        for (uint32_t i = 0; i < 128; i++)
            assert_int_equal(out[i], in[127 - i]);
    }
    kernel_free(kernel);
    return status;
}

static void test_arrival(void **state) {
    (void)state;
    uint32_t out[128];
    mlp_message why = {""};
    if (run_arrival("emulated:sm_90a", "cp_async_arrive(full)", "mbarrier_wait(full, 0)", out, &why))
        fail_msg("%s", why.text);
    /* an ordinary arrival does not say that the copies are over */
    assert_int_equal(run_arrival("emulated:sm_90a", "mbarrier_arrive(full)", "mbarrier_wait(full, 0)", out, &why),
                     MLPBWD_DEVICE_ERROR);
    expect_words(why.text, (const char *const[]){"cp.async", "product.cu:", NULL});
    assert_int_equal(run_arrival("emulated:sm_90a", "cp_async_arrive(full)", "(void)0", out, &why),
                     MLPBWD_DEVICE_ERROR);
    expect_words(why.text, (const char *const[]){"read of 4 bytes", "product.cu:", NULL});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_product, emulated),
        cmocka_unit_test_prestate(test_product, real),
        cmocka_unit_test(test_orders),
        cmocka_unit_test_prestate(test_zero_fill, emulated),
        cmocka_unit_test_prestate(test_zero_fill, real),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_arrival),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
