/* Blobs, plans, candidates and the compile cache: what goes in comes out, and nonsense is refused by name. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "db_fixture.h"

static void test_hash_matches_published_vectors(void **state) {
    (void)state;
    char hash[DB_HASH_CAPACITY];
    /* FIPS 180-2, appendix B, and the well-known empty digest */
    db_hash("", 0, hash);
    assert_string_equal(hash, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    db_hash("abc", 3, hash);
    assert_string_equal(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    db_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hash);
    assert_string_equal(hash, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void test_blobs(void **state) {
    mlp_message why = {""};
    db *database = fixture_open(fixture_path(state, "a.sqlite"), DB_READ_WRITE);
    char first[DB_HASH_CAPACITY], again[DB_HASH_CAPACITY], none[DB_HASH_CAPACITY], format[16];
    void *bytes;
    size_t size;
    assert_int_equal(db_put_blob(database, "cubin", "\0\1\0", 3, first, &why), MLPBWD_OK);
    assert_int_equal(db_put_blob(database, "cubin", "\0\1\0", 3, again, &why), MLPBWD_OK);
    assert_string_equal(first, again);
    assert_int_equal(db_get_blob(database, first, &bytes, &size, format, &why), MLPBWD_OK);
    assert_int_equal(size, 3);
    assert_memory_equal(bytes, "\0\1\0\0", 4);
    assert_string_equal(format, "cubin");
    free(bytes);
    assert_int_equal(db_put_blob(database, "source", "", 0, none, &why), MLPBWD_OK);
    assert_int_equal(db_get_blob(database, none, &bytes, &size, NULL, &why), MLPBWD_OK);
    assert_non_null(bytes);
    assert_int_equal(size, 0);
    free(bytes);
    memset(again, 'a', 64);
    assert_int_equal(db_get_blob(database, again, &bytes, &size, format, &why), MLPBWD_OK);
    assert_null(bytes);
    assert_int_equal(db_get_blob(database, "xyz", &bytes, &size, format, &why), MLPBWD_INVALID_ARGUMENT);
    assert_non_null(strstr(why.text, "xyz"));
    assert_int_equal(db_put_blob(database, "exe", "x", 1, again, &why), MLPBWD_INVALID_ARGUMENT);
    assert_non_null(strstr(why.text, "exe"));
    db_close(database);
}

typedef struct seen {
    int count;
    char text[512];
    int stop_after;
} seen;

static mlpbwd_status see_plan(void *user, const db_plan_row *row, mlp_message *why) {
    seen *s = user;
    size_t used = strlen(s->text);
    snprintf(s->text + used, sizeof s->text - used, "%s/%s/%lld/%g ", row->device_name, row->arch,
             (long long)row->tokens, row->median_us);
    if (++s->count == s->stop_after)
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "enough");
    return MLPBWD_OK;
}

static const db_plan_filter any_plan = {NULL, NULL, -1, -1, -1, -1, -1};

static void test_plans_are_replaced_filtered_and_ordered(void **state) {
    mlp_message why = {""};
    db *database = fixture_open(fixture_path(state, "a.sqlite"), DB_READ_WRITE);
    fixture_put_plan(database, 512, 20.5);
    fixture_put_plan(database, 256, 10.5);
    fixture_put_plan(database, 512, 19.25); /* replaces */
    fixture_plan plan;
    fixture_make_plan(database, 0, -1, &plan);
    plan.row.device_name = "";
    plan.row.units = 0;
    plan.row.hidden_size = plan.row.intermediate_size = 0;
    plan.row.measurement = "";
    plan.row.origin = "build";
    assert_int_equal(db_put_plan(database, &plan.row, &why), MLPBWD_OK);
    plan.row.arch = "compute_80";
    assert_int_equal(db_put_plan(database, &plan.row, &why), MLPBWD_OK);

    seen all = {0};
    assert_int_equal(db_each_plan(database, &any_plan, see_plan, &all, &why), MLPBWD_OK);
    assert_string_equal(all.text, "/compute_80/0/-1 /sm_90a/0/-1 Test GPU/sm_90a/256/10.5 Test GPU/sm_90a/512/19.25 ");
    db_plan_filter filter = any_plan;
    filter.device_name = "";
    filter.arch = "sm_90a";
    seen defaults = {0};
    assert_int_equal(db_each_plan(database, &filter, see_plan, &defaults, &why), MLPBWD_OK);
    assert_string_equal(defaults.text, "/sm_90a/0/-1 ");
    filter = any_plan;
    filter.tokens = 512;
    filter.units = 16;
    filter.hidden_size = 2048;
    filter.intermediate_size = 8192;
    filter.accuracy = MLPBWD_ACCURACY_TF32;
    seen one = {0};
    assert_int_equal(db_each_plan(database, &filter, see_plan, &one, &why), MLPBWD_OK);
    assert_string_equal(one.text, "Test GPU/sm_90a/512/19.25 ");
    filter.accuracy = MLPBWD_ACCURACY_BF16;
    seen none = {0};
    assert_int_equal(db_each_plan(database, &filter, see_plan, &none, &why), MLPBWD_OK);
    assert_int_equal(none.count, 0);
    seen stopped = {.stop_after = 2};
    assert_int_equal(db_each_plan(database, NULL, see_plan, &stopped, &why), MLPBWD_UNSUPPORTED);
    assert_int_equal(stopped.count, 2);
    assert_string_equal(why.text, "enough");
    db_close(database);
}

/* Each change makes a valid row invalid; the message must name the field. */
static void test_bad_plans_are_refused_by_name(void **state) {
    mlp_message why = {""};
    db *database = fixture_open(fixture_path(state, "a.sqlite"), DB_READ_WRITE);
    fixture_plan plan;
    fixture_make_plan(database, 64, 5, &plan);
    const db_plan_row good = plan.row;
    db_plan_row rows[24];
    const char *fields[24];
    size_t n = 0;
#define BAD(field, value)                                                                                              \
    do {                                                                                                               \
        rows[n] = good;                                                                                                \
        rows[n].field = value;                                                                                         \
        fields[n++] = #field;                                                                                          \
    } while (0)
    BAD(arch, "");
    BAD(arch, NULL);
    BAD(arch, "sm\n90");
    BAD(device_name, "\xff\xfe");
    BAD(units, -1);
    BAD(compute_capability, -1);
    BAD(tokens, -1);
    BAD(tokens, INT64_C(1) << 31);
    BAD(hidden_size, 100);
    BAD(intermediate_size, -64);
    BAD(accuracy, 3);
    BAD(accuracy, -1);
    BAD(max_tokens, 0);
    BAD(min_tokens, 65); /* T outside its own range */
    BAD(pipeline, "");
    BAD(parameters, "[]");
    BAD(parameters, "{\"a\":1,\"a\":2}");
    BAD(plan, "{");
    BAD(plan, "{\"modules\":[{\"source\":\"abc\"}]}");
    BAD(median_us, (double)NAN);
    BAD(median_us, 0.0);
    BAD(measurement, "fast");
    BAD(origin, "rumour");
    BAD(date, "yesterday");
#undef BAD
    for (size_t i = 0; i < n; ++i) {
        why.text[0] = 0;
        assert_int_equal(db_put_plan(database, &rows[i], &why), MLPBWD_INVALID_ARGUMENT);
        if (!strstr(why.text, fields[i]))
            fail_msg("the message does not name %s: %s", fields[i], why.text);
    }
    seen all = {0};
    assert_int_equal(db_each_plan(database, NULL, see_plan, &all, &why), MLPBWD_OK);
    assert_int_equal(all.count, 0);
    db_close(database);
}

static mlpbwd_status see_candidate(void *user, const db_candidate *candidate, mlp_message *why) {
    seen *s = user;
    (void)why;
    size_t used = strlen(s->text);
    snprintf(s->text + used, sizeof s->text - used, "%s %s %s %g; ", candidate->parameters, candidate->outcome,
             candidate->reason, candidate->median_us);
    s->count++;
    return MLPBWD_OK;
}

static const db_candidate any_candidate = {
    .units = -1, .tokens = -1, .hidden_size = -1, .intermediate_size = -1, .accuracy = -1};

static void test_candidates(void **state) {
    mlp_message why = {""};
    char parameters[64];
    db *database = fixture_open(fixture_path(state, "a.sqlite"), DB_READ_WRITE);
    for (int i = 2; i >= 0; --i) {
        db_candidate candidate = fixture_candidate(i, parameters);
        assert_int_equal(db_record_candidate(database, &candidate, &why), MLPBWD_OK);
    }
    db_candidate candidate = fixture_candidate(1, parameters);
    candidate.outcome = "crashed";
    candidate.reason = "signal 11 \xff \xe2\x80\x98quoted\xe2\x80\x99 cut \xe2\x80";
    candidate.median_us = -1;
    assert_int_equal(db_record_candidate(database, &candidate, &why), MLPBWD_OK);
    db_candidate like = any_candidate;
    seen all = {0};
    assert_int_equal(db_each_candidate(database, &like, see_candidate, &all, &why), MLPBWD_OK);
    assert_string_equal(all.text, "{\"number\":0} ok  100; {\"number\":1} crashed signal 11 ? "
                                  "\xe2\x80\x98quoted\xe2\x80\x99 cut ?? -1; {\"number\":2} ok  102; ");
    like.outcome = "crashed";
    like.tokens = 256;
    like.kernel = "gemm";
    seen crashed = {0};
    assert_int_equal(db_each_candidate(database, &like, see_candidate, &crashed, &why), MLPBWD_OK);
    assert_int_equal(crashed.count, 1);
    candidate.outcome = "great";
    assert_int_equal(db_record_candidate(database, &candidate, &why), MLPBWD_INVALID_ARGUMENT);
    assert_non_null(strstr(why.text, "great"));
    db_close(database);
}

static void test_compile_cache(void **state) {
    mlp_message why = {""};
    db *database = fixture_open(fixture_path(state, "a.sqlite"), DB_READ_WRITE);
    char source[DB_HASH_CAPACITY], code[DB_HASH_CAPACITY], found[DB_HASH_CAPACITY];
    db_hash("source", 6, source);
    db_hash("code", 4, code);
    assert_int_equal(db_put_compiled(database, source, "sm_90a", "nvrtc 13.0", code, "", &why),
                     MLPBWD_INVALID_ARGUMENT);
    assert_non_null(strstr(why.text, code));
    assert_int_equal(db_put_blob(database, "cubin", "code", 4, code, &why), MLPBWD_OK);
    assert_int_equal(db_put_compiled(database, source, "sm_90a", "nvrtc 13.0", code, "warning", &why), MLPBWD_OK);
    assert_int_equal(db_get_compiled(database, source, "sm_90a", "nvrtc 13.0", found, &why), MLPBWD_OK);
    assert_string_equal(found, code);
    assert_int_equal(db_get_compiled(database, source, "sm_90a", "nvrtc 13.1", found, &why), MLPBWD_OK);
    assert_string_equal(found, "");
    db_close(database);
}

static void test_transactions(void **state) {
    mlp_message why = {""};
    db *database = fixture_open(fixture_path(state, "a.sqlite"), DB_READ_WRITE);
    assert_int_equal(db_begin(database, &why), MLPBWD_OK);
    fixture_put_plan(database, 64, 1);
    db_rollback(database);
    db_rollback(database); /* harmless */
    assert_int_equal(db_begin(database, &why), MLPBWD_OK);
    assert_int_equal(db_begin(database, &why), MLPBWD_DATABASE_ERROR);
    fixture_put_plan(database, 128, 1);
    assert_int_equal(db_commit(database, &why), MLPBWD_OK);
    seen all = {0};
    assert_int_equal(db_each_plan(database, NULL, see_plan, &all, &why), MLPBWD_OK);
    assert_string_equal(all.text, "Test GPU/sm_90a/128/1 ");
    db_close(database);
    db_close(NULL);
    db *reader = fixture_open(fixture_path(state, "a.sqlite"), DB_READ_ONLY);
    char hash[DB_HASH_CAPACITY];
    assert_int_equal(db_put_blob(reader, "source", "new", 3, hash, &why), MLPBWD_DATABASE_ERROR);
    assert_non_null(strstr(why.text, "reading only"));
    db_close(reader);
}

static void test_user_path(void **state) {
    (void)state;
    mlp_message why = {""};
    char path[128];
    bool explicit_path;
    const struct {
        const char *database, *xdg, *home, *expected;
    } cases[] = {
        {"/x y/db", "/data", "/home/u", "/x y/db"},
        {"relative.db", NULL, NULL, "relative.db"},
        {NULL, "/data", "/home/u", "/data/mlpbwd/tuning.sqlite"},
        {"", "", "/home/u", "/home/u/.local/share/mlpbwd/tuning.sqlite"},
        {NULL, "data", "/home/u", "/home/u/.local/share/mlpbwd/tuning.sqlite"},
        {NULL, NULL, NULL, ""},
        {NULL, NULL, "", ""},
        {NULL, "relative", "relative", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        const char *names[] = {"MLPBWD_DATABASE", "XDG_DATA_HOME", "HOME"};
        const char *values[] = {cases[i].database, cases[i].xdg, cases[i].home};
        for (size_t v = 0; v < 3; ++v)
            assert_int_equal(values[v] ? setenv(names[v], values[v], 1) : unsetenv(names[v]), 0);
        assert_int_equal(db_default_user_path(path, sizeof path, &explicit_path, &why), MLPBWD_OK);
        assert_string_equal(path, cases[i].expected);
        assert_int_equal(explicit_path, cases[i].database && *cases[i].database);
    }
    assert_non_null(strstr(why.text, "HOME"));
    assert_int_equal(setenv("HOME", "/home/u", 1), 0);
    assert_int_equal(db_default_user_path(path, 10, &explicit_path, &why), MLPBWD_INVALID_ARGUMENT);
    assert_string_equal(path, "");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, fixture_folder, fixture_remove)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash_matches_published_vectors),
        IN_FOLDER(test_blobs),
        IN_FOLDER(test_plans_are_replaced_filtered_and_ordered),
        IN_FOLDER(test_bad_plans_are_refused_by_name),
        IN_FOLDER(test_candidates),
        IN_FOLDER(test_compile_cache),
        IN_FOLDER(test_transactions),
        cmocka_unit_test(test_user_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
