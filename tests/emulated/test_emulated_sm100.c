/* tcgen05, tensor memory, block pairs and cluster launch control on the emulated device: results are those of float64,
 * in any order of threads and operations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sm100_fixture.h"

typedef struct order {
    const char *seed, *timing;
} order;
static const order orders[] = {{"0", "late"}, {"0", "early"}, {"7", "mixed"}, {"23", "mixed"}};
enum { ORDERS = sizeof orders / sizeof *orders };

static void set_order(const order *to) {
    assert_int_equal(setenv("MLPBWD_EMULATED_SEED", to->seed, 1), 0);
    assert_int_equal(setenv("MLPBWD_EMULATED_TIMING", to->timing, 1), 0);
}

static int usual_order(void **state) {
    (void)state;
    return unsetenv("MLPBWD_EMULATED_SEED") || unsetenv("MLPBWD_EMULATED_TIMING") || unsetenv("MLPBWD_EMULATED_UNITS");
}

static void run(test_kernel *kernel, const char *entry, const kernel_dims *dims, void **arguments) {
    mlp_message why = {{0}};
    if (kernel_run(kernel, entry, dims, arguments, &why) != MLPBWD_OK)
        fail_msg("%s: %s", entry, why.text);
}

static void check_product(const float *d, size_t m, size_t n, size_t k) {
    char sentence[160] = "";
    if (!sm100_equal(d, m, n, k, sentence, sizeof sentence))
        fail_msg("%s", sentence);
}

/* ---- one block ---- */

typedef struct gemm {
    int tile_m, tile_n;
    enum sm100_type type;
    bool a_mn_major, b_mn_major;
} gemm;

static void check_gemm(const gemm *g, const order *to) {
    char tile_m[8], tile_n[8], type[8];
    snprintf(tile_m, sizeof tile_m, "%d", g->tile_m);
    snprintf(tile_n, sizeof tile_n, "%d", g->tile_n);
    snprintf(type, sizeof type, "%d", (int)g->type);
    const kernel_fill fills[] = {{"tile_m", tile_m},
                                 {"tile_n", tile_n},
                                 {"operand_type", type},
                                 {"a_mn_major", g->a_mn_major ? "true" : "false"},
                                 {"b_mn_major", g->b_mn_major ? "true" : "false"},
                                 {NULL, NULL}};
    set_order(to);
    test_kernel *kernel = sm100_load("umma_gemm", fills, NULL, NULL);
    /* five tiles for two blocks: both accumulators are used again; four stages' worth of K for a ring of three */
    int tiles_m = 5, tiles_n = 1, blocks_k = 4;
    size_t m = (size_t)tiles_m * (size_t)g->tile_m, n = (size_t)tiles_n * (size_t)g->tile_n, k = (size_t)blocks_k * 64;
    uint16_t *blocks_a = sm100_blocks(0, m, k, g->type, g->a_mn_major);
    uint16_t *blocks_b = sm100_blocks(1, n, k, g->type, g->b_mn_major);
    float *d = malloc(m * n * sizeof *d);
    assert_non_null(d);
    void *a = kernel_buffer(kernel, blocks_a, m * k * 2), *b = kernel_buffer(kernel, blocks_b, n * k * 2);
    void *c = kernel_buffer(kernel, NULL, m * n * sizeof *d);
    const kernel_dims dims = {.grid = {2}, .block = {192}, .shared_bytes = 3 * (size_t)(g->tile_m + g->tile_n) * 128};
    void *arguments[] = {(void *)&a, (void *)&b, (void *)&c, &tiles_m, &tiles_n, &blocks_k};
    run(kernel, "umma_gemm", &dims, arguments);
    kernel_read(kernel, d, c, m * n * sizeof *d);
    check_product(d, m, n, k);
    kernel_free(kernel);
    free(blocks_a);
    free(blocks_b);
    free(d);
}

static void test_gemm_of_one_block(void **state) {
    (void)state;
    static const gemm gemms[] = {{128, 64, SM100_F16, false, false},
                                 {128, 128, SM100_BF16, false, true},
                                 {128, 256, SM100_F16, true, true},
                                 {64, 64, SM100_BF16, true, false}};
    for (size_t i = 0; i < sizeof gemms / sizeof *gemms; i++)
        check_gemm(&gemms[i], &orders[i % ORDERS]);
}

