/* The look-up ladder over real database files and made-up devices. Rows are told apart by their "factor". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "lookup.h"
#include "tiny.h"

static char folder[64], user_path[128], shipped_path[128];
static char source[DB_HASH_CAPACITY];

static const dev_info h200 = {.id = "cuda:0",
                              .backend = "cuda",
                              .name = "NVIDIA H200",
                              .arch = "sm_90a",
                              .ladder = {"sm_90a", "compute_80"},
                              .ladder_length = 2,
                              .compute_capability = 90,
                              .units = 132};

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/mlpbwd-lookup-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(user_path, sizeof user_path, "%s/user.sqlite", folder);
    snprintf(shipped_path, sizeof shipped_path, "%s/shipped.sqlite", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(user_path);
    unlink(shipped_path);
    return rmdir(folder);
}

/* What a row is about; the rest is the H200's. */
typedef struct row {
    const char *device, *arch;
    int64_t tokens, h, i, least, most;
    int id, units, accuracy;
} row;

static void put(const char *path, const row *rows, size_t count) {
    unlink(path);
    char code[DB_HASH_CAPACITY];
    db *database = tiny_database(path, false, source, code);
    for (size_t r = 0; r < count; r++) {
        const bool is_default = rows[r].device && !rows[r].device[0];
        const tiny_row stored = {.arch = rows[r].arch ? rows[r].arch : "sm_90a",
                                 .device_name = rows[r].device ? rows[r].device : h200.name,
                                 .units = is_default      ? 0
                                          : rows[r].units ? rows[r].units
                                                          : 132,
                                 .compute_capability = is_default ? 0 : 90,
                                 .tokens = rows[r].tokens,
                                 .hidden_size = rows[r].h,
                                 .intermediate_size = rows[r].i,
                                 .min_tokens = rows[r].least,
                                 .max_tokens = rows[r].most,
                                 .accuracy = rows[r].accuracy,
                                 .median_us = is_default ? -1 : 100 + rows[r].id,
                                 .plan = {.factor = rows[r].id, .source = source}};
        tiny_put(database, &stored);
    }
    db_close(database);
}

static const mlpbwd_problem suite = {.batch_size = 4, .seq_len = 541, .hidden_size = 2048, .intermediate_size = 8192};

/* Asks both databases (the second may be absent) about T tokens. */
static mlpbwd_status ask(const dev_info *device, int64_t tokens, int accuracy, const char *forced, char *match, int *id,
                         char **json, mlp_message *why) {
    mlpbwd_problem problem = suite;
    problem.batch_size = 1;
    problem.seq_len = tokens;
    problem.accuracy = accuracy;
    db *databases[2];
    size_t count = 0;
    if (access(user_path, F_OK) == 0)
        assert_int_equal(db_open(user_path, DB_READ_ONLY, &databases[count++], why), MLPBWD_OK);
    if (access(shipped_path, F_OK) == 0)
        assert_int_equal(db_open(shipped_path, DB_READ_ONLY, &databases[count++], why), MLPBWD_OK);
    const lookup_request request = {
        .device = device, .problem = &problem, .databases = databases, .database_count = count, .forced_path = forced};
    lookup_answer answer;
    mlpbwd_status status = lookup_find(&request, &answer, why);
    if (status == MLPBWD_OK) {
        strcpy(match, answer.match);
        json_t *row_json = json_loads(answer.row_json, 0, NULL);
        json_t *parameters = json_object_get(json_object_get(row_json, "parameters"), "fc2_dgrad");
        *id = (int)json_integer_value(json_object_get(parameters, "factor"));
        json_decref(row_json);
        if (json)
            *json = lookup_answer_json(&request, &answer);
        assert_non_null(answer.plan_json);
    }
    lookup_answer_free(&answer);
    while (count > 0)
        db_close(databases[--count]);
    return status;
}

