/* The backend of emulated devices: which devices there are and what their environment variables say, compiling, loading
 * and launching, memory, and what each refuses, in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "emulated_kernel.h"
#include "generator.h"

static const char device_name[] = "emulated:sm_90a";

/* ---- opening ---- */

static void test_specs(void **state) {
    (void)state;
    static const struct {
        const char *spec, *arch;
        int capability;
        int64_t shared_bytes;
    } right[] = {{"emulated:sm_80", "sm_80", 80, 166912},
                 {"emulated:compute_80", "compute_80", 80, 101376},
                 {"emulated:sm_90a", "sm_90a", 90, 232448},
                 {"emulated:sm_100a", "sm_100a", 100, 232448},
                 {"emulated:sm_103a", "sm_103a", 103, 232448}};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        dev *device;
        mlp_message why = {"text of an earlier failure"};
        assert_int_equal(dev_open(right[i].spec, &device, &why), MLPBWD_OK);
        assert_string_equal(why.text, "");
        const dev_info *info = dev_get_info(device);
        assert_string_equal(info->id, right[i].spec);
        assert_string_equal(info->backend, "emulated");
        assert_string_equal(info->arch, right[i].arch);
        assert_string_equal(info->ladder[0], right[i].arch);
        assert_string_equal(info->ladder[info->ladder_length - 1], "compute_80");
        assert_int_equal(info->compute_capability, right[i].capability);
        assert_int_equal(info->shared_bytes_per_block, right[i].shared_bytes);
        assert_int_equal(info->units, 4);
        assert_true(info->synchronous);
        assert_true(info->timeless);
        assert_true(info->memory_bytes > 0);
        dev_release(device);
    }
    static const char *const wrong[] = {"emulated", "emulated:", "emulated:sm_90", "emulated:SM_90a",
                                        "emulated:x86-64"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        dev *device;
        mlp_message why = {""};
        assert_int_equal(dev_open(wrong[i], &device, &why), MLPBWD_NO_DEVICE);
        assert_non_null(strstr(why.text, wrong[i]));
        assert_non_null(strstr(why.text, "emulated:sm_100a"));
    }
}

/* What the templates say of an architecture and what runtime/device/arch.c says must be the same. */
static void test_limits_are_the_templates(void **state) {
    (void)state;
    const char *const folders[] = {SOURCE_DIR "/templates"};
    gen *generator;
    mlp_message why = {""};
    assert_int_equal(gen_open(folders, 1, NULL, &generator, &why), MLPBWD_OK);
    json_t *archs = gen_describe_archs(generator), *arch;
    const char *name;
    int seen = 0;
    json_object_foreach(archs, name, arch) {
        char ladder[DEV_MAX_LADDER][32];
        int capability;
        int64_t shared_bytes;
        if (strcmp(json_string_value(json_object_get(arch, "compiler")), "nvrtc") != 0)
            continue;
        assert_true(dev_architecture_ladder(name, ladder, &capability, &shared_bytes) > 0);
        assert_int_equal(capability, json_integer_value(json_object_get(arch, "compute_capability")));
        assert_int_equal(shared_bytes,
                         json_integer_value(json_object_get(json_object_get(arch, "limits"), "shared_bytes")));
        seen++;
    }
    assert_true(seen >= 5);
    json_decref(archs);
    gen_close(generator);
}

static void see_device(void *user, const dev_info *info) {
    (void)user;
    assert_string_not_equal(info->backend, "emulated");
}

static void see_note(void *user, const char *sentence) {
    *(int *)user += strstr(sentence, device_name) != NULL;
}

static void test_only_when_named(void **state) {
    (void)state;
    dev *device;
    assert_int_equal(dev_open(NULL, &device, NULL), MLPBWD_OK);
    assert_string_not_equal(dev_get_info(device)->backend, "emulated");
    dev_release(device);
    int notes = 0;
    dev_list(see_device, see_note, &notes);
    assert_int_equal(notes, 1);
}

