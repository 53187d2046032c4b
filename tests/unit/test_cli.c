/* The command line: words, options, numbers, exit codes, where results go, hostile surroundings. */
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

/* Runs, and checks the code and that standard error names `told` (NULL: anything). */
static void expect(int code, const char *told, run_result result) {
    if (result.code != code || (told != NULL && strstr(result.errors, told) == NULL)) {
        print_error("code %d instead of %d, standard error:\n%s\nexpected there: %s\n", result.code, code,
                    result.errors, told != NULL ? told : "");
    }
    assert_int_equal(result.code, code);
    assert_true(told == NULL || strstr(result.errors, told) != NULL);
    run_result_free(&result);
}

static void help_everywhere(void **state) {
    (void)state;
    static const char *const commands[] = {"devices", "tune", "compile", "query", "verify", "bench", "emit"};
    static const char *const below_db[] = {"check", "list", "stats", "merge", "export", "import", "prune", "ship"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        run_result result = RUN(NULL, commands[i], "--help");
        assert_int_equal(result.code, 0);
        assert_non_null(strstr(result.output, "Examples:"));
        assert_string_equal(result.errors, "");
        run_result_free(&result);
    }
    for (size_t i = 0; i < sizeof below_db / sizeof below_db[0]; i++) {
        run_result result = RUN(NULL, "db", below_db[i], "--help");
        assert_int_equal(result.code, 0);
        assert_non_null(strstr(result.output, "Examples:"));
        run_result_free(&result);
    }
    run_result result = RUN(NULL, "--help");
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.output, "query"));
    assert_null(strstr(result.output, "__worker"));
    run_result_free(&result);
    result = RUN(NULL, "--version");
    assert_int_equal(result.code, 0);
    assert_string_equal(result.output, "mlpbwd 0.1.0\n");
    run_result_free(&result);
}

static void unknown_words(void **state) {
    (void)state;
    expect(2, "Usage", run_program((const char *const[]){TOOL, NULL}, NULL));
    expect(2, "Did you mean `mlpbwd query`?", RUN(NULL, "qurey"));
    expect(2, "`mlpbwd --help`", RUN(NULL, "frobnicate"));
    expect(2, "Did you mean `mlpbwd db merge`?", RUN(NULL, "db", "merg"));
    expect(2, "--help", RUN(NULL, "query", "--no-such-option"));
    expect(2, "one word too many", RUN(NULL, "devices", "extra"));
}

static void numbers(void **state) {
    (void)state;
    static const char *const wrong[] = {"12x",        "",   " 5", "+5", "0x10", "1e3", "-1", "99999999999999999999",
                                        "2147483648", "5.0"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char told[96];
        (void)snprintf(told, sizeof told, "--seq-len: '%s' is not a whole number from 0 to 2147483647", wrong[i]);
        char option[64];
        (void)snprintf(option, sizeof option, "--seq-len=%s", wrong[i]);
        expect(2, told, RUN(NULL, "query", option));
    }
    expect(2, "over the limit of 2147483647", RUN(NULL, "query", "--batch", "65536", "--seq-len", "65536"));
    expect(2, "not a multiple of 64", RUN(NULL, "query", "--seq-len", "1", "--hidden-size", "100"));
    expect(2, "'' is not a whole number", RUN(NULL, "query", "--tokens", "1,,2"));
    expect(2, "'fp16' is none of: tf32, fp32, bf16", RUN(NULL, "query", "--seq-len", "1", "--accuracy", "fp16"));
    expect(2, "exclude each other", RUN(NULL, "query", "--seq-len", "1", "--suite"));
    expect(2, "--batch needs --seq-len", RUN(NULL, "query", "--batch", "2"));
    expect(2, "say for which problem", RUN(NULL, "query"));
    expect(2, "T = 0", RUN(NULL, "query", "--tokens", "0"));
    static const char *const times[] = {"10q", "0", "-5s", "inf", "nan", "1e9", ".", "1.2.3s", "10 m", "99999999h"};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        expect(2, "is not a time above zero", RUN(NULL, "tune", "--budget", times[i]));
    }
    static const char *const shards[] = {"5/4", "0/4", "1", "/", "1/", "1/0", "a/b"};
    for (size_t i = 0; i < sizeof shards / sizeof shards[0]; i++) {
        expect(2, "is not I/N", RUN(NULL, "tune", "--shard", shards[i]));
    }
    expect(2, "--arch A", RUN(NULL, "compile"));
    expect(2, "is not name=value", RUN(NULL, "emit", "--kernel", "k", "--arch", "a", "--set", "novalue"));
    expect(2, "there is no peer 'nobody'", RUN(NULL, "bench", "--peer", "nobody"));
    expect(2, "name at least one FILE", RUN(NULL, "db", "merge"));
    expect(2, "--json goes with --list", RUN(NULL, "emit", "--kernel", "k", "--arch", "a", "--json"));
    expect(2, "--json", RUN(NULL, "db", "export", "--json"));
    expect(2, "--json", RUN(NULL, "db", "ship", "--json", "--output", "x"));
}

