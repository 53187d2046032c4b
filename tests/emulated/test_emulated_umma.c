/* Variants of the tcgen05 GEMMs that a sample might miss, on an emulated B200 so small that every block or pair has
 * several tiles: one block and a pair a tile, fixed work and cluster launch control, both ways results leave, parts of
 * K, one and two writing warpgroups, sums promoted seldom. Each with its own timing of the operations in flight. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernel_variants.h"

#define DEVICE "emulated:sm_100a"

static const test_sizes sizes = {300, 128, 320}; /* tails in T, and in I for tiles of 128 columns and more */

typedef struct variant {
    const char *kernel, *pipeline, *timing, *seed;
    int accuracy;
    const char *every, *others; /* parameters of all four products; of those without gelu', too */
} variant;

static const variant variants[] = {
    {"umma_gemm", "umma_exact", "late", "0", MLPBWD_ACCURACY_TF32, "'schedule':'stealing','stages':3",
     "'store':'bulk','writers':1,'slice':32,'split_k':2"},
    {"umma_gemm", "umma_exact", "mixed", "5", MLPBWD_ACCURACY_BF16,
     "'pair':false,'tile_n':64,'stages':4,'writers':1,'slice':64,'schedule':'stealing'", "'split_k':8"},
    {"umma_gemm", "umma_overlap", "early", "3", MLPBWD_ACCURACY_TF32,
     "'pair':false,'tile_n':192,'stages':4,'writers':2,'slice':32,'group_m':1", "'store':'bulk','stages':3"},
    {"umma_split_gemm", "umma_split_exact", "mixed", "2", MLPBWD_ACCURACY_FP32,
     "'schedule':'stealing','promoted':2,'stages':5", "'split_k':2"},
    {"umma_split_gemm", "umma_split_overlap", "late", "0", MLPBWD_ACCURACY_FP32, "'pair':false,'promoted':4,'stages':4",
     NULL},
};

static json_t *parameters(const variant *v, bool gelu) {
    char text[512];
    (void)snprintf(text, sizeof text, "{'kernel':'%s',%s%s%s}", v->kernel, v->every, gelu || !v->others ? "" : ",",
                   gelu || !v->others ? "" : v->others);
    for (char *at = text; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    json_t *object = json_loads(text, 0, NULL); /* of two equal names the last counts */
    assert_non_null(object);
    return object;
}

static void test_variant(void **state) {
    const variant *v = *state;
    assert_int_equal(setenv("MLPBWD_EMULATED_UNITS", "2", 1), 0);
    assert_int_equal(setenv("MLPBWD_EMULATED_TIMING", v->timing, 1), 0);
    assert_int_equal(setenv("MLPBWD_EMULATED_SEED", v->seed, 1), 0);
    mlp_message why = {{0}};
    harness *h = harness_open(DEVICE, &why);
    if (!h) {
        print_message(DEVICE " is skipped: %s\n", why.text);
        skip();
    }
    const kernel_target target = {{"sm_100a", v->accuracy}, v->pipeline, true};
    json_t *selection = json_object();
    json_object_set_new(selection, "fc2_dgrad", parameters(v, true));
    json_object_set_new(selection, "fc2_wgrad", parameters(v, false));
    json_object_set_new(selection, "fc1_dgrad", parameters(v, false));
    json_object_set_new(selection, "fc1_wgrad", parameters(v, false));
    char *plan = NULL;
    if (harness_build(h, v->pipeline, &target.target, selection, &plan, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    test_tally tally = {0};
    const int form = (int)((v - variants) % 2);
    check_case(h, &target, plan, test_fixture_get(sizes, INPUT_NORMAL, form), form == 0, OUTPUT_ALL, &tally);
    free(plan);
    json_decref(selection);
    harness_close(h);
    assert_int_equal(tally.failures, 0);
}

static int free_fixtures(void **state) {
    (void)state;
    test_fixtures_free();
    return 0;
}

int main(void) {
    enum { COUNT = sizeof variants / sizeof *variants };
    struct CMUnitTest tests[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        tests[i] = (struct CMUnitTest){"tcgen05 variant", test_variant, NULL, NULL, (void *)&variants[i]};
    return cmocka_run_group_tests_name("tcgen05 GEMMs, emulated", tests, NULL, free_fixtures);
}
