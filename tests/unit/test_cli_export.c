/* `mlpbwd export`: fields of solution.json against the public schema, which plan serves which T, equal bytes, and what
 * is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run_tool.h"
#include "tiny.h"

#define RUN(around, ...) run_program((const char *const[]){TOOL, __VA_ARGS__, NULL}, around)

static char folder[4096];
/* No database but those that a test names, and no compiler: an export compiles nothing. */
static const char *const bare[] = {"MLPBWD_SHIPPED_DATABASE=", "MLPBWD_NVRTC=/nonexistent", NULL};
static const run_surroundings plain = {.environment = bare};

static int set_up(void **state) {
    (void)state;
    make_folder(folder, sizeof folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    remove_folder(folder);
    return 0;
}

static void expect(int code, const char *told, run_result result) {
    if (result.code != code || (told != NULL && strstr(result.errors, told) == NULL)) {
        fail_msg("code %d instead of %d, standard error:\n%s\nexpected there: %s", result.code, code, result.errors,
                 told != NULL ? told : "");
    }
    run_result_free(&result);
}

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL ? value : "";
}

static json_t *load(const char *name) {
    json_t *value = json_load_file(path_in(folder, name), 0, NULL);
    assert_non_null(value);
    return value;
}

static void save(const char *path, const char *content) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static bool exists(const char *name) {
    return access(path_in(folder, name), F_OK) == 0;
}

/* Names, types and values as docs/solution.md of NVIDIA/SOL-ExecBench 1.0.2 has them. */
static void check_schema(const json_t *solution, const char *hardware, const char *gencode) {
    json_t *spec = json_object_get(solution, "spec"), *options = json_object_get(spec, "compile_options");
    json_t *wanted = json_pack("{s:[s], s:[s], s:s, s:[], s:b, s:s}", "languages", "cuda_cpp", "target_hardware",
                               hardware, "entry_point", "mlpbwd_run.cpp::run", "dependencies",
                               "destination_passing_style", 1, "binding", "torch");
    const char *key = NULL;
    json_t *value = NULL;
    assert_true(strlen(text(solution, "name")) > 0 && strlen(text(solution, "author")) > 0);
    assert_true(strlen(text(solution, "description")) > 0);
    assert_string_equal(text(solution, "definition"), "073_feedforward_mlp_backward");
    json_object_foreach(wanted, key, value) {
        if (!json_equal(json_object_get(spec, key), value)) {
            fail_msg("spec.%s is not as it should be", key);
        }
    }
    json_decref(wanted);
    assert_int_equal(json_object_size(solution), 6);
    assert_int_equal(json_object_size(spec), 7);
    size_t index = 0;
    bool has_gencode = false, fast_math = false;
    json_array_foreach(json_object_get(options, "cuda_cflags"), index, value) {
        has_gencode = has_gencode || strcmp(json_string_value(value), gencode) == 0;
        fast_math = fast_math || strcmp(json_string_value(value), "--use_fast_math") == 0;
    }
    assert_true(has_gencode && !fast_math);
    assert_true(json_is_array(json_object_get(options, "cflags")) &&
                json_is_array(json_object_get(options, "ld_flags")));
}

/* Every source is a plain file name, once, with the file's content beside it; the entry point's is there. */
static void check_sources(const json_t *solution, const char *name) {
    size_t index = 0, kernels = 0;
    bool entry = false;
    json_t *file = NULL, *seen = json_object();
    json_array_foreach(json_object_get(solution, "sources"), index, file) {
        const char *path = text(file, "path"), *content = text(file, "content");
        char on_disk[8192];
        (void)snprintf(on_disk, sizeof on_disk, "%s/%s/%s", folder, name, path);
        FILE *stream = fopen(on_disk, "r");
        assert_non_null(stream);
        char *read = calloc(1, strlen(content) + 2);
        assert_non_null(read);
        assert_int_equal(fread(read, 1, strlen(content) + 1, stream), strlen(content));
        assert_string_equal(read, content);
        (void)fclose(stream);
        free(read);
        assert_true(content[0] != '\0' && strchr(path, '/') == NULL);
        assert_null(json_object_get(seen, path));
        (void)json_object_set_new(seen, path, json_true());
        entry = entry || strcmp(path, "mlpbwd_run.cpp") == 0;
        if (strstr(path, ".cu") != NULL) {
            kernels++;
            assert_non_null(strstr(content, "__global__"));
            assert_null(strstr(content, "extern \"C\" __global__"));
            assert_null(strstr(content, "#include"));
        }
    }
    assert_true(entry && kernels > 0);
    json_decref(seen);
}