static void devices(void **state) {
    (void)state;
    run_result result = RUN(NULL, "devices", "--json");
    assert_int_equal(result.code, 0);
    json_t *value = json_loads(result.output, 0, NULL);
    assert_non_null(value);
    const json_t *list = json_object_get(value, "devices");
    assert_true(json_array_size(list) >= 1);
    const json_t *last = json_array_get(list, json_array_size(list) - 1);
    assert_string_equal(json_string_value(json_object_get(last, "id")), "host");
    assert_true(json_integer_value(json_object_get(last, "units")) >= 1);
    json_decref(value);
    run_result_free(&result);
    result = RUN(NULL, "devices");
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.output, "host"));
    run_result_free(&result);
}

static void absent_devices(void **state) {
    (void)state;
    expect(3, "cuda:99", RUN(NULL, "query", "--seq-len", "1", "--device", "cuda:99"));
    expect(3, "neither cuda:N nor host", RUN(NULL, "query", "--seq-len", "1", "--device", "toaster"));
    expect(3, "cuda:99", RUN(NULL, "verify", "--device", "cuda:99", "--tokens", "1"));
    expect(3, "cuda:99", RUN(NULL, "bench", "--device", "cuda:99", "--tokens", "1"));
}

static void files_are_whole_or_absent(void **state) {
    (void)state;
    const char *odd = path_in(folder, "a b'\"$ü;.json");
    expect(0, NULL, RUN(NULL, "devices", "--output", odd));
    json_t *value = json_load_file(odd, 0, NULL);
    assert_non_null(value);
    json_decref(value);
    expect(1, "cannot be written", RUN(NULL, "devices", "--output", path_in(folder, "missing/x.json")));
    if (access("/dev/full", W_OK) == 0) {
        expect(1, "/dev/full cannot be written: No space left", RUN(NULL, "devices", "--output", "/dev/full"));
        run_surroundings full = {.output_path = "/dev/full"};
        expect(1, "standard output cannot be written", RUN(&full, "devices"));
        expect(1, "standard output cannot be written", RUN(&full, "devices", "--json"));
        expect(1, "standard output cannot be written", RUN(&full, "emit", "--list"));
        expect(1, "standard output cannot be written", RUN(&full, "--help"));
    }
}

static void emit(void **state) {
    (void)state;
    run_result list = RUN(NULL, "emit", "--list", "--json");
    assert_int_equal(list.code, 0);
    json_t *value = json_loads(list.output, 0, NULL);
    json_t *host = json_object_get(json_object_get(value, "kernels"), "host_gemm");
    assert_non_null(host);
    assert_true(json_array_size(json_object_get(host, "params")) > 0);
    json_decref(value);
    run_result_free(&list);
    run_result text = RUN(NULL, "emit", "--kernel", "host_gemm", "--arch", "x86-64-v3", "--set", "tile_m=128");
    assert_int_equal(text.code, 0);
    assert_non_null(strstr(text.output, "void"));
    run_result other = RUN(NULL, "emit", "--kernel", "host_gemm", "--arch", "x86-64-v3", "--set", "tile_m=256");
    assert_int_equal(other.code, 0);
    assert_string_not_equal(text.output, other.output);
    run_result_free(&other);
    const char *file = path_in(folder, "kernel.c");
    expect(0, NULL,
           RUN(NULL, "emit", "--kernel", "host_gemm", "--arch", "x86-64-v3", "--set", "tile_m=128", "--output", file));
    FILE *stream = fopen(file, "r");
    assert_non_null(stream);
    char *written = calloc(1, strlen(text.output) + 2);
    assert_int_equal(fread(written, 1, strlen(text.output) + 1, stream), strlen(text.output));
    assert_string_equal(written, text.output);
    free(written);
    (void)fclose(stream);
    run_result_free(&text);
    run_result launches = RUN(NULL, "emit", "--kernel", "host_gemm", "--arch", "x86-64-v3", "--launches");
    assert_int_equal(launches.code, 0);
    value = json_loads(launches.output, 0, NULL);
    assert_true(json_array_size(json_object_get(value, "launches")) >= 4);
    json_decref(value);
    run_result_free(&launches);
    expect(2, "no_such_parameter",
           RUN(NULL, "emit", "--kernel", "host_gemm", "--arch", "x86-64-v3", "--set", "no_such_parameter=1"));
    expect(2, "7", RUN(NULL, "emit", "--kernel", "host_gemm", "--arch", "x86-64-v3", "--set", "tile_m=7"));
    expect(2, "no kernel 'nothing'", RUN(NULL, "emit", "--kernel", "nothing", "--arch", "x86-64-v3"));
    expect(2, "sm_1", RUN(NULL, "emit", "--kernel", "host_gemm", "--arch", "sm_1"));
    expect(2, "no_such_role",
           RUN(NULL, "emit", "--kernel", "host_gemm", "--arch", "x86-64-v3", "--role", "no_such_role"));
    expect(2, "tile_m",
           RUN(NULL, "emit", "--kernel", "host_gemm", "--arch", "x86-64-v3", "--set", "tile_m=7", "--launches"));
    expect(1, "host_gemm", RUN(NULL, "emit", "--kernel", "host_gemm", "--arch", "sm_90a")); /* known, but not there */
    expect(2, "sm_1", RUN(NULL, "compile", "--arch", "sm_1", "--db", path_in(folder, "no arch.sqlite")));
    expect(1, "missing", RUN(NULL, "emit", "--list", "--templates", path_in(folder, "missing")));
}

