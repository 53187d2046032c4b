/* Check finds what is wrong, prune keeps what is named, statistics count. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "db_fixture.h"
#include "sql.h"

/* Changes the file behind the library's back, with the checks of the schema switched off. */
static void meddle(db *database, const char *text) {
    mlp_message why;
    if (sql_exec(database, "meddling", "PRAGMA ignore_check_constraints = ON", &why) != MLPBWD_OK ||
        sql_exec(database, "meddling", text, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
}

static db *start(void *const *state) {
    mlp_message why = {""};
    char parameters[64];
    db *database = fixture_open(fixture_path(state, "a.sqlite"), DB_READ_WRITE);
    fixture_put_plan(database, 256, 10);
    db_candidate candidate = fixture_candidate(1, parameters);
    assert_int_equal(db_record_candidate(database, &candidate, &why), MLPBWD_OK);
    return database;
}

static int check(db *database, fixture_report *report) {
    mlp_message why = {""};
    fixture_start_report(report);
    if (db_check(database, &report->report, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    return (int)report->report.rejected;
}

static void test_check_finds_every_kind_of_damage(void **state) {
    static const struct {
        const char *change, *says;
    } cases[] = {
        {"UPDATE blobs SET bytes = x'00' WHERE format = 'cubin'", "SHA-256"},
        {"UPDATE blobs SET format = 'exe' WHERE format = 'cubin'", "format"},
        {"DELETE FROM blobs WHERE format = 'cubin'", "is not stored"},
        {"UPDATE plans SET plan = '{'", "no JSON"},
        {"UPDATE plans SET plan = '{\"modules\":[{\"code\":7}]}'", "module 0"},
        {"UPDATE plans SET parameters = '[]'", "parameters"},
        {"UPDATE plans SET measurement = 'x'", "measurement"},
        {"UPDATE plans SET hidden_size = 65", "hidden_size is 65"},
        {"UPDATE plans SET tokens = -1", "tokens is -1"},
        {"UPDATE plans SET accuracy = 17", "accuracy is 17"},
        {"UPDATE plans SET median_us = -5", "median_us is 0"},
        {"UPDATE plans SET date = 'x'", "date"},
        {"UPDATE candidates SET outcome = 'great'", "great"},
        {"UPDATE candidates SET parameters = '{'", "parameters"},
        {"INSERT INTO compiled VALUES ('a', 'b', 'c', 'd', 'e')", "references"},
        {"DROP INDEX compiled_code", "schema"},
        {"CREATE TABLE extra (a)", "schema"},
        {"UPDATE plans SET pipeline = CAST(x'410042' AS TEXT)", "pipeline"},
    };
    fixture_report report;
    db *database = start(state);
    assert_int_equal(check(database, &report), 0);
    assert_string_equal(report.text, "");
    meddle(database, "PRAGMA foreign_keys = OFF"); /* has no effect inside a transaction */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        mlp_message why;
        assert_int_equal(db_begin(database, &why), MLPBWD_OK);
        meddle(database, cases[i].change);
        if (check(database, &report) == 0 || !strstr(report.text, cases[i].says))
            fail_msg("after %s the check should say \"%s\", not \"%s\"", cases[i].change, cases[i].says, report.text);
        db_rollback(database);
    }
    assert_int_equal(check(database, &report), 0);
    db_close(database);
}

static void put_blob(db *database, const char *format, const char *text, char hash[DB_HASH_CAPACITY]) {
    mlp_message why;
    assert_int_equal(db_put_blob(database, format, text, strlen(text), hash, &why), MLPBWD_OK);
}

static bool has_blob(db *database, const char *hash) {
    mlp_message why;
    void *bytes;
    assert_int_equal(db_get_blob(database, hash, &bytes, NULL, NULL, &why), MLPBWD_OK);
    free(bytes);
    return bytes != NULL;
}

static void test_prune(void **state) {
    mlp_message why = {""};
    char old_source[DB_HASH_CAPACITY], old_code[DB_HASH_CAPACITY], new_source[DB_HASH_CAPACITY];
    char cached_source[DB_HASH_CAPACITY], cached_code[DB_HASH_CAPACITY], lost[DB_HASH_CAPACITY];
    char parameters[64], date[32];
    db *database = start(state);
    put_blob(database, "source", "old", old_source);
    put_blob(database, "cubin", "old code", old_code);
    put_blob(database, "source", "new", new_source);
    put_blob(database, "source", "cached", cached_source);
    put_blob(database, "cubin", "cached code", cached_code);
    put_blob(database, "source", "named by nothing", lost);
    assert_int_equal(db_put_compiled(database, old_source, "sm_90a", "nvrtc", old_code, "", &why), MLPBWD_OK);
    assert_int_equal(db_put_compiled(database, cached_source, "sm_90a", "nvrtc", cached_code, "", &why), MLPBWD_OK);
    db_candidate candidate = fixture_candidate(2, parameters);
    candidate.source_hash = old_source;
    candidate.code_hash = old_code;
    candidate.date = "2020-01-01T00:00:00Z";
    assert_int_equal(db_record_candidate(database, &candidate, &why), MLPBWD_OK);
    time_t now = time(NULL);
    struct tm utc;
    assert_true(strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc)) > 0);
    candidate = fixture_candidate(3, parameters);
    candidate.source_hash = new_source;
    candidate.date = date;
    assert_int_equal(db_record_candidate(database, &candidate, &why), MLPBWD_OK);

    fixture_report report;
    fixture_start_report(&report);
    if (db_prune(database, 30, &report.report, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    assert_false(has_blob(database, lost));
    assert_false(has_blob(database, old_source));
    assert_false(has_blob(database, old_code));
    assert_true(has_blob(database, new_source));
    assert_true(has_blob(database, cached_source));
    assert_true(has_blob(database, cached_code));
    assert_true(report.report.kept >= 1);
    fixture_start_report(&report);
    assert_int_equal(db_prune(database, 0, &report.report, &why), MLPBWD_OK);
    assert_int_equal(report.report.kept, 0);
    assert_false(has_blob(database, new_source));
    assert_true(has_blob(database, cached_code));
    assert_int_equal(check(database, &report), 0); /* the plan's blobs are all there */
    assert_int_equal(db_begin(database, &why), MLPBWD_OK);
    assert_int_equal(db_prune(database, 0, NULL, &why), MLPBWD_INVALID_ARGUMENT);
    db_rollback(database);
    /* A plan that cannot be read might name anything: nothing may go. */
    put_blob(database, "source", "named by nothing", lost);
    meddle(database, "UPDATE plans SET plan = '{'");
    assert_int_equal(db_prune(database, 0, NULL, &why), MLPBWD_DATABASE_ERROR);
    assert_true(has_blob(database, lost));
    db_close(database);
}

static void test_stats(void **state) {
    db *database = start(state);
    char *text = fixture_counts(database);
    json_t *stats = json_loads(text, 0, NULL);
    assert_non_null(stats);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(stats, "tables"), "plans")), 1);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(stats, "tables"), "blobs")), 2);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(stats, "outcomes"), "ok")), 1);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(stats, "plans"), "Test GPU")), 1);
    json_decref(stats);
    free(text);
    db_close(database);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, fixture_folder, fixture_remove)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_check_finds_every_kind_of_damage),
        IN_FOLDER(test_prune),
        IN_FOLDER(test_stats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
