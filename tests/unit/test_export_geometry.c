/* An exported solution's own C++ against the runtime: for many T and GPUs the generated functions give the launches
 * that plan_image gives for the same stored plan. Then nvcc, where there is one, compiles all kernels in one unit and
 * links them with the table of kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export_fixture.h"
#include "plan_image_private.h"

/* Prints the passes of "T UNITS" pairs as a JSON list; {"error"} where there is none. */
static const char printer[] =
    "#include \"mlpbwd_pass.hpp\"\n"
    "#include <cstdio>\n"
    "#include <cstdlib>\n"
    "using namespace mlpbwd;\n"
    "static void print(const pass &p) {\n"
    "    std::printf(\"{\\\"workspace\\\":%zu,\\\"streams\\\":%d,\\\"buffers\\\":[\", p.workspace, p.streams);\n"
    "    for (std::size_t i = 0; i < p.buffers.size(); i++)\n"
    "        std::printf(\"%s[%zu,%zu]\", i ? \",\" : \"\", p.buffers[i].size, p.buffers[i].offset);\n"
    "    std::printf(\"],\\\"launches\\\":[\");\n"
    "    for (std::size_t l = 0; l < p.launches.size(); l++) {\n"
    "        const launch &k = p.launches[l];\n"
    "        "
    "std::printf(\"%s{\\\"kernel\\\":%d,\\\"stream\\\":%d,\\\"shared\\\":%zu,\\\"extents\\\":[%u,%u,%u,%u,%u,%u],"
    "\\\"waits\\\":[\",\n"
    "                    l ? \",\" : \"\", k.kernel, k.stream, k.shared_bytes, k.grid[0], k.grid[1], k.grid[2],\n"
    "                    k.block[0], k.block[1], k.block[2]);\n"
    "        for (std::size_t i = 0; i < k.waits.size(); i++)\n"
    "            std::printf(\"%s[%d,%d]\", i ? \",\" : \"\", k.waits[i].first, k.waits[i].second);\n"
    "        std::printf(\"],\\\"arguments\\\":[\");\n"
    "        for (std::size_t i = 0; i < k.arguments.size(); i++)\n"
    "            std::printf(\"%s[%d,%d,%lld]\", i ? \",\" : \"\", (int)k.arguments[i].kind, k.arguments[i].index,\n"
    "                        (long long)k.arguments[i].value.i64);\n"
    "        std::printf(\"]}\");\n"
    "    }\n"
    "    std::printf(\"]}\");\n"
    "}\n"
    "int main(int argc, char **argv) {\n"
    "    std::printf(\"[\");\n"
    "    for (int i = 1; i + 1 < argc; i += 2) {\n"
    "        std::printf(i > 1 ? \",\" : \"\");\n"
    "        try {\n"
    "            print(make_pass(std::atoll(argv[i]), std::atoll(argv[i + 1])));\n"
    "        } catch (const std::exception &error) {\n"
    "            std::printf(\"{\\\"error\\\":true}\");\n"
    "        }\n"
    "    }\n"
    "    std::printf(\"]\\n\");\n"
    "}\n";

static void compare_launch(const json_t *got, const image_launch *want, const char *kernel, const char *source) {
    const json_t *extents = json_object_get(got, "extents"), *arguments = json_object_get(got, "arguments");
    assert_int_equal(export_number(got, "stream"), want->stream);
    assert_int_equal(export_number(got, "shared"), want->shared_bytes);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(json_integer_value(json_array_get(extents, i)), want->grid[i]);
        assert_int_equal(json_integer_value(json_array_get(extents, 3 + i)), want->block[i]);
    }
    unsigned waits[IMAGE_MAX_STREAMS] = {0};
    size_t index = 0;
    json_t *item = NULL;
    json_array_foreach(json_object_get(got, "waits"), index, item) {
        waits[json_integer_value(json_array_get(item, 0))] |= 1U << json_integer_value(json_array_get(item, 1));
    }
    assert_memory_equal(waits, want->waits, sizeof waits);
    assert_int_equal(json_array_size(arguments), want->argument_count);
    json_array_foreach(arguments, index, item) {
        const image_argument *argument = &want->arguments[index];
        image_argument_kind kind = argument->outputs != 0 ? argument->kind : ARGUMENT_CONSTANT;
        assert_int_equal(json_integer_value(json_array_get(item, 0)), kind);
        if (kind == ARGUMENT_CONSTANT) {
            assert_int_equal(json_integer_value(json_array_get(item, 2)), argument->value.i64);
        } else {
            assert_int_equal(json_integer_value(json_array_get(item, 1)), argument->index);
        }
    }
    /* "ENTRY of FILE", and the file says which source it holds */
    char entry[256], *file = NULL, *content = NULL;
    (void)snprintf(entry, sizeof entry, "%s of ", want->entry);
    assert_true(strncmp(kernel, entry, strlen(entry)) == 0);
    assert_true(asprintf(&file, "grep -c %s solution/%s", source, kernel + strlen(entry)) > 0);
    content = export_shell(file);
    assert_string_equal(content, "1\n");
    free(content);
    free(file);
}

