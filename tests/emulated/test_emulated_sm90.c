/* mbarriers, bulk copies, wgmma, setmaxnreg on an emulated device: results of kernels against float64 sums, with the
 * threads and asynchronous operations in several orders. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sm90_kernels.h"
#include "test_inputs.h"

/* Every element within one rounding to fp32 for each 16 of K, of the sum of magnitudes. */
static void check_product(const sm90_operands *o, bool bf16, const float *d) {
    for (int m = 0; m < o->m; m++) {
        for (int n = 0; n < o->n; n++) {
            double sum = 0, magnitude = 0;
            for (int k = 0; k < o->k; k++) {
                double term = sm90_value(o->a[m * o->k + k], bf16) * sm90_value(o->b[k * o->n + n], bf16);
                sum += term;
                magnitude += fabs(term);
            }
            double error = fabs(d[m * o->n + n] - sum), allowed = 0x1p-28 * o->k * magnitude;
            if (!(error <= allowed))
                fail_msg("element (%d, %d) is %.9g; %.9g is right, within %.3g", m, n, (double)d[m * o->n + n], sum,
                         allowed);
        }
    }
}

static void check_ring(const sm90_shape *s) {
    sm90_operands o = sm90_operands_make(s);
    float *result = test_alloc((size_t)o.m * (size_t)o.n * 4);
    char *text = sm90_source(SM90_RING, s);
    mlp_message why = {{0}};
    if (sm90_run_ring(text, s, &o, result, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    check_product(&o, s->bf16, result);
    free(text);
    free(result);
    sm90_operands_free(&o);
}

static void test_ring_equals_float64(void **state) {
    (void)state;
    const sm90_shape shapes[] = {{64, 2, 7, true, false},  {128, 1, 5, false, false}, {256, 1, 7, true, true},
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
        check_ring(&(sm90_shape){64, 2, 7, i % 2 == 0, false});
    }
    set_order("0", "late");
}

/* Infinities, NaN and subnormals as IEEE has them; the other rows and columns stay clean. */
static void test_special_values(void **state) {
    (void)state;
    const sm90_shape s = {64, 1, 1, true, false};
    sm90_operands o = sm90_operands_make(&s);
    const struct {
        int row, column;
        uint16_t bits;
    } set[] = {{0, 0, 0x7c00}, {1, 0, 0xfc00}, {2, 5, 0x7e00}, {3, 1, 0x0001}, {4, 1, 0x83ff}};
    for (int row = 0; row < 5; row++)
        for (int k = 0; k < o.k; k++)
            o.a_blocks[sm90_swizzled(row, k)] = 0;
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        o.a_blocks[sm90_swizzled(set[i].row, set[i].column)] = set[i].bits;
    o.b_blocks[sm90_swizzled(0, 0)] = 0x4000; /* 2 */
    o.b_blocks[sm90_swizzled(0, 1)] = 0;
    o.b_blocks[sm90_swizzled(1, 0)] = 0x0001;
    float *d = test_alloc((size_t)o.m * (size_t)o.n * 4);
    char *text = sm90_source(SM90_RING, &s);
    mlp_message why = {{0}};
    assert_int_equal(sm90_run_ring(text, &s, &o, d, &why), MLPBWD_OK);
    assert_true(isinf(d[0]) && d[0] > 0);
    assert_true(isinf(d[64]) && d[64] < 0);
    assert_true(isnan(d[1])); /* Inf * 0 */
    for (int n = 0; n < 64; n++)
        assert_true(isnan(d[2 * 64 + n]));
    const float *subnormal = d + (size_t)3 * 64; /* rows 3 and 4, column 0: products with the smallest subnormal */
    assert_true(subnormal[0] == 0x1p-48F);
    assert_true(subnormal[64] == -1023 * 0x1p-48F);
    for (int i = 5 * 64; i < 64 * 64; i++)
        assert_true(isfinite(d[i]));
    free(text);
    free(d);
    sm90_operands_free(&o);
}

static void test_fragments_equal_float64(void **state) {
    (void)state;
    const sm90_shape shapes[] = {{64, 1, 2, true, false}, {256, 1, 1, true, true}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        sm90_operands o = sm90_operands_make(&shapes[i]);
        float *result = test_alloc((size_t)o.m * (size_t)o.n * 4);
        char *text = sm90_source(SM90_FRAGMENTS, &shapes[i]);
        mlp_message why = {{0}};
        if (sm90_run_fragments(text, &o, result, &why) != MLPBWD_OK)
            fail_msg("%s", why.text);
        check_product(&o, shapes[i].bf16, result);
        free(text);
        free(result);
        sm90_operands_free(&o);
    }
}

static const sm90_shape any_shape = {64, 1, 1, true, false};

static void test_copies(void **state) {
    (void)state;
    static float from[SM90_ELEMENTS], to[SM90_ELEMENTS], sum[SM90_CHUNK];
    static const char *const orders[][2] = {{"0", "late"}, {"0", "early"}, {"5", "mixed"}};
    float expected[SM90_CHUNK] = {0};
    for (int i = 0; i < SM90_ELEMENTS; i++) {
        from[i] = (float)(i * 7 % 1000);
        expected[i % SM90_CHUNK] += from[i];
    }
    char *text = sm90_source(SM90_COPIES, &any_shape);
    for (size_t order = 0; order < sizeof orders / sizeof *orders; order++) {
        mlp_message why = {{0}};
        set_order(orders[order][0], orders[order][1]);
        if (sm90_run_copies(text, from, to, sum, &why) != MLPBWD_OK)
            fail_msg("%s", why.text);
        for (int i = 0; i < SM90_ELEMENTS; i++)
            assert_true(to[i] == 2.0F * from[i]);
        for (int i = 0; i < SM90_CHUNK; i++)
            assert_true(sum[i] == expected[i]);
    }
    set_order("0", "late");
    free(text);
}

static void test_cluster(void **state) {
    (void)state;
    static uint32_t from[SM90_SENT], to[SM90_RECEIVED];
    static const char *const orders[][2] = {{"0", "late"}, {"0", "early"}, {"7", "mixed"}, {"8", "mixed"}};
    for (uint32_t i = 0; i < SM90_SENT; i++)
        from[i] = i * 3;
    char *text = sm90_source(SM90_CLUSTER, &any_shape);
    for (size_t order = 0; order < sizeof orders / sizeof *orders; order++) {
        mlp_message why = {{0}};
        set_order(orders[order][0], orders[order][1]);
        if (sm90_run_cluster(text, from, to, &why) != MLPBWD_OK)
            fail_msg("%s", why.text);
        for (uint32_t i = 0; i < 2 * SM90_SENT; i++)
            assert_int_equal(to[i], from[i % SM90_SENT]);
        const uint32_t *copied = to + (size_t)2 * SM90_SENT; /* each block has the other's words */
        for (uint32_t i = 0; i < 128; i++) {
            assert_int_equal(copied[i], 1000 + i);
            assert_int_equal(copied[SM90_ROUND + i], i);
        }
    }
    set_order("0", "late");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_equals_float64),
        cmocka_unit_test(test_ring_in_any_order),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_fragments_equal_float64),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_cluster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