/* The default hardware is the benchmark's; every architecture and class has its own flags. */
static void solutions_follow_the_schema(void **state) {
    (void)state;
    static const struct {
        const char *arch, *accuracy, *hardware, *gencode;
    } cases[] = {{NULL, "tf32", "B200", "-gencode=arch=compute_100a,code=sm_100a"},
                 {"sm_100a", "fp32", "B200", "-gencode=arch=compute_100a,code=sm_100a"},
                 {"sm_103a", "bf16", "LOCAL", "-gencode=arch=compute_103a,code=sm_103a"},
                 {"sm_90a", "tf32", "LOCAL", "-gencode=arch=compute_90a,code=sm_90a"},
                 {"compute_80", "tf32", "LOCAL", "-gencode=arch=compute_80,code=compute_80"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[16], path[32];
        (void)snprintf(name, sizeof name, "s%zu", i);
        (void)snprintf(path, sizeof path, "s%zu/solution.json", i);
        run_result result = RUN(&plain, "export", "--sol-execbench", path_in(folder, name), "--json", "--accuracy",
                                cases[i].accuracy, cases[i].arch != NULL ? "--arch" : NULL, cases[i].arch);
        assert_int_equal(result.code, 0);
        json_t *summary = json_loads(result.output, 0, NULL), *solution = load(path);
        check_schema(solution, cases[i].hardware, cases[i].gencode);
        check_sources(solution, name);
        assert_string_equal(text(summary, "accuracy"), cases[i].accuracy);
        assert_int_equal(json_array_size(json_object_get(summary, "plans")), 9);
        assert_int_equal(json_array_size(json_object_get(summary, "files")),
                         json_array_size(json_object_get(solution, "sources")) + 1);
        json_t *first = json_array_get(json_object_get(summary, "plans"), 0);
        assert_string_equal(text(first, "match"), "default");
        assert_true(json_is_false(json_object_get(first, "measured")));
        assert_true(json_is_null(json_object_get(first, "median_us")));
        json_decref(summary);
        json_decref(solution);
        run_result_free(&result);
    }
}

static void equal_bytes_twice(void **state) {
    (void)state;
    expect(0, NULL, RUN(&plain, "export", "--sol-execbench", path_in(folder, "one"), "--arch", "sm_90a"));
    expect(0, NULL, RUN(&plain, "export", "--sol-execbench", path_in(folder, "two"), "--arch", "sm_90a"));
    json_t *one = load("one/solution.json"), *two = load("two/solution.json");
    char *left = json_dumps(one, 0), *right = json_dumps(two, 0);
    assert_string_equal(left, right);
    free(left);
    free(right);
    json_decref(one);
    json_decref(two);
}

/* Two rows of a device: each T of the suite takes the nearer one by ratio, of two the smaller. */
static void winners_are_chosen(void **state) {
    (void)state;
    static const char row[] =
        "{\"accuracy\":\"tf32\",\"arch\":\"sm_90a\",\"compute_capability\":90,\"date\":\"2026-12-01T00:00:00Z\","
        "\"device_name\":\"Test GPU\",\"hidden_size\":2048,\"intermediate_size\":8192,\"max_tokens\":2147483647,"
        "\"median_us\":%d.0,\"min_tokens\":1,\"origin\":\"tune\",\"parameters\":{},\"pipeline\":\"%s\",\"tokens\":%d,"
        "\"units\":100}";
    char winners[4096], first[1024], second[1024];
    (void)snprintf(first, sizeof first, row, 100, "mma_exact", 256);
    (void)snprintf(second, sizeof second, row, 900, "mma_overlap", 4096);
    (void)snprintf(winners, sizeof winners, "{\"format\":\"mlpbwd-winners\",\"version\":1,\"rows\":[%s,%s]}", first,
                   second);
    save(path_in(folder, "winners.json"), winners);
    char database[8192];
    (void)snprintf(database, sizeof database, "%s/test.sqlite", folder);
    expect(0, NULL, RUN(&plain, "db", "import", "--db", database, path_in(folder, "winners.json")));
    static const char *const targets[][2] = {{"sm_90a", "architecture"}, {"Test GPU", "nearest"}};
    for (size_t i = 0; i < 2; i++) {
        run_result result = RUN(&plain, "export", "--sol-execbench", path_in(folder, targets[i][1]), "--json", "--db",
                                database, "--arch", targets[i][0]);
        assert_int_equal(result.code, 0);
        json_t *summary = json_loads(result.output, 0, NULL), *plan = NULL;
        size_t index = 0;
        json_array_foreach(json_object_get(summary, "plans"), index, plan) {
            int64_t tokens = json_integer_value(json_object_get(plan, "tokens"));
            bool exact = i == 1 && (tokens == 256 || tokens == 4096);
            assert_string_equal(text(plan, "match"), exact ? "exact" : targets[i][1]);
            assert_string_equal(text(plan, "pipeline"), tokens <= 1024 ? "mma_exact" : "mma_overlap");
            assert_string_equal(text(plan, "measured_device"), "Test GPU");
            assert_true(json_number_value(json_object_get(plan, "median_us")) == (tokens <= 1024 ? 100.0 : 900.0));
        }
        assert_int_equal(index, 9);
        assert_string_equal(text(summary, "arch"), "sm_90a");
        json_decref(summary);
        run_result_free(&result);
    }
}

static void folders(void **state) {
    (void)state;
    char target[8192];
    (void)snprintf(target, sizeof target, "%s/kept", folder);
    expect(0, NULL, RUN(&plain, "export", "--sol-execbench", target, "--arch", "sm_90a"));
    expect(1, "is not empty", RUN(&plain, "export", "--sol-execbench", target, "--arch", "sm_90a"));
    /* An earlier export's files go, others stay, and nothing outside is touched whatever the list says. */
    save(path_in(folder, "outside.cu"), "kept\n");
    save(path_in(folder, "kept/notes.txt"), "kept\n");
    save(path_in(folder, "kept/kernel_99_old.cu"), "old\n");
    save(path_in(folder, "kept/solution.json"),
         "{\"sources\":[{\"path\":\"kernel_99_old.cu\"},{\"path\":\"../outside.cu\"}]}");
    expect(0, NULL, RUN(&plain, "export", "--sol-execbench", target, "--arch", "sm_90a", "--force"));
    assert_true(exists("outside.cu") && exists("kept/notes.txt") && !exists("kept/kernel_99_old.cu"));
    json_t *solution = load("kept/solution.json");
    check_sources(solution, "kept");
    json_decref(solution);

    expect(1, "cannot be made", RUN(&plain, "export", "--sol-execbench", path_in(folder, "no/such/parent")));
    expect(1, "Not a directory", RUN(&plain, "export", "--sol-execbench", path_in(folder, "outside.cu")));
    const struct passwd *nobody = getpwnam("nobody");
    if (geteuid() == 0 && nobody != NULL) {
        const run_surroundings other = {.environment = bare, .user = nobody->pw_uid};
        assert_int_equal(mkdir(path_in(folder, "closed"), 0755), 0);
        expect(1, "cannot be written", RUN(&other, "export", "--sol-execbench", path_in(folder, "closed")));
        assert_false(exists("closed/solution.json"));
    }
}

static void refusals(void **state) {
    (void)state;
    char target[8192];
    (void)snprintf(target, sizeof target, "%s/refused", folder);
    expect(2, "--sol-execbench DIR", RUN(&plain, "export"));
    expect(2, "--accuracy", RUN(&plain, "export", "--sol-execbench", target, "--accuracy", "fp8"));
    expect(3, "--arch: 'sm_1' is neither an architecture",
           RUN(&plain, "export", "--sol-execbench", target, "--arch", "sm_1"));
    expect(1, "is no GPU", RUN(&plain, "export", "--sol-execbench", target, "--arch", "x86-64-v3"));
    /* A row whose sources are C, for a GPU's architecture; and one without its source text, which is passed over. */
    char source[DB_HASH_CAPACITY], code[DB_HASH_CAPACITY];
    static const char missing[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    db *database = tiny_database(path_in(folder, "c.sqlite"), false, source, code);
    const tiny_row of_c = {.arch = "sm_90a",
                           .device_name = "C GPU",
                           .units = 4,
                           .compute_capability = 90,
                           .tokens = 256,
                           .plan = {.source = source}};
    tiny_put(database, &of_c);
    db_close(database);
    expect(1, "for the compiler \"cc\"",
           RUN(&plain, "export", "--sol-execbench", target, "--arch", "sm_90a", "--db", path_in(folder, "c.sqlite")));
    assert_false(exists("refused"));
    database = tiny_database(path_in(folder, "none.sqlite"), false, source, code);
    const tiny_row without = {.arch = "sm_90a",
                              .device_name = "C GPU",
                              .units = 4,
                              .compute_capability = 90,
                              .tokens = 256,
                              .plan = {.source = missing}};
    tiny_put(database, &without);
    db_close(database);
    run_result result =
        RUN(&plain, "export", "--sol-execbench", target, "--arch", "sm_90a", "--db", path_in(folder, "none.sqlite"));
    assert_non_null(strstr(result.errors, "comes without the source text"));
    assert_non_null(strstr(result.output, "default"));
    expect(0, NULL, result);
}

static void help(void **state) {
    (void)state;
    run_result result = RUN(NULL, "export", "--help");
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.output, "--sol-execbench=DIR"));
    assert_non_null(strstr(result.output, "Examples:"));
    run_result_free(&result);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help),
        cmocka_unit_test_setup_teardown(solutions_follow_the_schema, set_up, tear_down),
        cmocka_unit_test_setup_teardown(equal_bytes_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(winners_are_chosen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(folders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refusals, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("cli_export", tests, NULL, NULL);
}
