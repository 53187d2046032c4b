/* Machine code made ahead: it covers all that a sweep may come to, whatever chance and times choose; the sweep then
 * compiles nothing, and knows what does not compile and why. The worker and compile processes are this program itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "db_fixture.h"
#include "sweep_fixture.h"

static const int64_t tokens[] = {40};
static char own_templates[512];
static const char *const folders[] = {own_templates, SOURCE_DIR "/tests/fault/templates"};

/* Instead of the kernel with planted faults: one source for all `threads`, another one that does not compile; how many
 * variants are worth timing depends on the device's units. */
static const char *const KERNEL =
    "local rest = import 'lib/rest.lua'\n"
    "return { name = 'planted_rest', doc = 'd', roles = { 'bias_reduce' }, needs = { 'host' }, accuracies = { 'fp32' "
    "},\n"
    "  rank = 900, operands = rest.operands,\n"
    "  params = { { name = 'broken', doc = 'd', values = { false, true }, default = false },\n"
    "    { name = 'threads', doc = 'd', default = 1, values = function(c)\n"
    "      local list = {} for i = 1, %d do list[i] = i end return list end } },\n"
    "  valid = function(c) if c.p.broken and c.p.threads > 1 then return false, 'one is enough' end return true end,\n"
    "  prune = function(c, problem)\n"
    "    if c.p.threads > 1 and c.p.threads %% problem.units ~= 0 then return false, 'uneven' end return true end,\n"
    "  source = function(c)\n"
    "    return fill(text 'lib/naive_rest.c', { fault = c.p.broken and 'this is no statement;' or '' }) end,\n"
    "  launches = function(c) return rest.launches(c.p.threads) end }\n";

static void write_kernel(void **state, int variants) {
    char text[4096];
    (void)mkdir(fixture_path(state, "templates"), 0700);
    (void)mkdir(fixture_path(state, "templates/kernels"), 0700);
    int length = snprintf(text, sizeof text, KERNEL, variants);
    fixture_write(fixture_path(state, "templates/kernels/planted_rest.lua"), text, (size_t)length);
    snprintf(own_templates, sizeof own_templates, "%s", fixture_path(state, "templates"));
}

static tune_options options_for(void **state, const char *name) {
    static char database[512];
    snprintf(database, sizeof database, "%s", fixture_path(state, name));
    return (tune_options){.database_path = database,
                          .template_folders = folders,
                          .template_folder_count = 2,
                          .tokens = tokens,
                          .token_count = 1,
                          .hidden_size = 64,
                          .intermediate_size = 64,
                          .accuracy = MLPBWD_ACCURACY_FP32,
                          .jobs = 2,
                          .repetitions = 3,
                          .warmup = 1};
}