static void compare(const json_t *got, const json_t *plan, int64_t tokens, int units, const json_t *names) {
    const mlpbwd_problem problem = {.batch_size = 1, .seq_len = tokens, .hidden_size = 2048, .intermediate_size = 8192};
    dev_info device = {.ladder_length = 1, .units = units};
    (void)snprintf(device.ladder[0], sizeof device.ladder[0], "%s", export_text(plan, "arch"));
    plan_image *image = calloc(1, sizeof *image);
    mlp_message why = {""};
    assert_non_null(image);
    mlpbwd_status status = plan_image_parse(image, plan, &problem, &device, &why);
    if (status != MLPBWD_OK) {
        assert_int_equal(status, MLPBWD_UNSUPPORTED); /* too large for its types */
        assert_true(json_is_true(json_object_get(got, "error")));
        plan_image_destroy(image);
        return;
    }
    assert_int_equal(plan_image_analyse(image, &why), MLPBWD_OK);
    const json_t *launches = json_object_get(got, "launches"), *buffers = json_object_get(got, "buffers");
    assert_int_equal(export_number(got, "streams"), image->stream_count);
    assert_int_equal(json_array_size(launches), image->launch_count);
    assert_int_equal(json_array_size(buffers), image->buffer_count);
    size_t end = 0;
    for (size_t b = 0; b < image->buffer_count; b++) {
        const json_t *buffer = json_array_get(buffers, b);
        assert_int_equal(json_integer_value(json_array_get(buffer, 0)), (image->buffers[b].size + 255) / 256 * 256);
        assert_int_equal(json_integer_value(json_array_get(buffer, 1)), end); /* one behind the other */
        end += (size_t)json_integer_value(json_array_get(buffer, 0));
    }
    assert_int_equal(export_number(got, "workspace"), end);
    for (size_t l = 0; l < image->launch_count; l++) {
        const json_t *launch = json_array_get(launches, l);
        const json_t *module = json_array_get(json_object_get(plan, "modules"), image->launches[l].module);
        compare_launch(launch, &image->launches[l],
                       json_string_value(json_array_get(names, (size_t)export_number(launch, "kernel"))),
                       export_text(module, "source"));
    }
    plan_image_destroy(image);
}

static void geometry_is_the_runtimes(void **state) {
    (void)state;
    /* Tile edges, the suite's T, the boundary between the two plans (1024 * 2048 = 1448.15^2: other T than the suite's
     * take the nearest of those by ratio), and far too much. */
    static const int64_t tokens[] = {1,    63,   64,   65,   128,  541,   1023,    1024,
                                     1448, 1449, 2164, 4096, 6184, 16384, 1000003, 2147483647};
    static const int units[] = {132, 148, 7, 1};
    char command[4096];
    json_t *rows = export_make_solution();
    export_save("printer.cpp", printer);
    free(export_shell(
        "c++ -std=c++17 -Wall -Wextra -Werror -O0 -Isolution -o printer printer.cpp solution/mlpbwd_plans.cpp"));
    json_t *names = export_kernel_names();
    size_t used = (size_t)snprintf(command, sizeof command, "./printer 0 132 -5 132 2147483648 132");
    for (size_t u = 0; u < 4; u++) {
        for (size_t t = 0; t < sizeof tokens / sizeof tokens[0]; t++) {
            used += (size_t)snprintf(command + used, sizeof command - used, " %lld %d", (long long)tokens[t], units[u]);
        }
    }
    char *output = export_shell(command);
    json_t *passes = json_loads(output, 0, NULL);
    assert_non_null(passes);
    for (size_t i = 0; i < 3; i++) {
        assert_true(json_is_true(json_object_get(json_array_get(passes, i), "error")));
    }
    for (size_t u = 0, i = 3; u < 4; u++) {
        for (size_t t = 0; t < sizeof tokens / sizeof tokens[0]; t++, i++) {
            compare(json_array_get(passes, i), export_plan_for(rows, tokens[t]), tokens[t], units[u], names);
        }
    }
    json_decref(passes);
    json_decref(names);
    json_decref(rows);
    free(output);
}

