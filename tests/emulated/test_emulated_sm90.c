/* mbarriers, bulk copies, wgmma, setmaxnreg: results of kernels against float64 sums, on an emulated device with the
 * threads and asynchronous operations in several orders, and on a real one. */
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

typedef struct place {
    const char *device, *seed, *timing;
} place;
static place late = {"emulated:sm_90a", "0", "late"}, early = {"emulated:sm_90a", "0", "early"},
             mixed = {"emulated:sm_90a", "7", "mixed"}, real = {"cuda:0", "0", "late"};

static const char *go_to(void **state) {
    const place *at = *state;
    assert_int_equal(setenv("MLPBWD_EMULATED_SEED", at->seed, 1), 0);
    assert_int_equal(setenv("MLPBWD_EMULATED_TIMING", at->timing, 1), 0);
    dev *opened = NULL;
    mlp_message why = {{0}};
    if (dev_open(at->device, &opened, &why) == MLPBWD_NO_DEVICE) { /* before anything is made that a skip would lose */
        print_message("%s\n", why.text);
        skip();
    }
    dev_release(opened);
    return at->device;
}

static void check_ran(mlpbwd_status status, const mlp_message *why) {
    if (status)
        fail_msg("%s", why->text);
}

/* Every element within one rounding to fp32 for each 16 of K, of the sum of magnitudes; a real device aligns terms to
 * 25 bits and truncates them and the result, which makes up to four. */
static void check_product(const sm90_operands *o, bool bf16, const float *d, bool truncates) {
    for (int m = 0; m < o->m; m++) {
        for (int n = 0; n < o->n; n++) {
            double sum = 0, magnitude = 0;
            for (int k = 0; k < o->k; k++) {
                double term = sm90_value(o->a[m * o->k + k], bf16) * sm90_value(o->b[k * o->n + n], bf16);
                sum += term;
                magnitude += fabs(term);
            }
            double error = fabs(d[m * o->n + n] - sum), allowed = (truncates ? 4 : 1) * 0x1p-28 * o->k * magnitude;
            if (!(error <= allowed))
                fail_msg("element (%d, %d) is %.9g; %.9g is right, within %.3g", m, n, (double)d[m * o->n + n], sum,
                         allowed);
        }
    }
}

static void check(enum sm90_kernel kernel, const sm90_shape *s, const char *device) {
    sm90_operands o = sm90_operands_make(s);
    float *d = test_alloc((size_t)o.m * (size_t)o.n * sizeof *d);
    char *text = sm90_source(kernel, s);
    mlp_message why = {{0}};
    mlpbwd_status ran = kernel == SM90_RING ? sm90_run_ring(device, text, s, &o, d, &why)
                                            : sm90_run_fragments(device, text, &o, d, &why);
    check_ran(ran, &why);
    check_product(&o, s->bf16, d, strcmp(device, real.device) == 0);
    free(text);
    free(d);
    sm90_operands_free(&o);
}

static void test_ring(void **state) {
    static const sm90_shape shapes[] = {{64, 2, 7, true, false},  {128, 1, 5, false, false}, {256, 1, 7, true, true},
                                        {256, 1, 5, false, true}, {128, 2, 3, true, false},  {64, 1, 1, false, true}};
    const char *device = go_to(state);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check(SM90_RING, &shapes[i], device);
}

static void test_small_ring(void **state) {
    const char *device = go_to(state);
    check(SM90_RING, &(sm90_shape){64, 2, 7, true, false}, device);
    check(SM90_RING, &(sm90_shape){64, 2, 7, false, false}, device);
}

static void test_fragments(void **state) {
    const char *device = go_to(state);
    check(SM90_FRAGMENTS, &(sm90_shape){64, 1, 2, true, false}, device);
    check(SM90_FRAGMENTS, &(sm90_shape){256, 1, 1, true, true}, device);
}

/* Infinities, NaN and subnormals as IEEE has them; the other rows and columns stay clean. */
static void test_special_values(void **state) {
    const char *device = go_to(state);
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
    check_ran(sm90_run_ring(device, text, &s, &o, d, &why), &why);
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

static const sm90_shape any_shape = {64, 1, 1, true, false};

static void test_copies(void **state) {
    static float from[SM90_ELEMENTS], to[SM90_ELEMENTS], sum[SM90_CHUNK];
    const char *device = go_to(state);
    float expected[SM90_CHUNK] = {0};
    for (int i = 0; i < SM90_ELEMENTS; i++) {
        from[i] = (float)(i * 7 % 1000);
        expected[i % SM90_CHUNK] += from[i];
    }
    char *text = sm90_source(SM90_COPIES, &any_shape);
    mlp_message why = {{0}};
    check_ran(sm90_run_copies(device, text, from, to, sum, &why), &why);
    for (int i = 0; i < SM90_ELEMENTS; i++)
        assert_true(to[i] == 2.0F * from[i]);
    for (int i = 0; i < SM90_CHUNK; i++)
        assert_true(sum[i] == expected[i]);
    free(text);
}

static void test_cluster(void **state) {
    static uint32_t from[SM90_SENT], to[SM90_RECEIVED];
    const char *device = go_to(state);
    for (uint32_t i = 0; i < SM90_SENT; i++)
        from[i] = i * 3;
    char *text = sm90_source(SM90_CLUSTER, &any_shape);
    mlp_message why = {{0}};
    check_ran(sm90_run_cluster(device, text, from, to, &why), &why);
    for (uint32_t i = 0; i < 2 * SM90_SENT; i++)
        assert_int_equal(to[i], from[i % SM90_SENT]);
    const uint32_t *copied = to + (size_t)2 * SM90_SENT; /* each block has the other's words */
    for (uint32_t i = 0; i < 128; i++) {
        assert_int_equal(copied[i], 1000 + i);
        assert_int_equal(copied[SM90_ROUND + i], i);
    }
    free(text);
}

#define AT(test, place) cmocka_unit_test_prestate(test, &(place))

int main(void) {
    const struct CMUnitTest tests[] = {
        AT(test_ring, late),        AT(test_ring, real),           AT(test_small_ring, early),
        AT(test_small_ring, mixed), AT(test_fragments, late),      AT(test_fragments, mixed),
        AT(test_fragments, real),   AT(test_special_values, late), AT(test_special_values, real),
        AT(test_copies, late),      AT(test_copies, early),        AT(test_copies, mixed),
        AT(test_copies, real),      AT(test_cluster, late),        AT(test_cluster, early),
        AT(test_cluster, mixed),    AT(test_cluster, real),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