static void test_gemm_in_any_order(void **state) {
    (void)state;
    const gemm g = {128, 64, SM100_F16, false, true};
    for (size_t i = 0; i < ORDERS; i++)
        check_gemm(&g, &orders[i]);
}

/* ---- pairs ---- */

static void encode(test_kernel *kernel, const dev_tensor *tensor, dev_tensor_map *map) {
    mlp_message why = {{0}};
    if (dev_tensor_map_encode(kernel_context(kernel), tensor, map, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
}

static void check_pair(int pair_m, int tile_n, enum sm100_type type, const order *to) {
    char m_text[8], n_text[8], type_text[8];
    snprintf(m_text, sizeof m_text, "%d", pair_m);
    snprintf(n_text, sizeof n_text, "%d", tile_n);
    snprintf(type_text, sizeof type_text, "%d", (int)type);
    const kernel_fill fills[] = {{"pair_m", m_text}, {"tile_n", n_text}, {"operand_type", type_text}, {NULL, NULL}};
    set_order(to);
    test_kernel *kernel = sm100_load("umma_pair", fills, NULL, NULL);
    int tiles_m = 3, tiles_n = 2, blocks_k = 3; /* six tiles, of which each of two pairs has three */
    size_t m = (size_t)tiles_m * (size_t)pair_m, n = (size_t)tiles_n * (size_t)tile_n, k = (size_t)blocks_k * 64;
    uint16_t *a_host = malloc(m * k * 2), *b_host = malloc(n * k * 2);
    float *d = malloc(m * n * sizeof *d);
    assert_true(a_host && b_host && d);
    for (size_t i = 0; i < m * k; i++)
        a_host[i] = sm100_half(sm100_value(0, i), type);
    for (size_t column = 0; column < n; column++) /* B is [k][n] here */
        for (size_t depth = 0; depth < k; depth++)
            b_host[depth * n + column] = sm100_half(sm100_value(1, column * k + depth), type);
    const enum dev_element element = type == SM100_BF16 ? DEV_BF16 : DEV_F16;
    const dev_tensor a = {.address = kernel_buffer(kernel, a_host, m * k * 2),
                          .element = element,
                          .rank = 2,
                          .size = {k, m},
                          .stride = {k * 2},
                          .box = {64, (uint32_t)pair_m / 2},
                          .swizzle = DEV_SWIZZLE_128B};
    const dev_tensor b = {.address = kernel_buffer(kernel, b_host, n * k * 2),
                          .element = element,
                          .rank = 2,
                          .size = {n, k},
                          .stride = {n * 2},
                          .box = {64, 64},
                          .swizzle = DEV_SWIZZLE_128B};
    dev_tensor_map map_a, map_b;
    encode(kernel, &a, &map_a);
    encode(kernel, &b, &map_b);
    void *c = kernel_buffer(kernel, NULL, m * n * sizeof *d);
    const kernel_dims dims = {
        .grid = {4}, .block = {192}, .shared_bytes = 2 * ((size_t)pair_m / 2 + (size_t)tile_n / 2) * 128};
    void *arguments[] = {&map_a, &map_b, (void *)&c, &tiles_m, &tiles_n, &blocks_k};
    run(kernel, "umma_pair", &dims, arguments);
    kernel_read(kernel, d, c, m * n * sizeof *d);
    check_product(d, m, n, k);
    kernel_free(kernel);
    free(a_host);
    free(b_host);
    free(d);
}

static void test_gemm_of_a_pair(void **state) {
    (void)state;
    check_pair(256, 256, SM100_BF16, &orders[0]);
    check_pair(256, 128, SM100_F16, &orders[2]);
    check_pair(128, 128, SM100_F16, &orders[1]);
    check_pair(128, 256, SM100_F16, &orders[3]);
}

/* ---- other forms ---- */

static void check_small(bool tf32, bool a_in_tensor_memory) {
    enum { M = 128, N = 64 };
    const kernel_fill fills[] = {
        {"tf32", tf32 ? "true" : "false"}, {"a_in_tensor_memory", a_in_tensor_memory ? "true" : "false"}, {NULL, NULL}};
    test_kernel *kernel = sm100_load("umma_small", fills, NULL, NULL);
    unsigned char operands[2][M * 128];
    size_t k = tf32 ? 32 : 64, bytes = tf32 ? 4 : 2;
    for (uint32_t operand = 0; operand < 2; operand++)
        for (size_t i = 0; i < (operand ? N : M) * k; i++) {
            float value = (float)sm100_value(operand, i);
            uint16_t half = sm100_half(value, SM100_F16);
            memcpy(operands[operand] + i * bytes, tf32 ? (const void *)&value : (const void *)&half, bytes);
        }
    void *a = kernel_buffer(kernel, operands[0], (size_t)M * 128),
         *b = kernel_buffer(kernel, operands[1], (size_t)N * 128);
    static float d[M * N];
    void *c = kernel_buffer(kernel, NULL, sizeof d);
    const kernel_dims dims = {.block = {128}, .shared_bytes = (size_t)(M + N) * 128};
    void *arguments[] = {(void *)&a, (void *)&b, (void *)&c};
    run(kernel, "umma_small", &dims, arguments);
    kernel_read(kernel, d, c, sizeof d);
    check_product(d, M, N, k);
    kernel_free(kernel);
}

static void test_tf32_and_a_in_tensor_memory(void **state) {
    (void)state;
    check_small(false, false);
    check_small(false, true);
    check_small(true, false);
    check_small(true, true);
}

/* ---- cluster launch control ---- */

static void test_clusters_take_others_work(void **state) {
    (void)state;
    enum { BLOCKS = 26 };
    for (size_t i = 0; i < ORDERS; i++) {
        static const uint32_t zeros[BLOCKS];
        uint32_t marks[BLOCKS], workers[BLOCKS], takers = 0;
        set_order(&orders[i]);
        assert_int_equal(setenv("MLPBWD_EMULATED_UNITS", "6", 1), 0); /* three clusters fit at once */
        test_kernel *kernel = sm100_load("umma_clc", NULL, NULL, NULL);
        void *marked = kernel_buffer(kernel, zeros, sizeof zeros), *worked = kernel_buffer(kernel, zeros, sizeof zeros);
        const kernel_dims dims = {.grid = {BLOCKS}, .block = {64}};
        void *arguments[] = {(void *)&marked, (void *)&worked};
        run(kernel, "umma_clc", &dims, arguments);
        kernel_read(kernel, marks, marked, sizeof marks);
        kernel_read(kernel, workers, worked, sizeof workers);
        for (uint32_t block = 0; block < BLOCKS; block++) {
            assert_int_equal(marks[block], 1 + block % 2);
            takers += workers[block] != block;
        }
        assert_true(takers > 0);
        kernel_free(kernel);
    }
}

/* ---- for hardware ---- */

/* The kernels are real ones: the assembler takes the same texts. */
static void test_kernels_assemble(void **state) {
    (void)state;
    static const kernel_fill fills[] = {{"tile_m", "128"},
                                        {"tile_n", "256"},
                                        {"operand_type", "1"},
                                        {"a_mn_major", "true"},
                                        {"b_mn_major", "false"},
                                        {"pair_m", "256"},
                                        {"tf32", "true"},
                                        {"a_in_tensor_memory", "true"},
                                        {NULL, NULL}};
    static const char *const kernels[] = {"umma_gemm", "umma_pair", "umma_small", "umma_clc"}, *const targets[] = {
                                                                                                   "sm_100a",
                                                                                                   "sm_103a"};
    char version[64];
    mlp_message why = {{0}};
    if (dev_compiler_version("nvrtc", version, sizeof version, &why) != MLPBWD_OK) {
        print_message("%s\n", why.text);
        skip();
    }
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        char *text = sm100_text(kernels[i], fills, NULL, NULL);
        for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
            const dev_compile_request request = {
                .compiler = "nvrtc", .target = targets[t], .source = text, .name = kernels[i]};
            dev_image image = {0};
            if (dev_compile(&request, &image, &why) != MLPBWD_OK)
                fail_msg("%s for %s: %s", kernels[i], targets[t], why.text);
            if (strstr(image.log, "spill stores") && !strstr(image.log, "0 bytes spill stores"))
                fail_msg("%s for %s spills: %s", kernels[i], targets[t], image.log);
            dev_image_free(&image);
        }
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_gemm_of_one_block, usual_order),
        cmocka_unit_test_teardown(test_gemm_in_any_order, usual_order),
        cmocka_unit_test_teardown(test_gemm_of_a_pair, usual_order),
        cmocka_unit_test_teardown(test_tf32_and_a_in_tensor_memory, usual_order),
        cmocka_unit_test_teardown(test_clusters_take_others_work, usual_order),
        cmocka_unit_test(test_kernels_assemble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
