/* run() of an exported solution on a simulated PyTorch and CUDA: what is launched where, with which arguments, what
 * waits for what, and what is refused. Expected lines are made from the runtime's reading of the same stored plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export_fixture.h"
#include "plan_image_private.h"

enum { UNITS = 132, TENSOR_STEP = 16 }; /* fake_torch.hpp; addresses: see the driver below */

static const char driver[] =
    "#include \"solution/mlpbwd_run.cpp\"\n"
    "#include <cstdlib>\n"
    "int main(int argc, char **argv) {\n"
    "    fake_module module;\n"
    "    fake_initialise(module);\n"
    "    for (int i = 1; i + 2 < argc; i += 3) {\n" /* triples: T, stream, what is wrong */
    "        const std::int64_t T = std::atoll(argv[i]), H = 2048, I = 8192;\n"
    "        fake_current = std::atoll(argv[i + 1]);\n"
    "        const std::string wrong = argv[i + 2];\n"
    "        const std::vector<std::vector<std::int64_t>> shapes = {{1, T, H}, {1, T, H}, {I, H}, {I}, {H, I}, {H},\n"
    "            {1, T, I}, {1, T, I}, {1, T, H}, {I, H}, {I}, {H, I}, {H}};\n"
    "        at::Tensor t[13];\n"
    "        for (std::size_t k = 0; k < 13; k++) {\n"
    "            t[k].address = 16 * (k + 1);\n"
    "            t[k].shape = shapes[k];\n"
    "        }\n"
    "        if (wrong == \"type\") t[2].element = at::kHalf;\n"
    "        if (wrong == \"shape\") t[9].shape = {H, I};\n"
    "        if (wrong == \"rows\") t[6].shape = {1, T + 1, I};\n"
    "        if (wrong == \"strides\") t[1].contiguous = false;\n"
    "        if (wrong == \"device\") t[4].on = 1;\n"
    "        if (wrong == \"cpu\") t[0].on = -1;\n"
    "        if (wrong == \"alignment\") t[8].address += 4;\n"
    "        if (wrong == \"launch\") fake_refuses = mlpbwd::kernels[0].function();\n"
    "        std::printf(\"call\\n\");\n"
    "        try {\n"
    "            module.entry(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9], t[10], t[11], t[12]);\n"
    "        } catch (const std::exception &error) {\n"
    "            std::printf(\"%s\\n\", error.what());\n"
    "        }\n"
    "        fake_refuses = nullptr;\n"
    "    }\n"
    "}\n";

/* The simulated headers under the names that the solution includes, and a function for every kernel, whose address is
 * its name. */
static json_t *make_driver(void) {
    static const char *const headers[] = {"ATen/core/Tensor.h",
                                          "ATen/ops/empty.h",
                                          "c10/cuda/CUDAGuard.h",
                                          "c10/cuda/CUDAStream.h",
                                          "cuda_runtime_api.h",
                                          "torch/csrc/utils/pybind.h",
                                          "cuda.h"};
    json_t *rows = export_make_solution();
    free(export_shell("mkdir -p ATen/core ATen/ops c10/cuda torch/csrc/utils"));
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        export_save(headers[i], "#include \"" SOURCE_DIR "/tests/support/fake_torch.hpp\"\n");
    }
    export_save("driver.cpp", driver);
    free(export_shell("sed -n 's/^const void \\*\\(.*\\)();$/const void *\\1() { return \"\\1\"; }/p' "
                      "solution/mlpbwd_kernels.cpp >functions.cpp"));
    return rows;
}

static const image_launch *launch_of(const plan_image *image, size_t l) {
    return &image->launches[l];
}

static plan_image *read_plan(const json_t *plan, int64_t tokens) {
    const mlpbwd_problem problem = {.batch_size = 1, .seq_len = tokens, .hidden_size = 2048, .intermediate_size = 8192};
    dev_info device = {.ladder_length = 1, .units = UNITS};
    plan_image *image = calloc(1, sizeof *image);
    mlp_message why = {""};
    assert_non_null(image);
    (void)snprintf(device.ladder[0], sizeof device.ladder[0], "%s", export_text(plan, "arch"));
    assert_int_equal(plan_image_parse(image, plan, &problem, &device, &why), MLPBWD_OK);
    assert_int_equal(plan_image_analyse(image, &why), MLPBWD_OK);
    return image;
}

