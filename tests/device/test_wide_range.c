/* The inputs of design section 3 that are not the suite's: tiny and huge values, outliers, zero factors, Inf and NaN,
 * on every device that opens, in every class and pipeline with default parameters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernel_targets.h"

static void check_kinds(void *user, harness *h, const kernel_target *target) {
    test_tally *tally = user;
    char *plan = NULL;
    mlp_message why = {{0}};
    int before = tally->failures;
    if (harness_build(h, target->pipeline, &target->target, NULL, &plan, &why) != MLPBWD_OK)
        test_tally_add(tally, false, why.text, kernel_target_name(h, target));
    for (int kind = INPUT_NORMAL + 1; plan && kind < INPUT_KINDS; kind++)
        for (int activation = 0; activation < 2; activation++) {
            const test_sizes sizes = {kind == INPUT_POSITIVE ? 541 : 65, 128, 192};
            check_case(h, target, plan, test_fixture_get(sizes, (test_input_kind)kind, activation), false, OUTPUT_ALL,
                       tally);
        }
    /* what is not wanted must not bring a NaN into what is: the biases alone beside non-finite operands of the rest */
    if (plan)
        check_case(h, target, plan, test_fixture_get((test_sizes){65, 128, 192}, INPUT_INFINITE_ACTIVATION, 0), true,
                   OUTPUT_GRAD_BIAS1 | OUTPUT_GRAD_BIAS2 | OUTPUT_GRAD_HIDDEN_STATES, tally);
    free(plan);
    print_message("%s: %s\n", kernel_target_name(h, target), tally->failures > before ? "FAILED" : "ok");
}

static void test_wide_range(void **state) {
    mlp_message why = {{0}};
    harness *h = harness_open(*state, &why);
    if (!h) {
        print_message("%s is skipped: %s\n", (const char *)*state, why.text);
        skip();
    }
    test_tally tally = {0};
    int targets = each_kernel_target(h, check_kinds, &tally);
    harness_close(h);
    print_message("%d targets, %d checks, %d failures\n", targets, tally.checks, tally.failures);
    assert_true(targets > 0);
    assert_int_equal(tally.failures, 0);
}

static int free_fixtures(void **state) {
    (void)state;
    test_fixtures_free();
    return 0;
}

int main(void) {
    static char host[] = "host", cuda[] = "cuda:0";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_wide_range, host),
        cmocka_unit_test_prestate(test_wide_range, cuda),
    };
    return cmocka_run_group_tests(tests, NULL, free_fixtures);
}
