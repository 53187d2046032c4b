/* Every kernel of every pipeline against float64, on every device that opens. Two passes: defaults on many shapes, then
 * a fixed sample of the other variants (all of them with MLPBWD_TEST_VARIANTS=all) on four shapes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "kernel_variants.h"

static const test_sizes wide = {0, 128, 192}, tall = {0, 192, 128};
static const test_sizes several_tiles = {300, 320, 1152}; /* in every direction, whatever the tile */

static test_sizes with_tokens(test_sizes sizes, int64_t tokens) {
    sizes.tokens = tokens;
    return sizes;
}

static double seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static harness *open_or_skip(const char *device) {
    mlp_message why = {{0}};
    harness *h = harness_open(device, &why);
    if (!h) {
        print_message("%s is skipped: %s\n", device, why.text);
        skip();
    }
    return h;
}

static void finish(harness *h, const test_tally *tally, int targets) {
    harness_close(h);
    print_message("%d targets, %d checks, %d failures\n", targets, tally->checks, tally->failures);
    assert_true(targets > 0);
    assert_int_equal(tally->failures, 0);
}

static char *build(harness *h, const kernel_target *target, const json_t *selection, test_tally *tally) {
    char *plan = NULL;
    mlp_message why = {{0}};
    if (harness_build(h, target->pipeline, &target->target, selection, &plan, &why) != MLPBWD_OK)
        test_tally_add(tally, false, why.text, kernel_target_name(h, target));
    return plan;
}

/* ---- default parameters, many shapes ---- */

static void check_defaults(void *user, harness *h, const kernel_target *target) {
    static const int64_t tokens[] = {0, 1, 2, 7, 63, 64, 65, 256, 541};
    test_tally *tally = user;
    double start = seconds();
    int before = tally->failures;
    char *plan = build(h, target, NULL, tally);
    for (size_t i = 0; plan && i < sizeof tokens / sizeof *tokens; i++) {
        int64_t t = tokens[i];
        bool chosen = t == 0 || t == 65 || t == 541;
        for (int activation = 0; activation < 2; activation++) {
            /* lesser architectures run the same templates: the shapes with the most edges are enough there */
            if (target->first || chosen)
                check_case(h, target, plan, test_fixture_get(with_tokens(wide, t), INPUT_NORMAL, activation), false,
                           OUTPUT_ALL, tally);
            if (chosen)
                check_case(h, target, plan, test_fixture_get(with_tokens(wide, t), INPUT_NORMAL, activation), true,
                           OUTPUT_ALL, tally);
            if (target->first && chosen)
                check_case(h, target, plan, test_fixture_get(with_tokens(tall, t), INPUT_NORMAL, activation), false,
                           OUTPUT_ALL, tally);
        }
    }
    if (plan && target->first)
        check_case(h, target, plan, test_fixture_get(several_tiles, INPUT_NORMAL, 0), false, OUTPUT_ALL, tally);
    free(plan);
    print_message("%s: defaults %s, %.1f s\n", kernel_target_name(h, target),
                  tally->failures > before ? "FAILED" : "ok", seconds() - start);
}

static void test_defaults(void **state) {
    harness *h = open_or_skip(*state);
    test_tally tally = {0};
    finish(h, &tally, each_kernel_target(h, check_defaults, &tally));
}

/* ---- any subset of the outputs ---- */

static void check_outputs(void *user, harness *h, const kernel_target *target) {
    test_tally *tally = user;
    if (!target->first)
        return;
    char *plan = build(h, target, NULL, tally);
    for (unsigned outputs = 0; plan && outputs <= OUTPUT_ALL; outputs++)
        check_case(h, target, plan, test_fixture_get(with_tokens(wide, 65), INPUT_NORMAL, outputs & 1),
                   outputs >> 1 & 1, outputs, tally);
    free(plan);
}

static void test_subsets_of_outputs(void **state) {
    harness *h = open_or_skip(*state);
    test_tally tally = {0};
    finish(h, &tally, each_kernel_target(h, check_outputs, &tally));
}

/* ---- other variants ---- */

static void test_variants(void **state) {
    harness *h = open_or_skip(*state);
    const variant_sample sample = {
        .shapes = {with_tokens(tall, 65), with_tokens(wide, 541), with_tokens(wide, 2), several_tiles},
        .wanted = 4,
        .lesser = true,
        .limit_seconds = 90};
    test_tally tally = {0};
    int targets = check_variants(h, &sample, &tally);
    finish(h, &tally, targets);
}

static int free_fixtures(void **state) {
    (void)state;
    test_fixtures_free();
    return 0;
}

int main(void) {
    static char host[] = "host", cuda[] = "cuda:0";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_defaults, host),
        cmocka_unit_test_prestate(test_subsets_of_outputs, host),
        cmocka_unit_test_prestate(test_variants, host),
        cmocka_unit_test_prestate(test_defaults, cuda),
        cmocka_unit_test_prestate(test_subsets_of_outputs, cuda),
        cmocka_unit_test_prestate(test_variants, cuda),
    };
    return cmocka_run_group_tests(tests, NULL, free_fixtures);
}