/* Symbol of a launch's kernel: the file that holds its source, and its entry. */
static void kernel_symbol(const json_t *plan, const image_launch *launch, char *symbol, size_t capacity) {
    const json_t *module = json_array_get(json_object_get(plan, "modules"), launch->module);
    char command[512];
    (void)snprintf(command, sizeof command, "grep -l %s solution/*.cu", export_text(module, "source"));
    char *file = export_shell(command);
    (void)snprintf(symbol, capacity, "mlpbwd_kernel_%.2s_%s", strstr(file, "kernel_") + 7, launch->entry);
    free(file);
}

/* How many arguments the kernels take, for the driver. */
static void add_counts(const json_t *rows) {
    char *text = NULL;
    size_t size = 0, index = 0;
    json_t *row = NULL;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    (void)fputs("#include <cstring>\nint fake_arguments(const void *function) {\n"
                "    const char *name = static_cast<const char *>(function);\n",
                out);
    json_array_foreach(rows, index, row) {
        const json_t *plan = json_object_get(row, "plan");
        plan_image *image = read_plan(plan, 256);
        for (size_t l = 0; l < image->launch_count; l++) {
            char symbol[256];
            kernel_symbol(plan, launch_of(image, l), symbol, sizeof symbol);
            (void)fprintf(out, "    if (std::strcmp(name, \"%s\") == 0)\n        return %zu;\n", symbol,
                          launch_of(image, l)->argument_count);
        }
        plan_image_destroy(image);
    }
    (void)fputs("    return -1;\n}\n", out);
    assert_int_equal(fclose(out), 0);
    export_save("counts.cpp", text);
    free(text);
    free(export_shell(
        "c++ -std=c++17 -Wall -Wextra -Werror -DTORCH_EXTENSION_NAME=x -I. -Isolution -o driver driver.cpp "
        "counts.cpp functions.cpp solution/mlpbwd_plans.cpp solution/mlpbwd_kernels.cpp"));
}

/* The line of a map: its numbers are those of cuda.h. */
static void write_map(FILE *out, const image_argument *argument) {
    static const int elements[] = {[DEV_U8] = 0, [DEV_F16] = 6, [DEV_BF16] = 9, [DEV_F32] = 7};
    const dev_tensor *map = argument->map;
    if (map == NULL) {
        return;
    }
    assert_int_equal(argument->kind, ARGUMENT_TENSOR);
    assert_int_equal(map->l2_bytes, 128);
    (void)fprintf(out, "map %x: type %d, swizzle %d, promotion 2:", TENSOR_STEP * (argument->index + 1),
                  elements[map->element], (int)map->swizzle);
    for (int i = 0; i < map->rank; i++) {
        (void)fprintf(out, " %llu/%u/1/%llu", (unsigned long long)map->size[i], map->box[i],
                      i > 0 ? (unsigned long long)map->stride[i - 1] : 0ULL);
    }
    (void)fputc('\n', out);
}

/* The lines of one call's launches; side: what its side stream is called. */
static void write_launches(FILE *out, const json_t *plan, int64_t tokens, const char *caller, const char *side,
                           uint64_t workspace) {
    plan_image *image = read_plan(plan, tokens);
    const char *const streams[2] = {caller, side};
    uint64_t offsets[IMAGE_MAX_BUFFERS] = {0};
    for (size_t b = 1; b < image->buffer_count; b++) {
        offsets[b] = offsets[b - 1] + (image->buffers[b - 1].size + 255) / 256 * 256;
    }
    assert_true(image->stream_count <= 2);
    for (size_t l = 0; l < image->launch_count; l++) {
        const image_launch *launch = launch_of(image, l);
        char symbol[256];
        for (unsigned later = 0; later < 2; later++) {
            if (launch->waits[later] != 0) {
                (void)fprintf(out, "%s waits for %s\n", streams[later], streams[1 - later]);
            }
        }
        kernel_symbol(plan, launch, symbol, sizeof symbol);
        for (size_t a = 0; a < launch->argument_count; a++) {
            write_map(out, &launch->arguments[a]);
        }
        (void)fprintf(out, "%s on %s: %u %u %u, %u %u %u, %zu:", symbol, streams[launch->stream], launch->grid[0],
                      launch->grid[1], launch->grid[2], launch->block[0], launch->block[1], launch->block[2],
                      launch->shared_bytes);
        for (size_t a = 0; a < launch->argument_count; a++) {
            const image_argument *argument = &launch->arguments[a];
            uint64_t value = (uint64_t)argument->value.i64;
            if (argument->outputs != 0 && argument->kind == ARGUMENT_TENSOR) {
                value = (uint64_t)TENSOR_STEP * (argument->index + 1);
            } else if (argument->outputs != 0 && argument->kind == ARGUMENT_BUFFER) {
                value = workspace + offsets[argument->index];
            }
            (void)fprintf(out, " %llx", (unsigned long long)value);
        }
        (void)fputc('\n', out);
    }
    if (image->stream_count > 1) {
        (void)fprintf(out, "%s waits for %s\n", caller, side);
    }
    plan_image_destroy(image);
}