static void test_environment(void **state) {
    (void)state;
    static const struct {
        const char *variable, *value, *in_message;
    } wrong[] = {{"MLPBWD_EMULATED_SEED", "-1", "18446744073709551615"},
                 {"MLPBWD_EMULATED_SEED", "1x", "\"1x\""},
                 {"MLPBWD_EMULATED_SEED", "99999999999999999999", "99999999999999999999"},
                 {"MLPBWD_EMULATED_TIMING", "soon", "\"late\", \"early\" or \"mixed\""},
                 {"MLPBWD_EMULATED_UNITS", "0", "from 1 to"},
                 {"MLPBWD_EMULATED_UNITS", " 4", "\" 4\""}};
    dev *device;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        mlp_message why = {""};
        assert_int_equal(setenv(wrong[i].variable, wrong[i].value, 1), 0);
        assert_int_equal(dev_open(device_name, &device, &why), MLPBWD_INVALID_ARGUMENT);
        assert_non_null(strstr(why.text, wrong[i].variable));
        assert_non_null(strstr(why.text, wrong[i].in_message));
        assert_int_equal(unsetenv(wrong[i].variable), 0);
    }
    assert_int_equal(setenv("MLPBWD_EMULATED_UNITS", "7", 1), 0);
    assert_int_equal(setenv("MLPBWD_EMULATED_SEED", "", 1), 0);
    assert_int_equal(dev_open(device_name, &device, NULL), MLPBWD_OK);
    assert_int_equal(dev_get_info(device)->units, 7);
    dev_release(device);
    assert_int_equal(unsetenv("MLPBWD_EMULATED_UNITS"), 0);
    assert_int_equal(unsetenv("MLPBWD_EMULATED_SEED"), 0);
}

/* ---- kernels ---- */

/* Written as CUDA code is: what is between the comments must not be taken for an entry. */
static const char text[] =
    "/* extern \"C\" __global__ void in_a_comment(int *x) */ // __global__ void nor_here()\n"
    "struct Pair {\n"
    "    int first;\n"
    "    double second;\n"
    "};\n"
    "constexpr int THREADS = 64;\n"
    "extern __shared__ __align__(1024) unsigned char shared_memory[];\n"
    "const char *unused = \"__global__ void in_a_text(int)\";\n"
    "extern \"C\" __global__ void declared_first(int *out);\n"
    "extern \"C\" __global__ void __launch_bounds__(THREADS, 1) all_kinds(unsigned char *out, signed char a, short b,\n"
    "                                                                    int c, long long d, float e, double f,\n"
    "                                                                    Pair g, const __grid_constant__ Pair h,\n"
    "                                                                    bool i) {\n"
    "    if (threadIdx.x || blockIdx.x)\n"
    "        return;\n"
    "    double sum = (double)a + b + c + d + e + f + g.first + g.second + h.first + h.second + i;\n"
    "    *(double *)out = sum;\n"
    "}\n"
    "extern \"C\" __global__ void declared_first(int *out) {\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    out[i] = (threadIdx.z * blockDim.y + threadIdx.y) * 1000 + gridDim.x * 10 + i;\n"
    "}\n"
    "extern \"C\" __global__ void no_arguments() {\n"
    "}\n"
    "extern \"C\" __global__ void __cluster_dims__(2, 1, 1) pairs(int *out) {\n"
    "    out[blockIdx.x] = cluster_rank();\n"
    "}\n"
    "extern \"C\" __global__ void misaligned(const float *in, float4 *out) {\n"
    "    float4 x = *(const float4 *)(in + 1);\n"
    "    out[0] = x;\n"
    "}\n"
    "extern \"C\" __global__ void out_of_bounds(int *out, int at) {\n"
    "    if (threadIdx.x == 3)\n"
    "        out[at] = 1; /* line 34 */\n"
    "}\n"
    "extern \"C\" __global__ void window(int *out, int at) {\n"
    "    ((int *)shared_memory)[at] = 7;\n"
    "    out[0] = ((int *)shared_memory)[at];\n"
    "}\n";

static test_kernel *load_text(void) {
    mlp_message why = {""};
    test_kernel *kernel = kernel_load(device_name, "kinds.cu", text, NULL, &why);
    if (!kernel)
        fail_msg("%s", why.text);
    return kernel;
}