static void expect(const dev_info *device, int64_t tokens, const char *match, int id) {
    char found[32] = "";
    int found_id = 0;
    mlp_message why = {0};
    if (ask(device, tokens, 0, NULL, found, &found_id, NULL, &why) != MLPBWD_OK)
        fail_msg("T = %lld: %s", (long long)tokens, why.text);
    if (strcmp(found, match) != 0 || found_id != id)
        fail_msg("T = %lld: rung %s, row %d instead of %s, %d", (long long)tokens, found, found_id, match, id);
}

static void test_rungs_are_the_outer_loop(void **state) {
    (void)state;
    const row user[] = {{.id = 1, .tokens = 512, .h = 2048, .i = 8192}, {.id = 2, .device = "", .arch = "sm_90a"}};
    const row shipped[] = {{.id = 3, .tokens = 512, .h = 2048, .i = 8192},
                           {.id = 4, .tokens = 1024, .h = 2048, .i = 8192},
                           {.id = 5, .device = "", .arch = "sm_90a"}};
    put(user_path, user, 2);
    put(shipped_path, shipped, 3);
    expect(&h200, 512, "exact", 1);    /* the user's before the shipped */
    expect(&h200, 1024, "exact", 4);   /* the shipped exact before the user's nearest */
    expect(&h200, 1100, "nearest", 1); /* the user's, though the shipped one is nearer */
    dev_info other = h200;
    strcpy(other.name, "NVIDIA B200");
    strcpy(other.arch, "sm_100a");
    strcpy(other.ladder[0], "sm_90a"); /* pretend that it runs the code, without being of that architecture */
    other.compute_capability = 100;
    expect(&other, 512, "default", 2);
    unlink(shipped_path);
    expect(&h200, 1024, "nearest", 1);
}

static void test_nearest(void **state) {
    (void)state;
    const row rows[] = {{.id = 1, .tokens = 256, .h = 2048, .i = 8192},
                        {.id = 2, .tokens = 1024, .h = 2048, .i = 8192},
                        {.id = 3, .tokens = 16384, .h = 2048, .i = 8192},
                        {.id = 4, .tokens = 2000, .h = 2048, .i = 8192, .least = 2000, .most = 2010}};
    unlink(shipped_path);
    put(user_path, rows, 4);
    expect(&h200, 1, "nearest", 1);
    expect(&h200, 256, "exact", 1);
    expect(&h200, 511, "nearest", 1);
    expect(&h200, 512, "nearest", 1); /* as far from 256 as from 1024: the smaller */
    expect(&h200, 513, "nearest", 2);
    expect(&h200, 1999, "nearest", 2); /* row 4 does not reach */
    expect(&h200, 2001, "nearest", 4);
    expect(&h200, 2010, "nearest", 4);
    expect(&h200, 2011, "nearest", 2);
    expect(&h200, 4096, "nearest", 2); /* 4 times 1024, a quarter of 16384 */
    expect(&h200, 4097, "nearest", 3);
    expect(&h200, 2147483647, "nearest", 3);
}

/* T*T = 576*1024, where a difference of logarithms is a matter of rounding. */
static void test_ties_are_exact(void **state) {
    (void)state;
    const row rows[] = {{.id = 1, .tokens = 1024, .h = 2048, .i = 8192},
                        {.id = 2, .tokens = 576, .h = 2048, .i = 8192}};
    unlink(shipped_path);
    put(user_path, rows, 2);
    expect(&h200, 767, "nearest", 2);
    expect(&h200, 768, "nearest", 2);
    expect(&h200, 769, "nearest", 1);
}