static void locales_change_nothing(void **state) {
    (void)state;
    static const char *const settings[] = {"LC_ALL=de_DE.UTF-8", "LC_ALL=nonsense", "LC_ALL"};
    run_result first = RUN(NULL, "emit", "--list", "--json");
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        run_surroundings around = {.environment = (const char *const[]){settings[i], NULL}};
        run_result result = RUN(&around, "emit", "--list", "--json");
        assert_int_equal(result.code, 0);
        assert_string_equal(result.output, first.output);
        run_result_free(&result);
    }
    run_result_free(&first);
}

static void no_home(void **state) {
    (void)state;
    run_surroundings around = {.environment = (const char *const[]){"HOME", "XDG_DATA_HOME", "MLPBWD_DATABASE", NULL}};
    expect(1, "--db", RUN(&around, "tune", "--device", "host", "--tokens", "1"));
    expect(1, "--db", RUN(&around, "db", "check"));
    expect(0, NULL, RUN(&around, "devices"));
}

static void unprivileged(void **state) {
    (void)state;
    const struct passwd *nobody = getpwnam("nobody");
    if (geteuid() != 0 || nobody == NULL) {
        skip();
        return;
    }
    run_surroundings around = {.user = (unsigned)nobody->pw_uid,
                               .folder = "/",
                               .environment = (const char *const[]){"HOME=/nonexistent", "XDG_DATA_HOME", NULL}};
    run_result reachable = RUN(&around, "--version");
    bool there = reachable.code == 0;
    run_result_free(&reachable);
    if (!there) {
        skip(); /* the build folder is closed to other users */
    }
    expect(0, NULL, RUN(&around, "devices"));
    expect(1, "cannot", RUN(&around, "devices", "--output", path_in(folder, "x.json")));
    expect(
        1, "tuning.sqlite",
        RUN(&around, "tune", "--device", "host", "--tokens", "1", "--hidden-size", "64", "--intermediate-size", "64"));
}

/* A database with a row for exactly this machine and T = 7 whose code was made nowhere, and perhaps a default row. */
static void make_database_without_code(const char *path, bool with_default, char *device_name, size_t capacity) {
    char code[DB_HASH_CAPACITY], source[DB_HASH_CAPACITY];
    dev *device = NULL;
    mlp_message why = {""};
    if (with_default) {
        tiny_default_database(path, true, false);
    }
    db *database = tiny_database(path, false, source, code);
    assert_int_equal(dev_open("host", &device, &why), MLPBWD_OK);
    const dev_info *info = dev_get_info(device);
    const tiny_row row = {.arch = tiny_host_arch(),
                          .device_name = info->name,
                          .units = info->units,
                          .tokens = 7,
                          .hidden_size = 64,
                          .intermediate_size = 64,
                          .median_us = 10,
                          .plan = {.source = source}};
    tiny_put(database, &row);
    (void)snprintf(device_name, capacity, "%s", info->name);
    db_close(database);
    dev_release(device);
}

static void expect_answer(const char *told, const char *device, const char *match, int code, run_result result) {
    json_t *value = json_loads(result.output, 0, NULL);
    const char *found = json_string_value(json_object_get(value, "match"));
    assert_string_equal(json_string_value(json_object_get(value, "device")), device);
    assert_string_equal(found != NULL ? found : "none", match);
    json_decref(value);
    expect(code, told, result);
}