static void test_arguments(void **state) {
    test_kernel *kernel = *state;
    struct pair {
        int first;
        double second;
    };
    unsigned char *out = kernel_buffer(kernel, NULL, 8);
    signed char a = -3;
    short b = -300;
    int c = 1 << 20;
    long long d = -(1LL << 40);
    float e = 0.5F;
    double f = 0x1p-8, sum = 0;
    struct pair g = {17, 0.25}, h = {-4, 1e6};
    bool i = true;
    void *arguments[] = {&out, &a, &b, &c, &d, &e, &f, &g, &h, &i};
    kernel_dims dims = {.grid = {2}, .block = {64}};
    mlp_message why = {""};
    assert_int_equal(kernel_run(kernel, "all_kinds", &dims, arguments, &why), MLPBWD_OK);
    kernel_read(kernel, &sum, out, sizeof sum);
    assert_true(sum == -3.0 - 300 + (1 << 20) - (double)(1LL << 40) + 0.5 + 0x1p-8 + 17 + 0.25 - 4 + 1e6 + 1);
    assert_int_equal(kernel_run(kernel, "no_arguments", &dims, NULL, &why), MLPBWD_OK);
}

static void test_indices(void **state) {
    test_kernel *kernel = *state;
    int *out = kernel_buffer(kernel, NULL, 12 * sizeof(int)), host[12];
    void *arguments[] = {&out};
    kernel_dims dims = {.grid = {3}, .block = {4}};
    mlp_message why = {""};
    assert_int_equal(kernel_run(kernel, "declared_first", &dims, arguments, &why), MLPBWD_OK);
    kernel_read(kernel, host, out, sizeof host);
    for (int i = 0; i < 12; i++)
        assert_int_equal(host[i], 30 + i);
    int ranks[4];
    dims = (kernel_dims){.grid = {4}};
    assert_int_equal(kernel_run(kernel, "pairs", &dims, arguments, &why), MLPBWD_OK);
    kernel_read(kernel, ranks, out, sizeof ranks);
    for (int i = 0; i < 4; i++)
        assert_int_equal(ranks[i], i % 2);
}

/* ---- what a launch may not be ---- */

static void expect_refusal(test_kernel *kernel, const char *entry, kernel_dims dims, mlpbwd_status status,
                           const char *in_message) {
    int *out = NULL, at = 0;
    void *arguments[] = {&out, &at};
    mlp_message why = {""};
    assert_int_equal(kernel_run(kernel, entry, &dims, arguments, &why), status);
    if (!strstr(why.text, in_message))
        fail_msg("\"%s\" does not say \"%s\"", why.text, in_message);
}

static void test_limits(void **state) {
    test_kernel *kernel = *state;
    expect_refusal(kernel, "no_arguments", (kernel_dims){.block = {33, 32}}, MLPBWD_INVALID_ARGUMENT, "1056 threads");
    expect_refusal(kernel, "no_arguments", (kernel_dims){.block = {1, 1, 65}}, MLPBWD_INVALID_ARGUMENT, "z size is 65");
    expect_refusal(kernel, "no_arguments", (kernel_dims){.grid = {1, 65536}}, MLPBWD_INVALID_ARGUMENT,
                   "y size is 65536");
    expect_refusal(kernel, "all_kinds", (kernel_dims){.block = {65}}, MLPBWD_INVALID_ARGUMENT, "__launch_bounds__");
    expect_refusal(kernel, "no_arguments", (kernel_dims){.shared_bytes = 232449}, MLPBWD_UNSUPPORTED, "at most 232448");
    expect_refusal(kernel, "pairs", (kernel_dims){.grid = {3}}, MLPBWD_INVALID_ARGUMENT, "clusters of 2");
    expect_refusal(kernel, "pairs", (kernel_dims){.grid = {4}, .attributes.cluster = {4, 1, 1}},
                   MLPBWD_INVALID_ARGUMENT, "__cluster_dims__");
    expect_refusal(kernel, "missing", (kernel_dims){.grid = {1}}, MLPBWD_DEVICE_ERROR, "no entry \"missing\"");
    expect_refusal(kernel, "in_a_comment", (kernel_dims){.grid = {1}}, MLPBWD_DEVICE_ERROR, "no entry");
    expect_refusal(kernel, "in_a_text", (kernel_dims){.grid = {1}}, MLPBWD_DEVICE_ERROR, "no entry");
}

