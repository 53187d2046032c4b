/* The float64 reference of the tests against third parties: OpenBLAS in float64 and numerical differentiation. */
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mlpbwd.h"
#include "reference64.h"
#include "tolerance.h"

static double *widen(const float *values, int64_t count) {
    double *wide = test_alloc(sizeof(double) * (size_t)count);
    for (int64_t i = 0; i < count; i++)
        wide[i] = (double)values[i];
    return wide;
}

static double *zeros(int64_t count) {
    return test_alloc(sizeof(double) * (size_t)count);
}

/* Opened at run time, so that the tests build where libopenblas-dev is missing. Values as in its cblas.h. */
enum { ROW_MAJOR = 101, NOT_TRANSPOSED = 111, TRANSPOSED = 112 };
typedef void (*dgemm_function)(int order, int a_transposed, int b_transposed, int rows, int columns, int depth,
                               double alpha, const double *a, int a_stride, const double *b, int b_stride, double beta,
                               double *c, int c_stride);

static dgemm_function dgemm;

static void gemm(int a_transposed, int64_t rows, int64_t columns, int64_t depth, const double *a, const double *b,
                 double *c) {
    dgemm(ROW_MAJOR, a_transposed, NOT_TRANSPOSED, (int)rows, (int)columns, (int)depth, 1.0, a,
          (int)(a_transposed == TRANSPOSED ? rows : depth), b, (int)columns, 0.0, c, (int)columns);
}