static uint64_t workspace_of(const json_t *plan, int64_t tokens) {
    plan_image *image = read_plan(plan, tokens);
    uint64_t size = 0;
    for (size_t b = 0; b < image->buffer_count; b++) {
        size += (image->buffers[b].size + 255) / 256 * 256;
    }
    plan_image_destroy(image);
    return size;
}

/* The first call of each kind: allocates, makes streams, raises limits; a second one only launches; another stream has
 * memory and streams of its own; a larger T gets a larger workspace. */
static void calls_launch_what_the_plan_says(void **state) {
    (void)state;
    json_t *rows = make_driver();
    add_counts(rows);
    char *raised = export_shell("./driver 512 7 - 4100 7 - | grep '^shared' | sort | uniq -d");
    assert_string_equal(raised, ""); /* each limit once, although kernels are launched often */
    free(raised);
    char *output = export_shell("./driver 512 7 - 4100 7 - 4100 7 - 300 7 - 4100 8 - 0 8 - | grep -v '^shared'");
    const json_t *one = export_plan_for(rows, 512), *two = export_plan_for(rows, 4100);
    const uint64_t first = 0x100000000000, second = 2 * first, third = 3 * first;
    char *expected = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&expected, &size);
    assert_non_null(out);
    (void)fprintf(out, "call\nallocate %llu\n", (unsigned long long)workspace_of(one, 512));
    write_launches(out, one, 512, "c7", NULL, first);
    (void)fprintf(out, "call\nallocate %llu\nmake s2\n", (unsigned long long)workspace_of(two, 4100)); /* event 1 */
    write_launches(out, two, 4100, "c7", "s2", second);
    (void)fputs("call\n", out);
    write_launches(out, two, 4100, "c7", "s2", second);
    (void)fputs("call\n", out);
    write_launches(out, one, 300, "c7", NULL, second);
    (void)fprintf(out, "call\nallocate %llu\nmake s4\n", (unsigned long long)workspace_of(two, 4100));
    write_launches(out, two, 4100, "c8", "s4", third);
    /* No tokens: the gradients of weights and biases are zeros, grad_hidden_states has no bytes. */
    (void)fputs("call\nfill 0x90 0 0 on c8\nfill 0xa0 0 67108864 on c8\nfill 0xb0 0 32768 on c8\n"
                "fill 0xc0 0 67108864 on c8\nfill 0xd0 0 8192 on c8\n",
                out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(output, expected);
    free(output);
    free(expected);
    json_decref(rows);
}

static void bad_tensors_are_refused(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"type", "weight1 is of type"},
        {"shape", "grad_weight1 has the shape  2048 8192; it must have 8192 rows of 2048"},
        {"rows", "intermediate has the shape  1 257 8192; it must have 256 rows of 8192"},
        {"strides", "hidden_states is not contiguous"},
        {"device", "weight2 is on cuda:1; it must be on the CUDA device of grad_output"},
        {"cpu", "grad_output is on cpu"},
        {"alignment", "grad_hidden_states is not aligned to 16 bytes"},
        {"launch", "a simulated failure"}};
    json_t *rows = make_driver();
    add_counts(rows);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char command[128];
        (void)snprintf(command, sizeof command, "./driver 256 1 %s | grep -v '^shared\\|^allocate'", cases[i][0]);
        char *output = export_shell(command);
        if (strncmp(output, "call\nmlpbwd: ", 13) != 0 || strstr(output, cases[i][1]) == NULL) {
            fail_msg("%s: %s instead of %s", cases[i][0], output, cases[i][1]);
        }
        free(output);
    }
    json_decref(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(calls_launch_what_the_plan_says, export_set_up, export_tear_down),
        cmocka_unit_test_setup_teardown(bad_tensors_are_refused, export_set_up, export_tear_down),
    };
    return cmocka_run_group_tests_name("export_host", tests, NULL, NULL);
}
