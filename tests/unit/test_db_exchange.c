/* Export, import and merge: exact round trips, all or nothing, the rule for equal keys, and no crash on mangled files.
 */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "db_fixture.h"

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void fill(db *database) {
    fixture_put_plan(database, 256, 101.376);
    fixture_put_plan(database, 541, 0.1 + 0.2); /* needs 17 digits */
    fixture_plan plan;
    mlp_message why;
    fixture_make_plan(database, 0, -1, &plan);
    plan.row.device_name = "";
    plan.row.units = 0;
    plan.row.hidden_size = plan.row.intermediate_size = 0;
    plan.row.measurement = "";
    plan.row.origin = "build";
    assert_int_equal(db_put_plan(database, &plan.row, &why), MLPBWD_OK);
}

static void test_round_trip_is_exact(void **state) {
    mlp_message why = {""};
    db *first = fixture_open(fixture_path(state, "first.sqlite"), DB_READ_WRITE);
    db *second = fixture_open(fixture_path(state, "second.sqlite"), DB_READ_WRITE);
    fill(first);
    char *text = fixture_export(first, true);
    assert_non_null(strstr(text, "\n{\"accuracy\":\"tf32\""));
    assert_non_null(strstr(text, "\"median_us\":101.376,"));
    assert_non_null(strstr(text, "\"median_us\":0.30000000000000004,"));
    assert_non_null(strstr(text, "\"median_us\":null,"));
    assert_non_null(strstr(text, "\"format\":\"mlpbwd-winners\",\"version\":1,"));
    fixture_write(fixture_path(state, "all.json"), text, strlen(text));
    fixture_report report;
    fixture_start_report(&report);
    if (db_import(second, fixture_path(state, "all.json"), NULL, NULL, &report.report, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    assert_int_equal(report.report.added, 3);
    char *again = fixture_export(second, true);
    assert_string_equal(text, again);
    /* a second import keeps everything */
    fixture_start_report(&report);
    assert_int_equal(db_import(second, fixture_path(state, "all.json"), NULL, NULL, &report.report, &why), MLPBWD_OK);
    assert_int_equal(report.report.kept, 3);
    assert_int_equal(report.report.added + report.report.replaced + report.report.rejected, 0);
    free(again);
    free(text);
    db_close(first);
    db_close(second);
}

static mlpbwd_status take_median(void *user, const db_plan_row *row, mlp_message *why) {
    (void)why;
    *(double *)user = row->median_us;
    return MLPBWD_OK;
}

static double stored_median(db *database, int64_t tokens) {
    mlp_message why;
    double median = 0;
    const db_plan_filter filter = {
        .units = -1, .accuracy = -1, .tokens = tokens, .hidden_size = -1, .intermediate_size = -1};
    assert_int_equal(db_each_plan(database, &filter, take_median, &median, &why), MLPBWD_OK);
    return median;
}

/* Any positive double comes back with the same bits. */
static void test_numbers_survive(void **state) {
    mlp_message why = {""};
    db *first = fixture_open(fixture_path(state, "first.sqlite"), DB_READ_WRITE);
    db *second = fixture_open(fixture_path(state, "second.sqlite"), DB_READ_WRITE);
    double medians[300] = {4.9406564584124654e-324, 1.7976931348623157e308, 1, 1e15, 1e17, 123456789.125, 1.0 / 3};
    uint32_t seed = 7;
    assert_int_equal(db_begin(first, &why), MLPBWD_OK);
    for (int i = 0; i < 300; ++i) {
        if (medians[i] == 0)
            medians[i] = (1 + next_random(&seed)) * 1.0 / (1 + next_random(&seed));
        fixture_put_plan(first, i + 1, medians[i]);
    }
    assert_int_equal(db_commit(first, &why), MLPBWD_OK);
    char *text = fixture_export(first, true);
    fixture_write(fixture_path(state, "all.json"), text, strlen(text));
    if (db_import(second, fixture_path(state, "all.json"), NULL, NULL, NULL, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    for (int i = 0; i < 300; ++i)
        assert_true(stored_median(second, i + 1) == medians[i]);
    char *again = fixture_export(second, true);
    assert_string_equal(text, again);
    free(again);
    free(text);
    db_close(first);
    db_close(second);
}

/* A locale with a decimal comma: the system's, or one made in the test's folder. */
static bool choose_comma(void *const *state) {
    char command[4200];
    if (setlocale(LC_ALL, "de_DE.UTF-8"))
        return true;
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >/dev/null 2>&1",
             (const char *)*state);
    return system(command) == 0 && setenv("LOCPATH", *state, 1) == 0 && setlocale(LC_ALL, "de_DE.UTF-8");
}

static void test_other_locale(void **state) {
    if (!choose_comma(state))
        skip();
    assert_string_equal(localeconv()->decimal_point, ",");
    test_round_trip_is_exact(state);
    assert_non_null(setlocale(LC_ALL, "C"));
}

static mlpbwd_status make_plan(void *user, db *database, const db_plan_row *row, char **plan, mlp_message *why) {
    int *calls = user;
    char hash[DB_HASH_CAPACITY];
    ++*calls;
    if (row->tokens == 541 && *calls < 0)
        return mlp_fail(why, MLPBWD_COMPILE_ERROR, "no compiler today");
    mlpbwd_status status = db_put_blob(database, "source", "made", 4, hash, why);
    if (status == MLPBWD_OK && asprintf(plan, "{\"modules\":[{\"source\":\"%s\",\"code\":null}]}", hash) < 0)
        status = MLPBWD_OUT_OF_MEMORY;
    return status;
}

static void test_parameters_alone_are_completed(void **state) {
    mlp_message why = {""};
    db *first = fixture_open(fixture_path(state, "first.sqlite"), DB_READ_WRITE);
    db *second = fixture_open(fixture_path(state, "second.sqlite"), DB_READ_WRITE);
    fill(first);
    char *text = fixture_export(first, false);
    assert_null(strstr(text, "\"plan\""));
    assert_null(strstr(text, "blobs"));
    const char *path = fixture_path(state, "parameters.json");
    fixture_write(path, text, strlen(text));
    char *before = fixture_counts(second);
    assert_int_equal(db_import(second, path, NULL, NULL, NULL, &why), MLPBWD_DATABASE_ERROR);
    assert_non_null(strstr(why.text, "row 0"));
    int calls = -100; /* the maker fails at T = 541, after other rows went in: all of it must be undone */
    assert_int_equal(db_import(second, path, make_plan, &calls, NULL, &why), MLPBWD_COMPILE_ERROR);
    assert_non_null(strstr(why.text, "no compiler today"));
    assert_int_equal(calls, -97);
    char *after = fixture_counts(second);
    assert_string_equal(before, after);
    free(after);
    free(before);
    calls = 0;
    assert_int_equal(db_import(second, path, make_plan, &calls, NULL, &why), MLPBWD_OK);
    assert_int_equal(calls, 3);
    assert_int_equal(db_import(second, path, make_plan, &calls, NULL, &why), MLPBWD_OK);
    assert_int_equal(calls, 3); /* rows that are kept are not made again */
    char *again = fixture_export(second, false);
    assert_string_equal(text, again);
    free(again);
    free(text);
    db_close(first);
    db_close(second);
}

/* Replaces the first `from` in a valid export and expects a refusal that says `says`. */
static void refuse(void *const *state, const char *text, const char *from, const char *to, const char *says) {
    const char *at = strstr(text, from);
    assert_non_null(at);
    char *changed = NULL;
    assert_true(asprintf(&changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) >= 0);
    const char *path = fixture_path(state, "bad.json");
    fixture_write(path, changed, strlen(changed));
    free(changed);
    db *database = fixture_open(fixture_path(state, "target.sqlite"), DB_READ_WRITE);
    mlp_message why = {""};
    char *before = fixture_counts(database);
    assert_int_equal(db_import(database, path, NULL, NULL, NULL, &why), MLPBWD_DATABASE_ERROR);
    if (!strstr(why.text, says) || !strstr(why.text, path))
        fail_msg("\"%s\" should say \"%s\" and the path", why.text, says);
    char *after = fixture_counts(database);
    assert_string_equal(before, after);
    free(before);
    free(after);
    db_close(database);
}

static void test_bad_files_are_refused_by_row_field_and_value(void **state) {
    db *first = fixture_open(fixture_path(state, "first.sqlite"), DB_READ_WRITE);
    fill(first);
    char *text = fixture_export(first, true);
    db_close(first);
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"\"version\":1", "\"version\":2", "field \"version\" is 2"},
        {"mlpbwd-winners", "wisdom", "field \"format\" is \"wisdom\""},
        {"\"rows\":", "\"lines\":", "\"lines\" is not known"},
        {"\"tokens\":541", "\"tokens\":-541", "row 2: field \"tokens\" is -541"},
        {"\"tokens\":541", "\"tokens\":541.5", "row 2: field \"tokens\" is 541.5"},
        {"\"tokens\":541", "\"tokens\":\"541\"", "row 2: field \"tokens\" is \"541\""},
        {"\"tokens\":541", "\"tokens\":99999999999", "row 2: field \"tokens\" is 99999999999"},
        {"\"tokens\":541", "\"token\":541", "row 2: field \"token\" is not known"},
        {"\"tokens\":541,", "", "row 2: field \"tokens\" is missing"},
        {"\"hidden_size\":2048", "\"hidden_size\":2049", "row 1: hidden_size is 2049"},
        {"\"median_us\":101.376", "\"median_us\":0", "row 1: field \"median_us\" is 0"},
        {"\"median_us\":101.376", "\"median_us\":-1", "row 1: field \"median_us\" is -1"},
        {"\"median_us\":101.376", "\"median_us\":\"fast\"", "row 1: field \"median_us\" is \"fast\""},
        {"\"median_us\":101.376", "\"median_us\":1e999", "line 3"},
        {"\"accuracy\":\"tf32\"", "\"accuracy\":\"tf64\"", "row 0: field \"accuracy\" is \"tf64\""},
        {"\"accuracy\":\"tf32\"", "\"accuracy\":0", "row 0: field \"accuracy\" is 0"},
        {"\"arch\":\"sm_90a\"", "\"arch\":\"\"", "row 0: arch"},
        {"\"Test GPU\"", "\"Test\\nGPU\"", "row 1: device_name"},
        {"\"origin\":\"tune\"", "\"origin\":\"hearsay\"", "row 1: origin is \"hearsay\""},
        {"2026-01-02T03:04:05Z", "2026-13-02T03:04:05Z", "2026-13-02T03:04:05Z"},
        {"\"parameters\":{", "\"parameters\":[{", "line 2"},
        {"\"parameters\":{", "\"parameters\":7,\"x\":{", "not known"},
        {"\"code\":\"", "\"code\":\"0", "module 0"},
        {"\"format\":\"cubin\"", "\"format\":\"elf\"", "field \"format\" is \"elf\""},
        {"\"base64\":\"", "\"base64\":\"AAAA", "SHA-256"},
        {"\"base64\":\"", "\"base64\":\"?", "base64"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
        refuse(state, text, cases[i].from, cases[i].to, cases[i].says);
    /* a plan whose blob is not in the file */
    char *blobs = strstr(text, ",\"blobs\":");
    assert_non_null(blobs);
    snprintf(blobs, strlen(blobs) + 1, "}\n");
    refuse(state, text, "}\n", "}\n", "neither in the file nor in the database");
    free(text);
    mlp_message why = {""};
    db *target = fixture_open(fixture_path(state, "target.sqlite"), DB_READ_WRITE);
    assert_int_equal(db_import(target, fixture_path(state, "absent.json"), NULL, NULL, NULL, &why),
                     MLPBWD_DATABASE_ERROR);
    assert_non_null(strstr(why.text, "absent.json"));
    assert_int_equal(db_import(target, *state, NULL, NULL, NULL, &why), MLPBWD_DATABASE_ERROR);
    db_close(target);
}

static void mangle(char *text, size_t *size, uint32_t *seed) {
    static const char likely[] = "0123456789-.eE\"{}[]:,\\\0\xff az/=+";
    for (uint32_t changes = 1 + next_random(seed) % 3; changes; --changes) {
        size_t at = next_random(seed) % *size;
        char letter = next_random(seed) % 2 ? likely[next_random(seed) % (sizeof likely - 1)] : (char)next_random(seed);
        switch (next_random(seed) % 3) {
        case 0:
            text[at] = letter;
            break;
        case 1:
            memmove(text + at, text + at + 1, *size - at - 1);
            *size -= 1;
            break;
        default:
            memmove(text + at + 1, text + at, *size - at);
            text[at] = letter;
            *size += 1;
        }
    }
}

/* A mangled file is taken whole or not at all, and what was taken passes the check. */
static void test_mangled_files(void **state) {
    db *first = fixture_open(fixture_path(state, "first.sqlite"), DB_READ_WRITE);
    fill(first);
    char *text = fixture_export(first, true);
    db_close(first);
    const size_t length = strlen(text);
    const char *path = fixture_path(state, "mangled.json");
    db *target = fixture_open(fixture_path(state, "target.sqlite"), DB_READ_WRITE);
    char *before = fixture_counts(target);
    char *copy = malloc(length + 8);
    uint32_t seed = 1;
    int taken = 0;
    for (int i = 0; i < 3000; ++i) {
        mlp_message why = {""};
        size_t size = length;
        memcpy(copy, text, length + 1);
        if (i % 10 == 0)
            size = next_random(&seed) % length;
        else
            mangle(copy, &size, &seed);
        fixture_write(path, copy, size);
        assert_int_equal(db_begin(target, &why), MLPBWD_OK);
        mlpbwd_status status = db_import(target, path, NULL, NULL, NULL, &why);
        if (status == MLPBWD_OK) {
            fixture_report report;
            fixture_start_report(&report);
            assert_int_equal(db_check(target, &report.report, &why), MLPBWD_OK);
            if (report.report.rejected)
                fail_msg("mutation %d was taken but: %s", i, report.text);
            ++taken;
        } else {
            char *after = fixture_counts(target);
            assert_string_equal(before, after);
            free(after);
            assert_true(strlen(why.text) > strlen(path));
        }
        db_rollback(target);
    }
    assert_in_range(taken, 1, 2900); /* both ways were tried */
    free(copy);
    free(before);
    free(text);
    db_close(target);
}

static void put(db *database, int64_t tokens, double median_us, const char *date) {
    mlp_message why;
    fixture_plan plan;
    fixture_make_plan(database, tokens, median_us, &plan);
    plan.row.date = date;
    assert_int_equal(db_put_plan(database, &plan.row, &why), MLPBWD_OK);
}

static void test_merge_rule(void **state) {
    static const struct {
        double into, from;
        const char *into_date, *from_date;
        bool replaced;
    } cases[] = {
        {-1, 9, "2026-06-01", "2026-01-01", true}, /* measured beats unmeasured, whatever the dates */
        {9, -1, "2026-01-01", "2026-06-01", false},
        {5, 9, "2026-01-01", "2026-01-02", true}, /* later date, though slower */
        {9, 5, "2026-01-02", "2026-01-01", false},
        {9, 5, "2026-01-02", "2026-01-02", true}, /* same date: faster */
        {5, 9, "2026-01-02", "2026-01-02", false},
        {5, 5, "2026-01-02", "2026-01-02", false}, /* all equal: stays */
        {-1, -1, "2026-01-01", "2026-01-02", true},
        {-1, -1, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", false},
    };
    const int count = sizeof cases / sizeof *cases;
    mlp_message why = {""};
    db *into = fixture_open(fixture_path(state, "into.sqlite"), DB_READ_WRITE);
    db *from = fixture_open(fixture_path(state, "from.sqlite"), DB_READ_WRITE);
    for (int i = 0; i < count; ++i) {
        put(into, INT64_C(64) * (i + 1), cases[i].into, cases[i].into_date);
        put(from, INT64_C(64) * (i + 1), cases[i].from, cases[i].from_date);
    }
    put(from, INT64_C(64) * (count + 1), 3, "2026-01-01"); /* only there */
    char parameters[64];
    db_candidate candidate = fixture_candidate(7, parameters);
    assert_int_equal(db_record_candidate(from, &candidate, &why), MLPBWD_OK);
    char source[DB_HASH_CAPACITY], code[DB_HASH_CAPACITY], found[DB_HASH_CAPACITY];
    assert_int_equal(db_put_blob(from, "source", "s", 1, source, &why), MLPBWD_OK);
    assert_int_equal(db_put_blob(from, "cubin", "c", 1, code, &why), MLPBWD_OK);
    assert_int_equal(db_put_compiled(from, source, "sm_90a", "nvrtc", code, "", &why), MLPBWD_OK);
    fixture_report report;
    fixture_start_report(&report);
    if (db_merge(into, from, &report.report, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    int replaced = 0;
    for (int i = 0; i < count; ++i) {
        assert_true(stored_median(into, INT64_C(64) * (i + 1)) == (cases[i].replaced ? cases[i].from : cases[i].into));
        replaced += cases[i].replaced;
    }
    assert_int_equal(report.report.replaced, replaced);
    assert_int_equal(report.report.kept, count - replaced);
    assert_int_equal(report.report.added, 2); /* a plan and a candidate */
    assert_int_equal(report.report.rejected, 0);
    assert_int_equal(db_get_compiled(into, source, "sm_90a", "nvrtc", found, &why), MLPBWD_OK);
    assert_string_equal(found, code);
    fixture_start_report(&report);
    assert_int_equal(db_check(into, &report.report, &why), MLPBWD_OK);
    assert_string_equal(report.text, "");
    assert_int_equal(db_merge(into, into, NULL, &why), MLPBWD_INVALID_ARGUMENT);
    db *same = fixture_open(fixture_path(state, "into.sqlite"), DB_READ_ONLY);
    assert_int_equal(db_merge(into, same, NULL, &why), MLPBWD_INVALID_ARGUMENT);
    db_close(same);
    db_close(from);
    db_close(into);
}

static void test_merge_rejects_a_plan_without_its_code(void **state) {
    mlp_message why = {""};
    db *into = fixture_open(fixture_path(state, "into.sqlite"), DB_READ_WRITE);
    db *from = fixture_open(fixture_path(state, "from.sqlite"), DB_READ_WRITE);
    fixture_put_plan(from, 64, 1);
    fixture_plan plan;
    fixture_make_plan(from, 128, 1, &plan);
    char *code = strstr(plan.plan, plan.code_hash);
    code[0] = code[0] == 'f' ? 'e' : 'f';
    assert_int_equal(db_put_plan(from, &plan.row, &why), MLPBWD_OK);
    fixture_report report;
    fixture_start_report(&report);
    assert_int_equal(db_merge(into, from, &report.report, &why), MLPBWD_OK);
    assert_int_equal(report.report.added, 1);
    assert_int_equal(report.report.rejected, 1);
    assert_non_null(strstr(report.text, "T 128"));
    db_close(from);
    db_close(into);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, fixture_folder, fixture_remove)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_round_trip_is_exact),
        IN_FOLDER(test_numbers_survive),
        IN_FOLDER(test_other_locale),
        IN_FOLDER(test_parameters_alone_are_completed),
        IN_FOLDER(test_bad_files_are_refused_by_row_field_and_value),
        IN_FOLDER(test_mangled_files),
        IN_FOLDER(test_merge_rule),
        IN_FOLDER(test_merge_rejects_a_plan_without_its_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