static json_int_t integer(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

/* The only failure is the variant that does not compile; its reason, borrowed. */
static const char *only_failure(const json_t *summary) {
    const json_t *failed = json_object_get(summary, "failed"), *first = json_array_get(failed, 0);
    assert_int_equal(json_array_size(failed), 1);
    assert_string_equal(json_string_value(json_object_get(first, "outcome")), "compile_failed");
    assert_non_null(strstr(json_string_value(json_object_get(first, "parameters")), "\"broken\":true"));
    return json_string_value(json_object_get(first, "reason"));
}

static void a_sweep_then_compiles_nothing(void **state) {
    if (!sweep_host_compiles())
        skip();
    write_kernel(state, 2);
    tune_options options = options_for(state, "ready.sqlite");
    options.device = "host";
    options.compile_only = true;
    json_t *ahead = sweep_run(&options);
    assert_true(integer(ahead, "compiled") >= 2);
    const char *reason = only_failure(ahead);
    assert_non_null(strstr(reason, "could not compile"));

    options.compile_only = false;
    options.no_compile = true;
    json_t *sweep = sweep_run(&options);
    assert_int_equal(integer(sweep, "compiled"), 0);
    assert_true(integer(sweep, "timed") > 0);
    assert_string_equal(only_failure(sweep), reason);
    assert_int_equal(integer(json_object_get(sweep, "candidates"), "invalid"), 0);
    assert_int_equal(json_array_size(json_object_get(sweep, "winners")), 1);
    json_decref(sweep);

    /* with the compiler there is nothing left to compile, either */
    options.no_compile = false;
    options.retry_failed = false;
    sweep = sweep_run(&options);
    assert_int_equal(integer(sweep, "compiled"), 0);
    assert_int_equal(integer(sweep, "timed"), 0);
    json_decref(sweep);
    json_decref(ahead);
}

static void without_code_nothing_can_be_done(void **state) {
    write_kernel(state, 2);
    tune_options options = options_for(state, "empty.sqlite");
    options.device = "host";
    options.no_compile = true;
    json_t *summary = NULL;
    mlp_message why = {""};
    assert_int_equal(tune_run(&options, &summary, &why), MLPBWD_UNSUPPORTED);
    if (!strstr(why.text, "no machine code for") || !strstr(why.text, "mlpbwd compile"))
        fail_msg("%s", why.text);
    options.device = NULL;
    options.compile_only = true;
    assert_int_equal(tune_run(&options, &summary, &why), MLPBWD_INVALID_ARGUMENT);
    assert_non_null(strstr(why.text, "neither"));
    options.arch = "generic";
    options.device = "host";
    assert_int_equal(tune_run(&options, &summary, &why), MLPBWD_INVALID_ARGUMENT);
    assert_non_null(strstr(why.text, "both"));
}

/* ---- the same candidates on both machines ---- */

static mlpbwd_status note_row(void *user, const db_candidate *row, mlp_message *why) {
    (void)why;
    char *key = NULL;
    if (row->slot[0] && asprintf(&key, "%s %s %s %s", row->pipeline, row->slot, row->kernel, row->parameters) > 0)
        json_object_set_new(user, key, json_string(row->source_hash));
    free(key);
    return MLPBWD_OK;
}

/* Candidates of a device ("": made ahead) -> source. */
static json_t *candidates(const char *path, const char *device) {
    db *database = fixture_open(path, DB_READ_ONLY);
    json_t *rows = json_object();
    db_candidate like = {
        .device_name = device, .units = -1, .tokens = -1, .hidden_size = -1, .intermediate_size = -1, .accuracy = -1};
    assert_int_equal(db_each_candidate(database, &like, note_row, rows, NULL), MLPBWD_OK);
    db_close(database);
    return rows;
}

static json_t *made_ahead(void **state, const char *name, int units) {
    tune_options options = options_for(state, name);
    options.compile_only = true;
    options.arch = "generic";
    options.units = units;
    json_decref(sweep_run(&options));
    return candidates(options.database_path, "");
}

/* What a sweep with this seed tries on a device of so many units, by recorded times that draw it to neighbours. */
static json_t *tried(void **state, int units, unsigned seed) {
    char name[64], path[512];
    snprintf(name, sizeof name, "tried%d_%u.sqlite", units, seed);
    snprintf(path, sizeof path, "%s", fixture_path(state, "recording.json"));
    json_t *times = json_object();
    for (int threads = 1; threads <= 200; threads++) {
        char key[128];
        snprintf(key, sizeof key, "rest/planted_rest/{\"broken\":false,\"threads\":%d}/40", threads);
        json_object_set_new(times, key, json_real(10 + abs(threads - 77)));
    }
    json_t *recording = json_pack("{s:{s:s,s:s,s:i},s:o,s:f}", "device", "name", "Recorded", "arch", "generic", "units",
                                  units, "times", times, "otherwise", 500.0);
    assert_int_equal(json_dump_file(recording, path, 0), 0);
    json_decref(recording);
    tune_options options = options_for(state, name);
    options.replay_path = path;
    options.seed = seed;
    json_decref(sweep_run(&options));
    return candidates(options.database_path, "Recorded");
}

static void everything_was_made_ahead(void **state) {
    if (!sweep_host_compiles())
        skip();
    write_kernel(state, 200);
    json_t *one = made_ahead(state, "one.sqlite", 1), *two = made_ahead(state, "two.sqlite", 2), *hash;
    const char *key;
    assert_true(json_object_size(one) >= 201);
    assert_true(json_object_size(two) >= 101 && json_object_size(two) < json_object_size(one));
    json_object_foreach(two, key, hash) /* units decide what is tried, and never what its source is */
        assert_true(json_equal(hash, json_object_get(one, key)));
    for (int units = 1; units <= 2; units++)
        for (unsigned seed = 0; seed < 2; seed++) {
            json_t *rows = tried(state, units, 7 * seed);
            assert_true(json_object_size(rows) > 90);
            json_object_foreach(rows, key, hash) if (!json_equal(hash, json_object_get(units == 1 ? one : two, key)))
                fail_msg("%d units, seed %u: not made ahead: %s", units, 7 * seed, key);
            json_decref(rows);
        }
    json_decref(one);
    json_decref(two);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, fixture_folder, fixture_remove)

int main(int argc, char **argv) {
    int code = 0;
    if (sweep_was_child(argc, argv, &code))
        return code;
    const struct CMUnitTest tests[] = {TEST(a_sweep_then_compiles_nothing), TEST(without_code_nothing_can_be_done),
                                       TEST(everything_was_made_ahead)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