/* ---- faults ---- */

static void expect_fault(test_kernel *kernel, const char *entry, kernel_dims dims, void **arguments,
                         const char *const *in_message) {
    mlp_message why = {""};
    assert_int_equal(kernel_run(kernel, entry, &dims, arguments, &why), MLPBWD_DEVICE_ERROR);
    for (; *in_message; in_message++)
        if (!strstr(why.text, *in_message))
            fail_msg("\"%s\" does not say \"%s\"", why.text, *in_message);
}

static void test_faults_leave_the_device_usable(void **state) {
    test_kernel *kernel = *state;
    int *out = kernel_buffer(kernel, NULL, 400);
    for (int round = 0; round < 3; round++) {
        int at = 100;
        void *arguments[] = {&out, &at};
        expect_fault(kernel, "out_of_bounds", (kernel_dims){.grid = {2}, .block = {32}}, arguments,
                     (const char *const[]){"kinds.cu:34", "thread (3,0,0)", "block (0,0,0)", device_name,
                                           "out_of_bounds", NULL});
        float zeros[8] = {0};
        float *in = kernel_buffer(kernel, zeros, sizeof zeros);
        void *pointers[] = {&in, &out};
        expect_fault(kernel, "misaligned", (kernel_dims){.grid = {1}}, pointers,
                     (const char *const[]){"kinds.cu:29", "multiple of 16", NULL});
        at = 99;
        mlp_message why = {""};
        kernel_dims dims = {.block = {32}};
        assert_int_equal(kernel_run(kernel, "out_of_bounds", &dims, arguments, &why), MLPBWD_OK);
    }
}

static void test_dynamic_window(void **state) {
    test_kernel *kernel = *state;
    int *out = kernel_buffer(kernel, NULL, 4), at = 232448 / 4 - 1, value = 0;
    void *arguments[] = {&out, &at};
    mlp_message why = {""};
    kernel_dims dims = {.shared_bytes = 232448};
    assert_int_equal(kernel_run(kernel, "window", &dims, arguments, &why), MLPBWD_OK);
    kernel_read(kernel, &value, out, sizeof value);
    assert_int_equal(value, 7);
    expect_fault(kernel, "window", (kernel_dims){.shared_bytes = 232448 - 4}, arguments,
                 (const char *const[]){"kinds.cu:37", "dynamic shared memory", NULL});
}

/* ---- compiling ---- */

static void test_compile_errors(void **state) {
    (void)state;
    mlp_message why = {""};
    mlpbwd_status status;
    assert_null(kernel_load(device_name, "wrong names.cu",
                            "\n\nextern \"C\" __global__ void f(int *x) {\n    *y = 1;\n}\n", &status, &why));
    assert_int_equal(status, MLPBWD_COMPILE_ERROR);
    assert_non_null(strstr(why.text, "wrong_names.cu:4:"));
    assert_non_null(strstr(why.text, "'y'"));
    /* one window, one name: another one is nowhere */
    assert_null(kernel_load(device_name, "window.cu",
                            "extern __shared__ int other[];\n"
                            "extern \"C\" __global__ void f(int *x) {\n    *x = other[0];\n}\n",
                            &status, &why));
    assert_int_equal(status, MLPBWD_COMPILE_ERROR);
    assert_non_null(strstr(why.text, "other"));
}

static void test_compiler(void **state) {
    (void)state;
    char version[64];
    mlp_message why = {""};
    assert_int_equal(dev_compiler_version("emulated", version, sizeof version, &why), MLPBWD_OK);
    assert_true(strlen(version) > 3);
    dev_image image = {0};
    dev_compile_request request = {"emulated", "x86-64", "", "k"};
    assert_int_equal(dev_compile(&request, &image, &why), MLPBWD_INVALID_ARGUMENT);
    assert_non_null(strstr(why.text, "x86-64"));
    dev_image_free(&image);
    assert_int_equal(setenv("CXX", "/nowhere/c++", 1), 0);
    request.target = "sm_80";
    assert_int_equal(dev_compile(&request, &image, &why), MLPBWD_UNSUPPORTED);
    assert_non_null(strstr(why.text, "/nowhere/c++"));
    assert_int_equal(unsetenv("CXX"), 0);
    dev_image_free(&image);
}

