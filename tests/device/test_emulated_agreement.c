/* The same kernels on the same inputs, emulated and on the GPU: both must be right by the contract, and closer to each
 * other than that, since they differ only in the order of sums, in hardware's rounding inside a product and in its
 * approximations of exp2 and 1/x. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_targets.h"

/* Frobenius norm of the difference over that of the value. The 16-bit classes round grad_intermediate to 11 (bf16: 8)
 * bits: where the two sides differ by 3e-7 before, a share of 3e-7 / 2^-12 (bf16: 2^-9) of the elements ends a unit
 * apart, which makes 1.2e-5 (3.5e-5) of the norm; four times that is allowed. fp32: hardware loses 6.5e-7 between two
 * promotions of its sums (hopper: measured), and both sides round their sums to float32. */
static const double limits[] = {
    [MLPBWD_ACCURACY_TF32] = 5e-5, [MLPBWD_ACCURACY_FP32] = 3e-6, [MLPBWD_ACCURACY_BF16] = 1.4e-4};

static const test_sizes sizes[] = {{65, 128, 192}, {200, 192, 640}};
enum { SIZES = sizeof sizes / sizeof *sizes };

typedef struct sides {
    harness *gpu;
    test_tally tally;
    double worst;
} sides;

static double difference(const float *a, const float *b, size_t count) {
    double apart = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        apart += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += (double)b[i] * b[i];
    }
    return norm > 0 ? sqrt(apart / norm) : sqrt(apart);
}

static void compare(sides *s, harness *emulated, const kernel_target *target, const char *plans[2],
                    const test_fixture *fixture) {
    const harness_case c = {.inputs = &fixture->inputs,
                            .reference = &fixture->reference,
                            .accuracy = target->target.accuracy,
                            .outputs = OUTPUT_ALL};
    char sentence[2560] = "";
    const char *name = kernel_target_name(emulated, target);
    if (!harness_check(emulated, plans[0], &c, sentence, sizeof sentence) ||
        !harness_check(s->gpu, plans[1], &c, sentence, sizeof sentence)) {
        test_tally_add(&s->tally, false, sentence, name);
        return;
    }
    for (int k = 0; k < OUT_COUNT; k++) {
        size_t count = (size_t)(fixture->reference.rows[k] * fixture->reference.columns[k]);
        double apart = difference(harness_output(emulated, k), harness_output(s->gpu, k), count);
        s->worst = fmax(s->worst, apart / limits[c.accuracy]);
        (void)snprintf(sentence, sizeof sentence, "%s: emulated and real differ by %.3g; the limit is %.3g",
                       reference64_output_name(k), apart, limits[c.accuracy]);
        test_tally_add(&s->tally, apart <= limits[c.accuracy], sentence, name);
    }
}

static void visit(void *user, harness *emulated, const kernel_target *target) {
    sides *s = user;
    if (!target->first) /* the GPU's lesser architectures run the same templates */
        return;
    harness *const both[] = {emulated, s->gpu};
    char *plans[2] = {NULL, NULL};
    mlp_message why = {{0}};
    bool built = true;
    for (int i = 0; i < 2; i++)
        if (harness_build(both[i], target->pipeline, &target->target, NULL, &plans[i], &why) != MLPBWD_OK) {
            test_tally_add(&s->tally, false, why.text, kernel_target_name(both[i], target));
            built = false;
        }
    double before = s->worst;
    s->worst = 0;
    for (int i = 0; i < SIZES && built; i++)
        compare(s, emulated, target, (const char *[]){plans[0], plans[1]},
                test_fixture_get(sizes[i], INPUT_NORMAL, i & 1));
    print_message("%s: at most %.2f of the limit apart\n", kernel_target_name(emulated, target), s->worst);
    s->worst = fmax(s->worst, before);
    free(plans[0]);
    free(plans[1]);
}

static void test_emulated_and_real_agree(void **state) {
    (void)state;
    mlp_message why = {{0}};
    sides s = {.gpu = harness_open("cuda:0", &why)};
    if (!s.gpu) {
        print_message("skipped: %s\n", why.text);
        skip();
    }
    char device[64];
    (void)snprintf(device, sizeof device, "emulated:%s", harness_device(s.gpu)->arch);
    harness *emulated = harness_open(device, &why);
    if (!emulated) {
        harness_close(s.gpu);
        print_message("skipped: %s\n", why.text);
        skip();
    }
    assert_true(each_kernel_target(emulated, visit, &s) > 0);
    harness_close(emulated);
    harness_close(s.gpu);
    print_message("%d comparisons, %d failures\n", s.tally.checks, s.tally.failures);
    assert_true(s.tally.checks > 0);
    assert_int_equal(s.tally.failures, 0);
}

static int free_fixtures(void **state) {
    (void)state;
    test_fixtures_free();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_emulated_and_real_agree)};
    return cmocka_run_group_tests(tests, NULL, free_fixtures);
}