/* Arithmetic of expressions at its edges: what is no 64-bit integer is an exception, never a wrong number. */
static void integers_are_checked(void **state) {
    (void)state;
    json_decref(export_make_solution());
    export_save(
        "integers.cpp",
        "#include \"mlpbwd_pass.hpp\"\n"
        "#include <cstdio>\n"
        "using namespace mlpbwd;\n"
        "template <typename F> static int throws(F f) { try { f(); } catch (const std::exception &) { return 1; }\n"
        "    return 0; }\n"
        "int main() {\n"
        "    const integer most(INT64_MAX), least(INT64_MIN), none(0);\n"
        "    std::printf(\"%d%d%d%d%d%d%d \", throws([&] { most + 1_i; }), throws([&] { least - 1_i; }),\n"
        "                throws([&] { most * 2_i; }), throws([&] { 1_i / none; }), throws([&] { 1_i % none; }),\n"
        "                throws([&] { least / (-1_i); }), throws([&] { align(1_i, none); }));\n"
        "    std::printf(\"%lld %lld %lld %lld %lld %lld %lld\\n\", (long long)ceildiv(7_i, 2_i).value(),\n"
        "                (long long)ceildiv(-7_i, 2_i).value(), (long long)((-7_i) / 2_i).value(),\n"
        "                (long long)((-7_i) % 2_i).value(), (long long)align(65_i, 64_i).value(),\n"
        "                (long long)min(3_i, 1_i, 2_i).value(), (long long)max(3_i, 5_i, 4_i).value());\n"
        "}\n");
    char *output = export_shell("c++ -std=c++17 -Isolution -o integers integers.cpp 2>/dev/null && ./integers");
    assert_string_equal(output, "1111111 4 -3 -3 -1 128 1 5\n");
    free(output);
}

/* All kernels of a solution in one unit, with its own flags, and a program that takes every kernel's address. */
static void compile_with_nvcc(const char *arch) {
    char command[2048];
    char nvcc[1024] = "";
    char *found = export_shell("command -v \"${CUDA_HOME:-/usr/local/cuda}/bin/nvcc\" || command -v nvcc || true");
    (void)snprintf(nvcc, sizeof nvcc, "%.*s", (int)strcspn(found, "\n"), found);
    free(found);
    if (nvcc[0] == '\0') {
        skip();
    }
    run_result result = run_program(
        (const char *const[]){TOOL, "export", "--sol-execbench", export_path("solution"), "--arch", arch, NULL},
        &export_surroundings);
    assert_int_equal(result.code, 0);
    run_result_free(&result);
    json_t *solution = json_load_file(export_path("solution/solution.json"), 0, NULL), *flag = NULL;
    json_t *spec = json_object_get(solution, "spec");
    size_t index = 0, used = 0;
    used = (size_t)snprintf(command, sizeof command, "'%s' -w", nvcc);
    json_array_foreach(json_object_get(json_object_get(spec, "compile_options"), "cuda_cflags"), index, flag) {
        used += (size_t)snprintf(command + used, sizeof command - used, " %s", json_string_value(flag));
    }
    (void)snprintf(command + used, sizeof command - used, " -Isolution -o all all.cu solution/mlpbwd_plans.cpp");
    export_save("main.cu", "#include \"solution/mlpbwd_kernels.cpp\"\n"
                           "#include <cstdio>\n"
                           "int main() {\n"
                           "    int given = 0;\n"
                           "    for (int i = 0; i < mlpbwd::kernel_count; i++)\n"
                           "        given += mlpbwd::kernels[i].function() != nullptr;\n"
                           "    std::printf(\"%d\\n\", given);\n"
                           "}\n");
    free(export_shell("{ for file in solution/*.cu; do echo \"#include \\\"$file\\\"\"; done; cat main.cu; } >all.cu"));
    free(export_shell(command));
    char *output = export_shell("./all");
    json_t *names = export_kernel_names();
    assert_true(json_array_size(names) > 0);
    assert_int_equal(atoi(output), json_array_size(names));
    json_decref(names);
    json_decref(solution);
    free(output);
}

static void nvcc_compiles_hopper(void **state) {
    (void)state;
    compile_with_nvcc("sm_90a");
}

static void nvcc_compiles_blackwell(void **state) {
    (void)state;
    compile_with_nvcc("sm_100a");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(geometry_is_the_runtimes, export_set_up, export_tear_down),
        cmocka_unit_test_setup_teardown(integers_are_checked, export_set_up, export_tear_down),
        cmocka_unit_test_setup_teardown(nvcc_compiles_hopper, export_set_up, export_tear_down),
        cmocka_unit_test_setup_teardown(nvcc_compiles_blackwell, export_set_up, export_tear_down),
    };
    return cmocka_run_group_tests_name("export_geometry", tests, NULL, NULL);
}
