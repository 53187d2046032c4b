/* The command line on real work, small, on host: ship, query, verify, bench, tune, and the database commands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <jansson.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/device.h"
#include "run_tool.h"

#define RUN(around, ...) run_program((const char *const[]){TOOL, __VA_ARGS__, NULL}, around)
#define SMALL "--hidden-size", "64", "--intermediate-size", "128"

static char folder[4096];
static char templates[4096]; /* a folder whose arch files ship for the host only, so that shipping takes seconds */
static char shipped[4096];
static char tuned[4096];

static char *load(const char *path) {
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return NULL;
    }
    char *text = calloc(1, 1 << 24);
    size_t got = text != NULL ? fread(text, 1, (1 << 24) - 1, file) : 0;
    (void)got;
    (void)fclose(file);
    return text;
}

static void save(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* text with the first `from` replaced; malloc'ed. */
static char *replaced(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    char *result = NULL;
    if (at == NULL || asprintf(&result, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) < 0) {
        return NULL;
    }
    return result;
}

static void copy_archs(void) {
    const char *source = SOURCE_DIR "/templates/arch";
    DIR *entries = opendir(source);
    assert_non_null(entries);
    for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        if (strstr(entry->d_name, ".lua") == NULL || strncmp(entry->d_name, "x86", 3) == 0) {
            continue;
        }
        char *text = load(path_in(source, entry->d_name));
        assert_non_null(text);
        char *changed = replaced(text, "ship = true", "ship = false");
        save(path_in(path_in(templates, "arch"), entry->d_name), changed != NULL ? changed : text);
        free(changed);
        free(text);
    }
    (void)closedir(entries);
}

static int set_up(void **state) {
    (void)state;
    make_folder(folder, sizeof folder);
    (void)snprintf(templates, sizeof templates, "%s", path_in(folder, "host only"));
    (void)snprintf(shipped, sizeof shipped, "%s", path_in(folder, "shipped.sqlite"));
    (void)snprintf(tuned, sizeof tuned, "%s", path_in(folder, "tuned.sqlite"));
    (void)mkdir(templates, 0755);
    (void)mkdir(path_in(templates, "arch"), 0755);
    copy_archs();
    run_result result = RUN(NULL, "db", "ship", "--templates", templates, "--output", shipped, "--jobs", "2");
    if (result.code != 0) {
        print_error("%s", result.errors);
    }
    int code = result.code;
    run_result_free(&result);
    return code;
}

static int tear_down(void **state) {
    (void)state;
    remove_folder(folder);
    return 0;
}

static void expect(int code, const char *told, run_result result) {
    if (result.code != code || (told != NULL && strstr(result.errors, told) == NULL)) {
        print_error("code %d instead of %d, standard error:\n%s\noutput:\n%s\n", result.code, code, result.errors,
                    result.output);
    }
    assert_int_equal(result.code, code);
    assert_true(told == NULL || strstr(result.errors, told) != NULL);
    run_result_free(&result);
}

/* The JSON that a run printed; the code is checked. */
static json_t *answer(int code, run_result result) {
    if (result.code != code) {
        print_error("code %d instead of %d, standard error:\n%s\n", result.code, code, result.errors);
    }
    assert_int_equal(result.code, code);
    json_t *value = json_loads(result.output, 0, NULL);
    assert_non_null(value);
    run_result_free(&result);
    return value;
}

static const char *text_of(const json_t *value, const char *key) {
    const char *text = json_string_value(json_object_get(value, key));
    return text != NULL ? text : "(none)";
}

static bool same_bytes(const char *left, const char *right) {
    FILE *a = fopen(left, "r");
    FILE *b = fopen(right, "r");
    bool same = a != NULL && b != NULL;
    int one = 0;
    while (same && one != EOF) {
        one = fgetc(a);
        same = one == fgetc(b);
    }
    (void)(a != NULL && fclose(a));
    (void)(b != NULL && fclose(b));
    return same;
}

