/* Every kernel of every template on emulated devices, against float64: each pipeline in each class with its default
 * parameters, then a sample of the variants. Any fault that the emulation finds fails the test with its report. Prints
 * how fast the emulation was, so that authors can size their tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "device/emulated/emulator.h"
#include "kernel_variants.h"

/* Small, and no multiple of any tile where the contract allows that: T has tails of 1 and 2 rows, H and I are one or
 * three 64-blocks. */
static const test_sizes one_token = {1, 64, 128}, tail = {65, 128, 192}, two_tiles = {130, 192, 128};

/* How a device is opened. One multiprocessor: every block of a persistent kernel has several tiles. */
typedef struct surroundings {
    const char *device, *units, *timing, *seed;
} surroundings;

static harness *open_or_skip(const surroundings *s) {
    const char *device = s->device;
    mlp_message why = {{0}};
    assert_int_equal(setenv("MLPBWD_EMULATED_UNITS", s->units, 1), 0);
    assert_int_equal(setenv("MLPBWD_EMULATED_TIMING", s->timing, 1), 0);
    assert_int_equal(setenv("MLPBWD_EMULATED_SEED", s->seed, 1), 0);
    harness *h = harness_open(device, &why);
    if (!h) {
        print_message("%s is skipped: %s\n", device, why.text);
        skip();
    }
    return h;
}

static void finish(harness *h, const test_tally *tally, int targets) {
    const emu_totals totals = emu_totals_so_far();
    print_message("%s: %d targets, %d checks, %d failures; so far %.3g multiply-adds of matrix operations in %llu "
                  "launches of %.1f s together\n",
                  harness_device(h)->id, targets, tally->checks, tally->failures, (double)totals.multiplies,
                  (unsigned long long)totals.launches, totals.seconds);
    harness_close(h);
    assert_true(targets > 0);
    assert_int_equal(tally->failures, 0);
}

/* What has run on the smallest architecture is not compiled again for a larger one. */
static char *seen[64];
static size_t seen_count;

static bool seen_before(const kernel_target *target) {
    /* bf16 differs from tf32 in types only: one way to scale and convert is enough there */
    if (target->target.accuracy == MLPBWD_ACCURACY_BF16 &&
        (strstr(target->pipeline, "_exact") || strstr(target->pipeline, "_overlap")))
        return true;
    char name[128];
    (void)snprintf(name, sizeof name, "%s %d", target->pipeline, target->target.accuracy);
    for (size_t i = 0; i < seen_count; i++)
        if (strcmp(seen[i], name) == 0)
            return true;
    assert_true(seen_count < sizeof seen / sizeof *seen);
    seen[seen_count] = test_alloc(strlen(name) + 1);
    memcpy(seen[seen_count++], name, strlen(name) + 1);
    return false;
}

static void check_defaults(void *user, harness *h, const kernel_target *target) {
    test_tally *tally = user;
    if (seen_before(target))
        return;
    char *plan = NULL;
    mlp_message why = {{0}};
    if (harness_build(h, target->pipeline, &target->target, NULL, &plan, &why) != MLPBWD_OK) {
        test_tally_add(tally, false, why.text, kernel_target_name(h, target));
        return;
    }
    check_case(h, target, plan, test_fixture_get(tail, INPUT_NORMAL, 0), false, OUTPUT_ALL, tally);
    check_case(h, target, plan, test_fixture_get(one_token, INPUT_NORMAL, 1), false, OUTPUT_ALL, tally);
    check_case(h, target, plan, test_fixture_get(two_tiles, INPUT_NORMAL, 1), true, OUTPUT_ALL, tally);
    check_case(h, target, plan, test_fixture_get(tail, INPUT_OUTLIERS, 1), false, OUTPUT_ALL, tally);
    free(plan);
}

/* Every pipeline comes with four cases; the first runs twice. */
static void test_defaults(void **state) {
    harness *h = open_or_skip(*state);
    harness_spare_runs(h);
    test_tally tally = {0};
    finish(h, &tally, each_kernel_target(h, check_defaults, &tally));
}

static void test_variants(void **state) {
    harness *h = open_or_skip(*state);
    const variant_sample sample = {
        .shapes = {tail, {-1, 0, 0}, {-1, 0, 0}, two_tiles}, .wanted = 2, .lesser = false, .limit_seconds = 6};
    test_tally tally = {0};
    int targets = check_variants(h, &sample, &tally);
    finish(h, &tally, targets);
}

static int free_all(void **state) {
    (void)state;
    test_fixtures_free();
    while (seen_count > 0)
        free(seen[--seen_count]);
    return 0;
}

int main(void) {
    static surroundings ampere = {"emulated:sm_80", "4", "late", "0"}, hopper = {"emulated:sm_90a", "1", "late", "0"},
                        blackwell = {"emulated:sm_100a", "2", "late", "0"},
                        hopper_mixed = {"emulated:sm_90a", "2", "mixed", "11"},
                        blackwell_mixed = {"emulated:sm_100a", "4", "mixed", "12"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_defaults, &ampere),
        cmocka_unit_test_prestate(test_defaults, &hopper),
        cmocka_unit_test_prestate(test_defaults, &blackwell),
        cmocka_unit_test_prestate(test_variants, &hopper_mixed),
        cmocka_unit_test_prestate(test_variants, &blackwell_mixed),
    };
    return cmocka_run_group_tests(tests, NULL, free_all);
}