static void test_what_must_be_equal(void **state) {
    (void)state;
    const row rows[] = {{.id = 1, .tokens = 512, .h = 2048, .i = 4096},
                        {.id = 2, .tokens = 512, .h = 1024, .i = 8192},
                        {.id = 3, .tokens = 512, .h = 2048, .i = 8192, .accuracy = MLPBWD_ACCURACY_FP32},
                        {.id = 4, .tokens = 512, .h = 2048, .i = 8192, .arch = "sm_100a"},
                        {.id = 5, .device = "", .arch = "sm_100a"},
                        {.id = 6, .device = "", .arch = "compute_80", .least = 100, .most = 600}};
    unlink(shipped_path);
    put(user_path, rows, 6);
    expect(&h200, 512, "default", 6);
    char match[32];
    int id = 0;
    mlp_message why = {0};
    assert_int_equal(ask(&h200, 512, MLPBWD_ACCURACY_FP32, NULL, match, &id, NULL, &why), MLPBWD_OK);
    assert_string_equal(match, "exact");
    assert_int_equal(id, 3);
    assert_int_equal(ask(&h200, 512, MLPBWD_ACCURACY_BF16, NULL, match, &id, NULL, &why), MLPBWD_UNSUPPORTED);
    assert_int_equal(ask(&h200, 601, 0, NULL, match, &id, NULL, &why), MLPBWD_UNSUPPORTED);
    const char *const parts[] = {"exact:",
                                 "nearest:",
                                 "architecture:",
                                 "default:",
                                 "T = 601",
                                 "compute_80",
                                 "user.sqlite",
                                 "6 rows",
                                 "1 of another accuracy",
                                 "2 of other sizes",
                                 "2 of other architectures",
                                 "1 for other T"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(why.text, parts[i]))
            fail_msg("\"%s\" lacks \"%s\"", why.text, parts[i]);
}

static void test_same_device_means_name_units_capability(void **state) {
    (void)state;
    const row rows[] = {{.id = 1, .tokens = 512, .h = 2048, .i = 8192}};
    unlink(shipped_path);
    put(user_path, rows, 1);
    expect(&h200, 512, "exact", 1);
    dev_info other = h200;
    other.units = 120;
    expect(&other, 512, "architecture", 1);
    other = h200;
    strcpy(other.name, "NVIDIA H100");
    expect(&other, 512, "architecture", 1);
    other = h200;
    other.compute_capability = 91;
    expect(&other, 512, "architecture", 1);
}

static void test_architecture_prefers_units_then_tokens(void **state) {
    (void)state;
    const row rows[] = {{.id = 1, .device = "A", .units = 100, .tokens = 512, .h = 2048, .i = 8192},
                        {.id = 2, .device = "B", .units = 120, .tokens = 64, .h = 2048, .i = 8192},
                        {.id = 3, .device = "B", .units = 120, .tokens = 8192, .h = 2048, .i = 8192},
                        {.id = 4, .device = "C", .units = 144, .tokens = 512, .h = 2048, .i = 8192},
                        {.id = 5, .device = "", .arch = "sm_90a"}};
    unlink(shipped_path);
    put(user_path, rows, 5);
    expect(&h200, 512, "architecture", 2); /* 12 units away like C, but fewer; then the nearer T */
    expect(&h200, 4096, "architecture", 3);
    dev_info other = h200;
    other.units = 143;
    expect(&other, 64, "architecture", 4);
    other.units = 101;
    expect(&other, 64, "architecture", 1);
}

static void test_default_follows_the_ladder(void **state) {
    (void)state;
    const row rows[] = {{.id = 1, .device = "", .arch = "compute_80"},
                        {.id = 2, .device = "", .arch = "sm_90a"},
                        {.id = 3, .device = "", .arch = "sm_100a"}};
    unlink(shipped_path);
    put(user_path, rows, 3);
    expect(&h200, 512, "default", 2);
    dev_info old = h200;
    strcpy(old.arch, "sm_80");
    strcpy(old.ladder[0], "sm_80");
    expect(&old, 512, "default", 1);
}

/* x86-64-v4 code must not run on a v3 processor, nor the other way round be missed. */
static void test_host_ladder(void **state) {
    (void)state;
    dev_info host = {.id = "host",
                     .backend = "host",
                     .name = "Some CPU",
                     .arch = "x86-64-v3",
                     .ladder = {"x86-64-v3", "x86-64-v2", "x86-64", "generic"},
                     .ladder_length = 4,
                     .units = 2};
    const row rows[] = {
        {.id = 1, .device = "Some CPU", .units = 2, .arch = "x86-64-v4", .tokens = 512, .h = 2048, .i = 8192},
        {.id = 2, .device = "", .arch = "x86-64-v4"},
        {.id = 3, .device = "", .arch = "x86-64-v2"}};
    unlink(shipped_path);
    put(user_path, rows, 3);
    expect(&host, 512, "default", 3);
}