static void ship_repeats_itself(void **state) {
    (void)state;
    const char *again = path_in(folder, "again.sqlite");
    expect(0, " 0 unchanged", RUN(NULL, "db", "ship", "--templates", templates, "--output", again));
    assert_true(same_bytes(shipped, again));
    expect(0, "Kernels: 0 compiled", RUN(NULL, "db", "ship", "--templates", templates, "--output", again));
    assert_true(same_bytes(shipped, again));
    expect(0, NULL, RUN(NULL, "db", "check", "--db", shipped));
    struct stat facts;
    assert_int_equal(stat(shipped, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0644);
    assert_int_not_equal(access(path_in(folder, "again.sqlite.new"), F_OK), 0);
}

static void query_answers(void **state) {
    (void)state;
    json_t *value = answer(
        0, RUN(NULL, "query", "--db", shipped, "--device", "host", "--batch", "4", "--seq-len", "541", "--json"));
    assert_int_equal(json_integer_value(json_object_get(value, "tokens")), 2164);
    assert_string_equal(text_of(value, "device"), "host");
    assert_string_equal(text_of(value, "match"), "default");
    assert_true(json_is_null(json_object_get(value, "median_us")));
    assert_int_equal(json_integer_value(json_object_get(value, "measured_tokens")), 0);
    assert_string_equal(text_of(value, "database"), shipped);
    assert_string_not_equal(text_of(value, "pipeline"), "(none)");
    assert_true(json_object_size(json_object_get(value, "parameters")) >= 4);
    json_decref(value);
    expect(4, "rung \"default\"", RUN(NULL, "query", "--db", shipped, "--device", "host", "--tokens", "5", "--exact"));
    /* An architecture that nothing was shipped for. */
    expect(4, NULL, RUN(NULL, "query", "--db", shipped, "--device", "sm_90a", "--tokens", "5"));
    value = answer(0, RUN(NULL, "query", "--db", shipped, "--device", "x86-64-v3", "--suite", "--json"));
    assert_int_equal(json_array_size(value), 9);
    json_decref(value);
    expect(1, "missing.sqlite", RUN(NULL, "query", "--db", path_in(folder, "missing.sqlite"), "--tokens", "5"));
    run_surroundings damaged = {.environment = (const char *const[]){"MLPBWD_FORCE=/nonexistent/row.json", NULL}};
    expect(1, "/nonexistent/row.json", RUN(&damaged, "query", "--db", shipped, "--device", "host", "--tokens", "5"));
}

/* Nobody's home, nobody's rights, another locale, a read-only folder: the shipped database answers. */
static void hostile_surroundings(void **state) {
    (void)state;
    char variable[5000];
    (void)snprintf(variable, sizeof variable, "MLPBWD_SHIPPED_DATABASE=%s", shipped);
    const struct passwd *nobody = getpwnam("nobody");
    run_surroundings around = {.environment = (const char *const[]){"HOME", "XDG_DATA_HOME", "MLPBWD_DATABASE",
                                                                    "LC_ALL=de_DE.UTF-8", variable, NULL},
                               .user = geteuid() == 0 && nobody != NULL ? (unsigned)nobody->pw_uid : 0,
                               .folder = "/"};
    run_result reachable = RUN(&around, "--version");
    if (reachable.code != 0) {
        around.user = 0; /* the build folder is closed to other users */
    }
    run_result_free(&reachable);
    assert_int_equal(chmod(folder, 0555), 0);
    json_t *value = answer(0, RUN(&around, "query", "--device", "host", "--tokens", "300", "--json"));
    assert_string_equal(text_of(value, "database"), shipped);
    json_decref(value);
    value =
        answer(0, RUN(&around, "bench", "--device", "host", "--tokens", "8", SMALL, "--repetitions", "2", "--json"));
    assert_true(json_number_value(json_object_get(json_object_get(value, "geomean"), "ours")) > 0.0);
    json_decref(value);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_not_equal(access(path_in(folder, "shipped.sqlite-journal"), F_OK), 0);
}

static void verify_accepts_and_refuses(void **state) {
    (void)state;
    json_t *value = answer(0, RUN(NULL, "verify", "--db", shipped, "--device", "host", "--tokens", "0,1,65", SMALL,
                                  "--samples", "0", "--inputs", "all", "--json"));
    assert_int_equal(json_array_size(json_object_get(value, "results")), 3 * 4 * 3 * 2);
    json_decref(value);
    expect(0, NULL,
           RUN(NULL, "verify", "--every-pipeline", "--device", "host", "--tokens", "63", SMALL, "--accuracy", "fp32",
               "--accumulate"));
    /* Negative control: a GELU that is slightly wrong must fail. */
    const char *broken = path_in(folder, "broken");
    (void)mkdir(broken, 0755);
    (void)mkdir(path_in(broken, "lib"), 0755);
    char *text = load(SOURCE_DIR "/templates/lib/host_dgelu.c");
    assert_non_null(text);
    char *changed = replaced(text, "0.044715", "0.0448");
    assert_non_null(changed);
    save(path_in(broken, "lib/host_dgelu.c"), changed);
    free(changed);
    free(text);
    expect(1, "checks failed",
           RUN(NULL, "verify", "--default", "--templates", broken, "--device", "host", "--tokens", "65", SMALL,
               "--accuracy", "fp32", "--activation", "gelu_tanh"));
}

static void interruption(void **state) {
    (void)state;
    char tokens[2048] = "65";
    for (size_t i = 0; i < 250; i++) {
        (void)strcat(tokens, ",300");
    }
    run_surroundings around = {.interrupt_after_ms = 700};
#define VERIFY                                                                                                         \
    TOOL, "verify", "--db", shipped, "--device", "host", "--tokens", tokens, "--hidden-size", "512",                   \
        "--intermediate-size", "1024", "--json", NULL
    for (int i = 0; i < 2; i++) { /* once by us; twice in a row, as timeout does it */
        run_result result = i == 0 ? run_program((const char *const[]){VERIFY}, &around)
                                   : run_program((const char *const[]){"/usr/bin/timeout", "--preserve-status", "-s",
                                                                       "INT", "0.7", VERIFY},
                                                 NULL);
        assert_int_equal(result.code, 130);
        json_t *value = json_loads(result.output, 0, NULL);
        assert_true(json_array_size(json_object_get(value, "results")) > 0);
        json_decref(value);
        run_result_free(&result);
    }
#undef VERIFY
}

static void bench_measures(void **state) {
    (void)state;
    const char *file = path_in(folder, "bench.json");
    expect(0, NULL,
           RUN(NULL, "bench", "--db", shipped, "--device", "host", "--tokens", "8,16", SMALL, "--repetitions", "3",
               "--warmup", "1", "--peers", "--output", file));
    json_t *value = json_load_file(file, 0, NULL);
    assert_non_null(value);
    const json_t *rows = json_object_get(value, "rows");
    assert_int_equal(json_array_size(rows), 2);
    const json_t *row = json_array_get(rows, 1);
    const json_t *ours = json_object_get(row, "ours");
    assert_int_equal(json_integer_value(json_object_get(row, "tokens")), 16);
    assert_true(json_number_value(json_object_get(ours, "median_us")) > 0.0);
    assert_int_equal(json_array_size(json_object_get(ours, "times_us")), 3);
    assert_true(json_object_size(json_object_get(ours, "slots")) >= 4);
    assert_true(json_number_value(json_object_get(json_object_get(value, "geomean"), "ours")) > 0.0);
    assert_true(strstr(text_of(value, "protocol"), "3 repetitions after 1") != NULL);
    const json_t *peer = json_array_get(json_object_get(value, "peers"), 0);
    if (json_is_null(json_object_get(peer, "error"))) {
        const json_t *times = json_object_get(json_object_get(row, "peers"), "openblas");
        assert_true(json_number_value(json_object_get(times, "median_us")) > 0.0);
    }
    json_decref(value);
}

static void tune_then_exchange(void **state) {
    (void)state;
    json_t *value = answer(0, RUN(NULL, "tune", "--device", "host", "--db", tuned, "--tokens", "8", SMALL, "--accuracy",
                                  "fp32", "--budget", "15s", "--repetitions", "2", "--warmup", "1", "--json"));
    assert_int_equal(json_array_size(json_object_get(value, "winners")), 1);
    json_decref(value);
    value = answer(0, RUN(NULL, "tune", "--device", "host", "--db", tuned, "--tokens", "8", SMALL, "--accuracy", "fp32",
                          "--budget", "2s", "--repetitions", "2", "--warmup", "1", "--retry-failed", "--json"));
    assert_true(json_integer_value(json_object_get(value, "timed")) > 0); /* the finals again, at least */
    json_decref(value);
    value = answer(0, RUN(NULL, "query", "--db", tuned, "--device", "host", "--tokens", "8", SMALL, "--accuracy",
                          "fp32", "--exact", "--json"));
    assert_string_equal(text_of(value, "match"), "exact");
    assert_true(json_number_value(json_object_get(value, "median_us")) > 0.0);
    json_decref(value);
    /* Parameters only, and back: the plan is made again from the templates. */
    const char *winners = path_in(folder, "winners.json");
    const char *imported = path_in(folder, "imported.sqlite");
    const char *once_more = path_in(folder, "once more.json");
    expect(0, NULL, RUN(NULL, "db", "export", "--db", tuned, "--output", winners));
    value = answer(0, RUN(NULL, "db", "import", "--db", imported, winners, "--json"));
    assert_true(json_integer_value(json_object_get(value, "added")) >= 1); /* the winner, and perhaps defaults */
    json_decref(value);
    expect(0, NULL, RUN(NULL, "db", "check", "--db", imported));
    expect(0, NULL,
           RUN(NULL, "verify", "--db", imported, "--device", "host", "--tokens", "8", SMALL, "--accuracy", "fp32"));
    value = answer(0, RUN(NULL, "db", "list", "--db", imported, "--tokens", "8", "--json"));
    const json_t *row = json_array_get(json_object_get(value, "rows"), 0);
    assert_int_equal(json_integer_value(json_object_get(row, "tokens")), 8);
    assert_string_equal(text_of(row, "origin"), "tune"); /* it says where the row was measured */
    char device[256];
    (void)snprintf(device, sizeof device, "%s", text_of(row, "device"));
    json_decref(value);
    /* The device's name is known to the database: no hardware is asked. */
    value = answer(0, RUN(NULL, "query", "--db", imported, "--device", device, "--tokens", "8", SMALL, "--accuracy",
                          "fp32", "--json"));
    assert_string_equal(text_of(value, "match"), "exact");
    json_decref(value);
    expect(0, NULL, RUN(NULL, "db", "export", "--db", imported, "--output", once_more));
    const char *merged = path_in(folder, "merged.sqlite");
    value = answer(0, RUN(NULL, "db", "merge", "--db", merged, imported, tuned, "--json"));
    assert_true(json_integer_value(json_object_get(value, "added")) >= 1);
    json_decref(value);
    expect(0, NULL, RUN(NULL, "db", "prune", "--db", merged));
    expect(4, "no row matches", RUN(NULL, "db", "list", "--db", merged, "--candidates"));
    expect(0, NULL, RUN(NULL, "db", "list", "--db", tuned, "--candidates"));
    value = answer(0, RUN(NULL, "db", "stats", "--db", merged, "--json"));
    assert_true(json_is_object(value));
    json_decref(value);
    /* Shipped with its winner. */
    const char *with_winner = path_in(folder, "with winner.sqlite");
    expect(0, " winners", RUN(NULL, "db", "ship", "--templates", templates, "--output", with_winner, winners));
    expect(0, NULL,
           RUN(NULL, "query", "--db", with_winner, "--device", "host", "--tokens", "8", SMALL, "--accuracy", "fp32",
               "--exact"));
}

static json_int_t compile_share(const char *share, const char *database) {
    json_t *summary = answer(0, RUN(NULL, "compile", "--arch", "generic", "--db", database, "--tokens", "64", SMALL,
                                    "--accuracy", "fp32", "--shard", share, "--json"));
    json_int_t compiled = json_integer_value(json_object_get(summary, "compiled"));
    json_decref(summary);
    return compiled;
}

static void shares_of_compiling_make_the_whole(void **state) {
    (void)state;
    char parts[3][4096];
    json_int_t counts[3];
    for (int i = 0; i < 3; i++) {
        char name[32], share[16];
        (void)snprintf(name, sizeof name, "part %d.sqlite", i + 1);
        (void)snprintf(share, sizeof share, "%d/3", i + 1);
        (void)snprintf(parts[i], sizeof parts[i], "%s", path_in(folder, name));
        counts[i] = compile_share(share, parts[i]);
        assert_true(counts[i] > 0);
    }
    json_int_t whole = compile_share("1/1", path_in(folder, "whole.sqlite"));
    assert_true(counts[0] < whole || counts[1] < whole || counts[2] < whole);
    assert_true(counts[0] + counts[1] + counts[2] >= whole);
    const char *merged = path_in(folder, "merged parts.sqlite");
    expect(0, NULL, RUN(NULL, "db", "merge", "--db", merged, parts[0], parts[1], parts[2]));
    assert_int_equal(compile_share("1/1", merged), 0);
}

/* No device is asked: the architecture's file says how many units its part has, a host's "those of this machine". */
static void compile_without_a_device(void **state) {
    (void)state;
    const char *database = path_in(folder, "compiled.sqlite");
    json_t *summary = answer(0, RUN(NULL, "compile", "--arch", "generic", "--db", database, "--tokens", "64", SMALL,
                                    "--accuracy", "fp32", "--json"));
    assert_true(json_integer_value(json_object_get(json_object_get(summary, "candidates"), "compiled")) > 0);
    assert_int_equal(json_array_size(json_object_get(summary, "failed")), 0);
    json_decref(summary);
    json_t *rows = answer(0, RUN(NULL, "db", "list", "--db", database, "--candidates", "--json"));
    assert_true(json_array_size(json_object_get(rows, "rows")) > 0);
    json_decref(rows);
    char version[64];
    if (dev_compiler_version("nvrtc", version, sizeof version, NULL) != MLPBWD_OK) {
        skip();
    }
    const char *cuda = path_in(folder, "cuda.sqlite"); /* one share of many, so that it takes seconds */
    summary = answer(0, RUN(NULL, "compile", "--arch", "sm_80", "--db", cuda, "--tokens", "64", SMALL, "--accuracy",
                            "fp32", "--shard", "1/1000", "--json"));
    assert_true(json_integer_value(json_object_get(json_object_get(summary, "candidates"), "compiled")) > 0);
    assert_int_equal(json_array_size(json_object_get(summary, "failed")), 0);
    json_decref(summary);
}

static void bad_files(void **state) {
    (void)state;
    const char *garbage = path_in(folder, "garbage");
    save(garbage, "this is no database and no JSON");
    expect(1, "garbage", RUN(NULL, "db", "check", "--db", garbage));
    expect(1, "garbage", RUN(NULL, "db", "merge", "--db", path_in(folder, "m.sqlite"), garbage));
    expect(1, "garbage", RUN(NULL, "db", "import", "--db", path_in(folder, "m.sqlite"), garbage));
    expect(1, "garbage", RUN(NULL, "query", "--db", garbage, "--tokens", "1"));
    const char *output = path_in(folder, "unharmed.sqlite");
    expect(1, "garbage", RUN(NULL, "db", "ship", "--templates", templates, "--output", output, garbage));
    assert_int_not_equal(access(output, F_OK), 0);
    save(garbage, "{\"format\":\"mlpbwd-winners\",\"version\":1,\"rows\":[{\"tokens\":-5}]}");
    expect(1, "garbage", RUN(NULL, "db", "import", "--db", path_in(folder, "m.sqlite"), garbage));
    expect(2, "sm_1", RUN(NULL, "compile", "--arch", "sm_1", "--db", path_in(folder, "m.sqlite"), "--tokens", "8"));
    expect(1, "garbage", RUN(NULL, "db", "ship", "--output", path_in(garbage, "x.sqlite"), "--templates", templates));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ship_repeats_itself),
        cmocka_unit_test(query_answers),
        cmocka_unit_test(hostile_surroundings),
        cmocka_unit_test(verify_accepts_and_refuses),
        cmocka_unit_test(interruption),
        cmocka_unit_test(bench_measures),
        cmocka_unit_test(tune_then_exchange),
        cmocka_unit_test(compile_without_a_device),
        cmocka_unit_test(shares_of_compiling_make_the_whole),
        cmocka_unit_test(bad_files),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
