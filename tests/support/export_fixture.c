#include "export_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char folder[4096];
static const char *const bare[] = {"MLPBWD_SHIPPED_DATABASE=", "MLPBWD_NVRTC=/nonexistent", NULL};
const run_surroundings export_surroundings = {.environment = bare, .limit_seconds = 100};

int export_set_up(void **state) {
    (void)state;
    make_folder(folder, sizeof folder);
    return 0;
}

int export_tear_down(void **state) {
    (void)state;
    remove_folder(folder);
    return 0;
}

const char *export_path(const char *name) {
    return path_in(folder, name);
}

void export_save(const char *name, const char *content) {
    FILE *file = fopen(export_path(name), "w");
    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

char *export_shell(const char *command) {
    const run_surroundings around = {.environment = bare, .folder = folder, .limit_seconds = 250};
    run_result result = run_program((const char *const[]){"/bin/sh", "-c", command, NULL}, &around);
    if (result.code != 0) {
        fail_msg("%s: code %d\n%s%s", command, result.code, result.output, result.errors);
    }
    free(result.errors);
    return result.output;
}

const char *export_text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL ? value : "";
}

int64_t export_number(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

static void run_tool(const char *const *arguments) {
    run_result result = run_program(arguments, &export_surroundings);
    if (result.code != 0) {
        fail_msg("%s %s: code %d\n%s", arguments[0], arguments[1], result.code, result.errors);
    }
    run_result_free(&result);
}

json_t *export_make_solution(void) {
    static const char row[] =
        "{\"accuracy\":\"tf32\",\"arch\":\"sm_90a\",\"compute_capability\":90,\"date\":\"2026-12-01T00:00:00Z\","
        "\"device_name\":\"Test GPU\",\"hidden_size\":2048,\"intermediate_size\":8192,\"max_tokens\":2147483647,"
        "\"median_us\":1.0,\"min_tokens\":1,\"origin\":\"tune\",\"parameters\":{},\"pipeline\":\"%s\",\"tokens\":%d,"
        "\"units\":100}";
    char winners[4096], first[1024], second[1024];
    (void)snprintf(first, sizeof first, row, "wgmma_weight_serial", 256);
    (void)snprintf(second, sizeof second, row, "mma_overlap", 4096);
    (void)snprintf(winners, sizeof winners, "{\"format\":\"mlpbwd-winners\",\"version\":1,\"rows\":[%s,%s]}", first,
                   second);
    export_save("winners.json", winners);
    const char *database = export_path("test.sqlite"), *stored = export_path("rows.json");
    run_tool((const char *const[]){TOOL, "db", "import", "--db", database, export_path("winners.json"), NULL});
    run_tool((const char *const[]){TOOL, "db", "export", "--with-code", "--db", database, "--output", stored, NULL});
    run_tool((const char *const[]){TOOL, "export", "--sol-execbench", export_path("solution"), "--arch", "sm_90a",
                                   "--db", database, NULL});
    json_t *exported = json_load_file(stored, 0, NULL);
    json_t *rows = json_incref(json_object_get(exported, "rows"));
    json_decref(exported);
    assert_int_equal(json_array_size(rows), 2);
    assert_int_equal(export_number(json_array_get(rows, 0), "tokens"), 256);
    assert_int_equal(export_number(json_array_get(rows, 1), "tokens"), 4096);
    return rows;
}

/* Of the suite's T, 1024 has 256 and 4096 equally near and takes the smaller, 2048 has 4096; between those two the
 * boundary lies at the root of 1024 * 2048, 1448.15. */
const json_t *export_plan_for(const json_t *rows, int64_t tokens) {
    return json_object_get(json_array_get(rows, tokens <= 1448 ? 0 : 1), "plan");
}

json_t *export_kernel_names(void) {
    char *lines = export_shell("sed -n 's/^    {\"\\(.*\\)\", .*/\\1/p' solution/mlpbwd_kernels.cpp"), *rest = lines;
    json_t *names = json_array();
    for (char *line = strsep(&rest, "\n"); line != NULL && line[0] != '\0'; line = strsep(&rest, "\n")) {
        (void)json_array_append_new(names, json_string(line));
    }
    free(lines);
    assert_true(json_array_size(names) > 0);
    return names;
}