static void assert_close(const char *name, const double *values, const double *expected, int64_t count) {
    double error = 0.0, norm = 0.0;
    for (int64_t i = 0; i < count; i++) {
        error += (values[i] - expected[i]) * (values[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    if (!(error <= 1e-24 * norm))
        fail_msg("%s differs from OpenBLAS by %.3g relative", name, sqrt(error / norm));
}

static void test_against_openblas(void **state) {
    (void)state;
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "cblas_dgemm") : NULL;
    if (!symbol) {
        print_message("libopenblas.so.0 was not found: install libopenblas0 (Debian) to compare with it.\n");
        skip();
    }
    memcpy(&dgemm, &symbol, sizeof dgemm);
    const test_sizes sizes = {70, 64, 128};
    const int64_t t = sizes.tokens, h = sizes.hidden, i = sizes.intermediate;
    for (int activation = 0; activation < 2; activation++) {
        test_inputs in;
        reference64 r;
        test_inputs_make(&in, sizes, INPUT_NORMAL, 11);
        reference64_make(&r, &in, activation);
        double *x[IN_COUNT];
        for (int k = 0; k < IN_COUNT; k++)
            x[k] = widen(in.tensor[k], in.count[k]);
        double *gradient = zeros(t * i), *grad_hidden = zeros(t * h), *grad_weight1 = zeros(i * h);
        double *grad_weight2 = zeros(h * i), *ones = zeros(t), *bias1 = zeros(i), *bias2 = zeros(h);
        for (int64_t n = 0; n < t; n++)
            ones[n] = 1.0;
        gemm(NOT_TRANSPOSED, t, i, h, x[IN_GRAD_OUTPUT], x[IN_WEIGHT2], gradient);
        for (int64_t n = 0; n < t * i; n++) /* fourth-order central differences of libm's tanh and erf */ {
            double at = x[IN_INTERMEDIATE][n], step = 1e-3;
            double slope =
                (8.0 * (reference64_gelu(at + step, activation) - reference64_gelu(at - step, activation)) -
                 (reference64_gelu(at + 2 * step, activation) - reference64_gelu(at - 2 * step, activation))) /
                (12.0 * step);
            assert_true(fabs(slope - reference64_dgelu(at, activation)) < 1e-10);
            gradient[n] *= reference64_dgelu(at, activation);
        }
        gemm(NOT_TRANSPOSED, t, h, i, gradient, x[IN_WEIGHT1], grad_hidden);
        gemm(TRANSPOSED, i, h, t, gradient, x[IN_HIDDEN], grad_weight1);
        gemm(TRANSPOSED, h, i, t, x[IN_GRAD_OUTPUT], x[IN_ACTIVATED], grad_weight2);
        gemm(NOT_TRANSPOSED, 1, i, t, ones, gradient, bias1);
        gemm(NOT_TRANSPOSED, 1, h, t, ones, x[IN_GRAD_OUTPUT], bias2);
        assert_close("grad_hidden_states", r.output[OUT_GRAD_HIDDEN], grad_hidden, t * h);
        assert_close("grad_weight1", r.output[OUT_GRAD_WEIGHT1], grad_weight1, i * h);
        assert_close("grad_weight2", r.output[OUT_GRAD_WEIGHT2], grad_weight2, h * i);
        assert_close("grad_bias1", r.output[OUT_GRAD_BIAS1], bias1, i);
        assert_close("grad_bias2", r.output[OUT_GRAD_BIAS2], bias2, h);
        double *owned[] = {gradient, grad_hidden, grad_weight1, grad_weight2, ones, bias1, bias2};
        for (size_t k = 0; k < sizeof owned / sizeof *owned; k++)
            free(owned[k]);
        for (int k = 0; k < IN_COUNT; k++)
            free(x[k]);
        reference64_free(&r);
        test_inputs_free(&in);
    }
}

/* ---- numerical differentiation of the whole block ---- */

typedef struct block {
    int64_t t, h, i;
    int activation;
    double *hidden, *weight1, *bias1, *weight2, *bias2, *seed; /* loss = sum(seed * output) */
} block;

/* Forward as the header states it; intermediate and intermediate_activated are stored where not NULL. */
static double loss(const block *b, double *intermediate, double *activated) {
    double total = 0.0;
    double *act = zeros(b->i);
    for (int64_t t = 0; t < b->t; t++) {
        for (int64_t i = 0; i < b->i; i++) {
            double sum = b->bias1[i];
            for (int64_t h = 0; h < b->h; h++)
                sum += b->hidden[t * b->h + h] * b->weight1[i * b->h + h];
            act[i] = reference64_gelu(sum, b->activation);
            if (intermediate) {
                intermediate[t * b->i + i] = sum;
                activated[t * b->i + i] = act[i];
            }
        }
        for (int64_t h = 0; h < b->h; h++) {
            double sum = b->bias2[h];
            for (int64_t i = 0; i < b->i; i++)
                sum += act[i] * b->weight2[h * b->i + i];
            total += b->seed[t * b->h + h] * sum;
        }
    }
    free(act);
    return total;
}

static double slope_at(const block *b, double *parameter) {
    const double step = 1e-4, at = *parameter;
    *parameter = at + step;
    double up = loss(b, NULL, NULL);
    *parameter = at - step;
    double down = loss(b, NULL, NULL);
    *parameter = at;
    return (up - down) / (2.0 * step);
}

static void assert_gradient(const block *b, const char *name, double *parameter, const double *gradient,
                            int64_t count) {
    for (int64_t n = 0; n < count; n += 13) { /* every 13th element: odd, so that every row and column is met */
        double slope = slope_at(b, &parameter[n]);
        if (!(fabs(slope - gradient[n]) <= 2e-6 * (1.0 + fabs(slope))))
            fail_msg("%s[%lld] is %.9g, the slope of the loss %.9g", name, (long long)n, gradient[n], slope);
    }
}

static void test_against_differences(void **state) {
    (void)state;
    const test_sizes sizes = {3, 64, 64};
    for (int activation = 0; activation < 2; activation++) {
        test_inputs in;
        test_inputs_make(&in, sizes, INPUT_NORMAL, 5);
        uint64_t random = 99;
        block b = {.t = sizes.tokens, .h = sizes.hidden, .i = sizes.intermediate, .activation = activation};
        b.hidden = widen(in.tensor[IN_HIDDEN], b.t * b.h);
        b.weight1 = widen(in.tensor[IN_WEIGHT1], b.i * b.h);
        b.weight2 = widen(in.tensor[IN_WEIGHT2], b.h * b.i);
        b.seed = widen(in.tensor[IN_GRAD_OUTPUT], b.t * b.h);
        b.bias1 = zeros(b.i);
        b.bias2 = zeros(b.h);
        for (int64_t n = 0; n < b.i; n++)
            b.bias1[n] = test_normal(&random);
        double *intermediate = zeros(b.t * b.i), *activated = zeros(b.t * b.i);
        assert_true(isfinite(loss(&b, intermediate, activated)));
        for (int64_t n = 0; n < b.t * b.i; n++) { /* rounded to float32: 1e-7 beside the tolerance of 2e-6 */
            in.tensor[IN_INTERMEDIATE][n] = (float)intermediate[n];
            in.tensor[IN_ACTIVATED][n] = (float)activated[n];
        }
        reference64 r;
        reference64_make(&r, &in, activation);
        assert_gradient(&b, "grad_hidden_states", b.hidden, r.output[OUT_GRAD_HIDDEN], b.t * b.h);
        assert_gradient(&b, "grad_weight1", b.weight1, r.output[OUT_GRAD_WEIGHT1], b.i * b.h);
        assert_gradient(&b, "grad_bias1", b.bias1, r.output[OUT_GRAD_BIAS1], b.i);
        assert_gradient(&b, "grad_weight2", b.weight2, r.output[OUT_GRAD_WEIGHT2], b.h * b.i);
        assert_gradient(&b, "grad_bias2", b.bias2, r.output[OUT_GRAD_BIAS2], b.h);
        double *owned[] = {b.hidden, b.weight1, b.weight2, b.seed, b.bias1, b.bias2, intermediate, activated};
        for (size_t k = 0; k < sizeof owned / sizeof *owned; k++)
            free(owned[k]);
        reference64_free(&r);
        test_inputs_free(&in);
    }
}

/* Values of gelu' to 17 digits, computed with mpmath at 40 digits. */
static void test_gelu_derivative(void **state) {
    (void)state;
    static const struct {
        double x, tanh_form, erf_form;
    } known[] = {
        {0.0, 0.5, 0.5},
        {1.0, 1.0829640838457826, 1.0833154705876863},
        {-1.0, -0.082964083845782555, -0.083315470587686298},
        {-0.75, 0.0010617438625857023, 0.00077427826076489563},
        {2.5, 1.0379515762126662, 1.0376110859081452},
        {-3.0, -0.011584166630969726, -0.011945647204183927},
        {-5.5, -4.6765528108074153e-8, -5.7334723987399248e-7},
        {6.0, 1.0000000007709974, 1.0000000354687095},
        {-9.0, -2.5157352850674252e-27, -9.1389373739066393e-18},
    };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        double t = reference64_dgelu(known[k].x, MLPBWD_GELU_TANH), e = reference64_dgelu(known[k].x, MLPBWD_GELU_ERF);
        assert_true(fabs(t - known[k].tanh_form) <= 1e-12 * fabs(known[k].tanh_form));
        assert_true(fabs(e - known[k].erf_form) <= 1e-12 * fabs(known[k].erf_form));
    }
    for (int activation = 0; activation < 2; activation++) {
        assert_true(reference64_dgelu(3e38, activation) == 1.0);
        assert_true(reference64_dgelu(-3e38, activation) == 0.0);
        assert_false(isfinite(reference64_dgelu(INFINITY, activation)));
        assert_false(isfinite(reference64_dgelu(-INFINITY, activation)));
        assert_false(isfinite(reference64_dgelu(NAN, activation)));
    }
}

/* ---- the checks themselves: right values pass, each kind of wrong value is named ---- */

typedef struct checked {
    test_inputs in;
    reference64 reference;
    float *values[OUT_COUNT];
    char sentence[256];
} checked;

static int set_up(void **state) {
    checked *c = test_alloc(sizeof *c);
    test_inputs_make(&c->in, (test_sizes){5, 64, 128}, INPUT_ZERO_ROWS, 3);
    reference64_make(&c->reference, &c->in, MLPBWD_GELU_TANH);
    for (int k = 0; k < OUT_COUNT; k++) {
        int64_t count = c->reference.rows[k] * c->reference.columns[k];
        c->values[k] = test_alloc(sizeof(float) * (size_t)count);
        for (int64_t n = 0; n < count; n++)
            c->values[k][n] = (float)c->reference.output[k][n];
    }
    *state = c;
    return 0;
}

static int tear_down(void **state) {
    checked *c = *state;
    for (int k = 0; k < OUT_COUNT; k++)
        free(c->values[k]);
    reference64_free(&c->reference);
    test_inputs_free(&c->in);
    free(c);
    return 0;
}

static bool passes(checked *c, int output, const float *old) {
    return tolerance_check(&c->reference, MLPBWD_ACCURACY_FP32, output, c->values[output], old, NULL, c->sentence,
                           sizeof c->sentence);
}

static void test_rounded_reference_passes(void **state) {
    checked *c = *state;
    for (int k = 0; k < OUT_COUNT; k++)
        if (!passes(c, k, NULL))
            fail_msg("%s", c->sentence);
}

static void test_single_errors_are_named(void **state) {
    checked *c = *state;
    for (int k = 0; k < OUT_COUNT; k++) {
        int64_t last = c->reference.rows[k] * c->reference.columns[k] - 1;
        while (c->reference.output[k][last] == 0.0)
            last--;
        float right = c->values[k][last];
        c->values[k][last] = right + 0.1F;
        assert_false(passes(c, k, NULL));
        assert_non_null(strstr(c->sentence, reference64_output_name(k)));
        c->values[k][last] = NAN;
        assert_false(passes(c, k, NULL));
        assert_non_null(strstr(c->sentence, reference64_output_name(k)));
        c->values[k][last] = right;
    }
}

/* An error of one small row that the whole tensor's norm hides. */
static void test_small_row_is_seen(void **state) {
    checked *c = *state;
    int64_t columns = c->reference.columns[OUT_GRAD_HIDDEN];
    for (int64_t j = 0; j < columns; j++) { /* small because its factors are, not because they cancel */
        c->reference.output[OUT_GRAD_HIDDEN][j] *= 1e-9;
        c->reference.scale[OUT_GRAD_HIDDEN][j] *= 1e-9;
    }
    for (int64_t j = 0; j < columns; j++)
        c->values[OUT_GRAD_HIDDEN][j] = (float)(c->reference.output[OUT_GRAD_HIDDEN][j] * 1.001);
    assert_false(passes(c, OUT_GRAD_HIDDEN, NULL));
    assert_non_null(strstr(c->sentence, "row 0"));
}

static void test_zero_factor_must_give_zero(void **state) {
    checked *c = *state;
    int64_t column = c->in.sizes.hidden / 2; /* zero column of weight1 */
    assert_true(c->reference.output[OUT_GRAD_HIDDEN][column] == 0.0);
    c->values[OUT_GRAD_HIDDEN][column] = 1e-30F;
    assert_false(passes(c, OUT_GRAD_HIDDEN, NULL));
    assert_non_null(strstr(c->sentence, "exact"));
}

static void test_accumulated_values(void **state) {
    checked *c = *state;
    for (int k = 1; k < OUT_COUNT; k++) {
        int64_t count = c->reference.rows[k] * c->reference.columns[k];
        float *old = test_alloc(sizeof(float) * (size_t)count);
        for (int64_t n = 0; n < count; n++) {
            old[n] = (float)(n % 7) - 3.0F;
            c->values[k][n] = (float)((double)old[n] + c->reference.output[k][n]);
        }
        if (!passes(c, k, old))
            fail_msg("%s", c->sentence);
        for (int64_t n = 0; n < count; n++)
            c->values[k][n] -= old[n];
        assert_false(passes(c, k, old)); /* forgot to add */
        free(old);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_openblas),
        cmocka_unit_test(test_against_differences),
        cmocka_unit_test(test_gelu_derivative),
        cmocka_unit_test_setup_teardown(test_rounded_reference_passes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_single_errors_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_small_row_is_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_zero_factor_must_give_zero, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_accumulated_values, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