static void test_foreign_images(void **state) {
    test_kernel *kernel = *state;
    dev_context *context = kernel_context(kernel);
    dev_module *module;
    mlp_message why = {""};
    assert_int_equal(dev_module_load(context, "text", 4, "ptx", &module, &why), MLPBWD_UNSUPPORTED);
    assert_non_null(strstr(why.text, "emulated-so"));
    assert_int_equal(dev_module_load(context, "text", 4, "emulated-so", &module, &why), MLPBWD_DATABASE_ERROR);
    dev_compile_request request = {"cc", "generic", "int f(void) { return 1; }\n", "f"};
    dev_image image = {0};
    if (dev_compile(&request, &image, &why) == MLPBWD_OK)
        assert_int_equal(dev_module_load(context, image.bytes, image.size, "emulated-so", &module, &why),
                         MLPBWD_DATABASE_ERROR);
    dev_image_free(&image);
}

/* ---- memory, streams, time ---- */

static mlpbwd_status nothing(void *user, dev_stream stream, mlp_message *why) {
    (void)user, (void)stream, (void)why;
    fail_msg("an emulated device ran what it cannot time");
    return MLPBWD_OK;
}

static void test_memory_and_time(void **state) {
    test_kernel *kernel = *state;
    dev_context *context = kernel_context(kernel);
    mlp_message why = {""};
    char host[16] = "fifteen letters", back[16], *memory;
    void *allocated;
    assert_int_equal(dev_alloc(context, sizeof host, &allocated, &why), MLPBWD_OK);
    memory = allocated;
    assert_int_equal((uintptr_t)memory % 256, 0);
    assert_int_equal(dev_copy_in(context, memory, host, sizeof host, &why), MLPBWD_OK);
    assert_int_equal(dev_fill(context, memory, '-', 4, NULL, &why), MLPBWD_OK);
    assert_int_equal(dev_copy_out(context, back, memory, sizeof back, &why), MLPBWD_OK);
    assert_string_equal(back, "----een letters");
    assert_int_equal(dev_copy_in(context, memory + 1, host, sizeof host, &why), MLPBWD_DEVICE_ERROR);
    assert_int_equal(dev_copy_out(context, back, host, 1, &why), MLPBWD_DEVICE_ERROR);
    assert_int_equal(dev_fill(context, memory, 0, 17, NULL, &why), MLPBWD_DEVICE_ERROR);
    assert_int_equal(dev_fill(context, memory, 0, 4, host, &why), MLPBWD_INVALID_ARGUMENT);
    assert_non_null(strstr(why.text, device_name));
    dev_free(context, memory);
    assert_int_equal(dev_copy_out(context, back, memory, 1, &why), MLPBWD_DEVICE_ERROR);
    double microseconds;
    dev_timing timing = {.microseconds = &microseconds, .repetitions = 1};
    assert_int_equal(dev_time(context, nothing, NULL, &timing, &why), MLPBWD_UNSUPPORTED);
    assert_non_null(strstr(why.text, "no time of its own"));
}

static int load_once(void **state) {
    *state = load_text();
    return 0;
}

static int unload(void **state) {
    kernel_free(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_specs),           cmocka_unit_test(test_limits_are_the_templates),
        cmocka_unit_test(test_only_when_named), cmocka_unit_test(test_environment),
        cmocka_unit_test(test_compile_errors),  cmocka_unit_test(test_compiler),
        cmocka_unit_test(test_arguments),       cmocka_unit_test(test_indices),
        cmocka_unit_test(test_limits),          cmocka_unit_test(test_faults_leave_the_device_usable),
        cmocka_unit_test(test_dynamic_window),  cmocka_unit_test(test_foreign_images),
        cmocka_unit_test(test_memory_and_time),
    };
    return cmocka_run_group_tests(tests, load_once, unload);
}