static void test_no_database(void **state) {
    (void)state;
    unlink(user_path);
    unlink(shipped_path);
    char match[32];
    int id = 0;
    mlp_message why = {0};
    assert_int_equal(ask(&h200, 512, 0, NULL, match, &id, NULL, &why), MLPBWD_UNSUPPORTED);
    assert_non_null(strstr(why.text, "no database is open"));
}

static void test_answer_as_json(void **state) {
    (void)state;
    const row rows[] = {{.id = 1, .tokens = 2048, .h = 2048, .i = 8192},
                        {.id = 2, .device = "", .arch = "sm_90a", .accuracy = 1}};
    unlink(shipped_path);
    put(user_path, rows, 2);
    char match[32], *json = NULL;
    int id = 0;
    mlp_message why = {0};
    assert_int_equal(ask(&h200, 2164, 0, NULL, match, &id, &json, &why), MLPBWD_OK);
    json_t *answer = json_loads(json, 0, NULL);
    free(json);
    assert_int_equal(json_integer_value(json_object_get(answer, "tokens")), 2164);
    assert_string_equal(json_string_value(json_object_get(answer, "device")), "cuda:0");
    assert_string_equal(json_string_value(json_object_get(answer, "match")), "nearest");
    assert_true(json_real_value(json_object_get(answer, "median_us")) == 101.0);
    assert_int_equal(json_integer_value(json_object_get(answer, "measured_tokens")), 2048);
    assert_string_equal(json_string_value(json_object_get(answer, "database")), user_path);
    assert_string_equal(json_string_value(json_object_get(answer, "pipeline")), "tiny");
    assert_true(json_is_object(json_object_get(answer, "parameters")));
    json_decref(answer);
    assert_int_equal(ask(&h200, 2164, 1, NULL, match, &id, &json, &why), MLPBWD_OK);
    answer = json_loads(json, 0, NULL);
    free(json);
    assert_true(json_is_null(json_object_get(answer, "median_us")));
    assert_int_equal(json_integer_value(json_object_get(answer, "measured_tokens")), 0);
    json_decref(answer);
}

/* ---- forced ---- */