/* What there was no time to compile is no failure: nothing is written of it, and the budget is named. */
static void a_budget_of_nothing(void **state) {
    (void)state;
    const char *path = path_in(folder, "short.sqlite");
    run_result result = RUN(NULL, "tune", "--device", "host", "--tokens", "7", "--hidden-size", "64",
                            "--intermediate-size", "64", "--budget", "0.001s", "--db", path, "--json");
    assert_int_equal(result.code, 1);
    assert_non_null(strstr(result.errors, "the budget ended before a pass was right"));
    assert_null(strstr(result.errors, "the default pass fails"));
    json_t *summary = json_loads(result.output, 0, NULL);
    assert_true(json_is_true(json_object_get(summary, "budget_ended")));
    json_decref(summary);
    run_result_free(&result);
    expect(4, NULL, RUN(NULL, "db", "list", "--candidates", "--db", path));
}

/* As the library does: on the device at hand a row without machine code is passed over. */
static void query_passes_over_what_cannot_run(void **state) {
    (void)state;
    char device[256];
    const char *path = path_in(folder, "no code.sqlite");
    make_database_without_code(path, true, device, sizeof device);
#define QUERY(name)                                                                                                    \
    RUN(NULL, "query", "--db", path, "--tokens", "7", "--hidden-size", "64", "--intermediate-size", "64", "--json",    \
        "--device", name)
    expect_answer("left out: the plan of rung \"exact\"", "host", "default", 0, QUERY("host"));
    expect_answer("", device, "exact", 0, QUERY(device)); /* another such machine may have a compiler */
    path = path_in(folder, "no code at all.sqlite");
    make_database_without_code(path, false, device, sizeof device);
    expect_answer("MLPBWD_FLAG_ALLOW_COMPILE", "host", "none", 4, QUERY("host"));
#undef QUERY
}

/* So does `verify`, which compiles only where nothing else is left. */
static void verify_passes_over_what_cannot_run(void **state) {
    (void)state;
    for (int with_default = 1; with_default >= 0; with_default--) {
        char device[256];
        const char *path = path_in(folder, with_default ? "verified.sqlite" : "compiled.sqlite");
        make_database_without_code(path, with_default, device, sizeof device);
        run_result result = RUN(NULL, "verify", "--db", path, "--device", "host", "--tokens", "7", "--hidden-size",
                                "64", "--intermediate-size", "64", "--accuracy", "tf32", "--json");
        json_t *value = json_loads(result.output, 0, NULL);
        const json_t *row = json_array_get(json_object_get(value, "results"), 0);
        const char *match = json_string_value(json_object_get(row, "match"));
        assert_string_equal(match != NULL ? match : "none", with_default ? "default" : "exact");
        json_decref(value);
        expect(0, "left out: plan of rung \"exact\"", result);
    }
}

/* A bad user's database that nobody named is one warning. */
static void bad_user_database(void **state) {
    (void)state;
    char users[4200], shipped[4200], variable[3][4300];
    (void)snprintf(users, sizeof users, "%s/mlpbwd", folder);
    assert_int_equal(mkdir(users, 0755), 0);
    (void)snprintf(users, sizeof users, "%s/mlpbwd/tuning.sqlite", folder);
    (void)snprintf(shipped, sizeof shipped, "%s/shipped.sqlite", folder);
    FILE *file = fopen(users, "w");
    assert_non_null(file);
    assert_true(fputs("no database\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    tiny_default_database(shipped, true, false);
    (void)snprintf(variable[0], sizeof variable[0], "XDG_DATA_HOME=%s", folder);
    (void)snprintf(variable[1], sizeof variable[1], "MLPBWD_SHIPPED_DATABASE=%s", shipped);
    run_surroundings around = {.environment = (const char *const[]){"MLPBWD_DATABASE", variable[0], variable[1], NULL}};
    expect(0, "the user's database is left out", RUN(&around, "query", "--device", "host", "--tokens", "5"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_everywhere),
        cmocka_unit_test(unknown_words),
        cmocka_unit_test(numbers),
        cmocka_unit_test(devices),
        cmocka_unit_test(absent_devices),
        cmocka_unit_test(files_are_whole_or_absent),
        cmocka_unit_test(emit),
        cmocka_unit_test(locales_change_nothing),
        cmocka_unit_test(no_home),
        cmocka_unit_test(unprivileged),
        cmocka_unit_test(a_budget_of_nothing),
        cmocka_unit_test(query_passes_over_what_cannot_run),
        cmocka_unit_test(verify_passes_over_what_cannot_run),
        cmocka_unit_test(bad_user_database),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
