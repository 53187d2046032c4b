/* Ladders: which machine code runs on which device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/device.h"

static void test_cuda_ladder(void **state) {
    (void)state;
    static const struct {
        int compute_capability;
        const char *names[3];
    } expected[] = {
        {35, {NULL}},
        {75, {NULL}},
        {80, {"sm_80", "compute_80"}},
        {86, {"compute_80"}},
        {87, {"sm_80", "compute_80"}},
        {88, {"compute_80"}},
        {89, {"compute_80"}},
        {90, {"sm_90a", "compute_80"}},
        {100, {"sm_100a", "compute_80"}},
        {101, {"compute_80"}},
        {103, {"sm_103a", "compute_80"}},
        {120, {"compute_80"}},
        {121, {"compute_80"}},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        char ladder[DEV_MAX_LADDER][32];
        size_t length = dev_cuda_ladder(expected[i].compute_capability, ladder);
        size_t wanted = 0;
        for (; wanted < 3 && expected[i].names[wanted]; wanted++)
            if (wanted < length)
                assert_string_equal(ladder[wanted], expected[i].names[wanted]);
        assert_int_equal(length, wanted);
    }
}

/* What the C compiler says of -march=native's level on this machine: a third party. -1: it does not say. */
static int compiler_level(void) {
    FILE *pipe = popen("echo | cc -march=native -dM -E - 2>/dev/null", "r");
    if (!pipe)
        return -1;
    static const char *const needed[] = {"SSE4_2", "AVX2", "AVX512VL"};
    bool have[3] = {false};
    int fma = 0, lines = 0;
    char line[512];
    while (fgets(line, sizeof line, pipe)) {
        lines++;
        for (int i = 0; i < 3; i++) {
            char macro[64];
            snprintf(macro, sizeof macro, "#define __%s__ 1", needed[i]);
            have[i] |= strncmp(line, macro, strlen(macro)) == 0;
        }
        fma += strncmp(line, "#define __FMA__ 1", 17) == 0;
    }
    if (pclose(pipe) != 0 || lines == 0)
        return -1;
    return !have[0] ? 1 : !have[1] || !fma ? 2 : !have[2] ? 3 : 4;
}

static void test_host_ladder(void **state) {
    (void)state;
    char ladder[DEV_MAX_LADDER][32];
    size_t length = dev_host_ladder(ladder);
    assert_true(length >= 1);
#if defined(__x86_64__)
    assert_string_equal(ladder[length - 1], "x86-64");
    int level = compiler_level();
    if (level < 0)
        skip();
    assert_int_equal(length, level);
    char best[32];
    snprintf(best, sizeof best, level > 1 ? "x86-64-v%d" : "x86-64", level);
    assert_string_equal(ladder[0], best);
#else
    (void)compiler_level;
    assert_string_equal(ladder[length - 1], "generic");
#endif
}

static void count_visits(void *user, const dev_info *info) {
    int *counts = user;
    counts[strcmp(info->id, "host") == 0]++;
    assert_true(info->ladder_length <= DEV_MAX_LADDER);
    assert_true(info->units > 0);
    assert_true(info->memory_bytes > 0);
    assert_true(info->name[0] != 0);
    assert_true(info->driver[0] != 0);
    if (info->ladder_length)
        assert_string_equal(info->arch, info->ladder[0]);
}

static void check_sentence(void *user, const char *sentence) {
    (void)user;
    assert_true(strlen(sentence) > 20);
    assert_null(strchr(sentence, '\n'));
}

static void test_list(void **state) {
    (void)state;
    int counts[2] = {0, 0};
    dev_list(count_visits, check_sentence, counts);
    assert_int_equal(counts[1], 1);
    int visited = counts[0];
    dev_list(count_visits, NULL, counts); /* notes may be left out */
    assert_int_equal(counts[0], 2 * visited);
}

static void test_open_specs(void **state) {
    (void)state;
    static const struct {
        const char *spec, *in_message;
    } wrong[] = {{"", "host"},          {"hots", "host"},       {"host ", "host"},
                 {"cuda", "cuda:0"},    {"cuda:", "cuda:0"},    {"cuda:-1", "cuda:0"},
                 {"cuda:0x", "cuda:0"}, {"cuda:99", "cuda:99"}, {"cuda:9999999999999999999", "cuda:"},
                 {"CUDA:0", "cuda:0"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        dev *device = (dev *)&device;
        mlp_message why = {""};
        assert_int_equal(dev_open(wrong[i].spec, &device, &why), MLPBWD_NO_DEVICE);
        assert_null(device);
        assert_non_null(strstr(why.text, wrong[i].in_message));
        assert_int_equal(dev_open(wrong[i].spec, &device, NULL), MLPBWD_NO_DEVICE);
    }
}

static void test_references(void **state) {
    (void)state;
    dev *device;
    dev_context *first, *second;
    assert_int_equal(dev_open("host", &device, NULL), MLPBWD_OK);
    const dev_info *info = dev_get_info(device);
    assert_string_equal(info->id, "host");
    assert_string_equal(info->backend, "host");
    assert_int_equal(info->compute_capability, 0);
    dev_retain(device);
    dev_release(device);
    assert_int_equal(dev_context_get(device, &first, NULL), MLPBWD_OK);
    assert_int_equal(dev_context_get(device, &second, NULL), MLPBWD_OK);
    assert_ptr_equal(first, second);
    bool pushed = true;
    assert_int_equal(dev_context_enter(first, &pushed, NULL), MLPBWD_OK);
    assert_false(pushed);
    dev_context_leave(first, pushed);
    dev_release(device); /* the contexts keep it */
    dev_context_release(first);
    assert_int_equal(dev_synchronize(second, NULL), MLPBWD_OK);
    dev_context_release(second);
    dev_release(NULL);
    dev_context_release(NULL);
    dev_module_unload(NULL);
}

static void test_describe(void **state) {
    (void)state;
    dev *device;
    dev_info info;
    assert_int_equal(dev_open("host", &device, NULL), MLPBWD_OK);
    dev_describe(device, &info);
    assert_string_equal(info.id, "host");
    assert_int_equal(info.units, dev_get_info(device)->units);
    char version[64];
    if (dev_compiler_version("cc", version, sizeof version, NULL) == MLPBWD_OK)
        assert_string_equal(info.compiler, version);
    else
        assert_string_equal(info.compiler, "");
    dev_release(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_ladder), cmocka_unit_test(test_host_ladder), cmocka_unit_test(test_list),
        cmocka_unit_test(test_open_specs),  cmocka_unit_test(test_references),  cmocka_unit_test(test_describe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