static void export_to(const char *path, const char *database_path, bool with_code) {
    db *database = NULL;
    mlp_message why = {0};
    const db_plan_filter filter = {
        .units = -1, .accuracy = -1, .tokens = -1, .hidden_size = -1, .intermediate_size = -1};
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(db_open(database_path, DB_READ_ONLY, &database, &why), MLPBWD_OK);
    if (db_export(database, &filter, with_code, out, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    db_close(database);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(path, 0644), 0);
}

static void expect_forced_failure(const char *path, int64_t tokens, int accuracy, const char *part) {
    char match[32];
    int id = 0;
    mlp_message why = {0};
    assert_int_equal(ask(&h200, tokens, accuracy, path, match, &id, NULL, &why), MLPBWD_DATABASE_ERROR);
    if (!strstr(why.text, part) || !strstr(why.text, "MLPBWD_FORCE"))
        fail_msg("\"%s\" lacks \"%s\"", why.text, part);
}

static void test_forced(void **state) {
    (void)state;
    const row forced_rows[] = {
        {.id = 1, .tokens = 512, .h = 2048, .i = 8192, .least = 1, .most = 1000},
        {.id = 2, .device = "other", .tokens = 4096, .h = 2048, .i = 8192, .least = 600, .arch = "compute_80"}};
    const row better[] = {{.id = 9, .tokens = 700, .h = 2048, .i = 8192}};
    char path[128], match[32];
    int id = 0;
    mlp_message why = {0};
    snprintf(path, sizeof path, "%s/forced.json", folder);
    put(shipped_path, forced_rows, 2);
    export_to(path, shipped_path, true);
    unlink(shipped_path);
    put(user_path, better, 1);
    assert_int_equal(ask(&h200, 700, 0, path, match, &id, NULL, &why), MLPBWD_OK);
    assert_string_equal(match, "forced");
    assert_int_equal(id, 1);
    assert_int_equal(ask(&h200, 1001, 0, path, match, &id, NULL, &why), MLPBWD_OK);
    assert_int_equal(id, 2); /* of another device and architecture, but its code runs here */
    expect_forced_failure(path, 512, MLPBWD_ACCURACY_FP32, "2 of another accuracy");
    dev_info other = h200;
    strcpy(other.ladder[0], "sm_100a");
    other.ladder_length = 1;
    assert_int_equal(ask(&other, 512, 0, path, match, &id, NULL, &why), MLPBWD_DATABASE_ERROR);
    assert_non_null(strstr(why.text, "2 of architectures"));
    assert_int_equal(chmod(path, 0666), 0);
    expect_forced_failure(path, 512, 0, "others can write");
    unlink(path);
    expect_forced_failure(path, 512, 0, "forced.json");
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs("{\"format\":\"something\"}", out);
    fclose(out);
    assert_int_equal(chmod(path, 0644), 0);
    expect_forced_failure(path, 512, 0, "format");
    unlink(path);
}

/* Without code in the file, an open database must have the plan. */
static void test_forced_without_code(void **state) {
    (void)state;
    const row rows[] = {{.id = 1, .tokens = 512, .h = 2048, .i = 8192},
                        {.id = 2, .tokens = 1024, .h = 2048, .i = 8192}};
    char path[128], match[32];
    int id = 0;
    mlp_message why = {0};
    snprintf(path, sizeof path, "%s/forced.json", folder);
    unlink(user_path);
    put(shipped_path, rows, 2);
    export_to(path, shipped_path, false);
    assert_int_equal(ask(&h200, 900, 0, path, match, &id, NULL, &why), MLPBWD_OK);
    assert_string_equal(match, "forced");
    assert_int_equal(id, 2);
    const row changed[] = {{.id = 3, .tokens = 1024, .h = 2048, .i = 8192}};
    put(shipped_path, changed, 1);
    expect_forced_failure(path, 1024, 0, "no machine code");
    unlink(path);
}

static void test_blobs_of_a_forced_file(void **state) {
    (void)state;
    const row rows[] = {{.id = 1, .tokens = 512, .h = 2048, .i = 8192}};
    char path[128];
    mlp_message why = {0};
    snprintf(path, sizeof path, "%s/forced.json", folder);
    unlink(user_path);
    put(shipped_path, rows, 1);
    export_to(path, shipped_path, true);
    const lookup_request request = {.device = &h200, .problem = &suite, .forced_path = path};
    lookup_answer answer;
    assert_int_equal(lookup_find(&request, &answer, &why), MLPBWD_OK);
    lookup_blobs blobs = {.request = &request, .answer = &answer};
    void *bytes = NULL;
    size_t size = 0;
    char *expected = tiny_source();
    assert_int_equal(lookup_get_blob(&blobs, source, &bytes, &size, &why), MLPBWD_OK);
    assert_int_equal(size, strlen(expected));
    assert_string_equal(bytes, expected);
    free(bytes);
    assert_int_equal(lookup_get_blob(&blobs, "0000", &bytes, &size, &why), MLPBWD_OK);
    assert_null(bytes);
    free(expected);
    lookup_answer_free(&answer);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rungs_are_the_outer_loop),
                                       cmocka_unit_test(test_nearest),
                                       cmocka_unit_test(test_ties_are_exact),
                                       cmocka_unit_test(test_what_must_be_equal),
                                       cmocka_unit_test(test_same_device_means_name_units_capability),
                                       cmocka_unit_test(test_architecture_prefers_units_then_tokens),
                                       cmocka_unit_test(test_default_follows_the_ladder),
                                       cmocka_unit_test(test_host_ladder),
                                       cmocka_unit_test(test_no_database),
                                       cmocka_unit_test(test_answer_as_json),
                                       cmocka_unit_test(test_forced),
                                       cmocka_unit_test(test_forced_without_code),
                                       cmocka_unit_test(test_blobs_of_a_forced_file)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
