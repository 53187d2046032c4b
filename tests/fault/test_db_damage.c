/* Damaged files never crash and never give wrong machine code; a place without room loses nothing. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "db_fixture.h"
#include "sql.h"

enum { PLANS = 6, CANDIDATES = 60 };

static void fill(const char *path, char hashes[2 * PLANS][DB_HASH_CAPACITY]) {
    mlp_message why = {""};
    db *database = fixture_open(path, DB_READ_WRITE);
    assert_int_equal(db_begin(database, &why), MLPBWD_OK);
    for (int i = 0; i < PLANS; ++i) {
        fixture_plan plan;
        fixture_make_plan(database, 64 + i, 5, &plan);
        assert_int_equal(db_put_plan(database, &plan.row, &why), MLPBWD_OK);
        const size_t at = (size_t)i * 2;
        memcpy(hashes[at], plan.source_hash, DB_HASH_CAPACITY);
        memcpy(hashes[at + 1], plan.code_hash, DB_HASH_CAPACITY);
    }
    for (int i = 0; i < CANDIDATES; ++i) {
        char parameters[64];
        db_candidate candidate = fixture_candidate(i, parameters);
        assert_int_equal(db_record_candidate(database, &candidate, &why), MLPBWD_OK);
    }
    assert_int_equal(db_commit(database, &why), MLPBWD_OK);
    db_close(database);
}

static mlpbwd_status count_plan(void *user, const db_plan_row *row, mlp_message *why) {
    (void)why;
    *(int *)user += strlen(row->plan) > 0;
    return MLPBWD_OK;
}

static mlpbwd_status count_candidate(void *user, const db_candidate *candidate, mlp_message *why) {
    (void)why;
    *(int *)user += strlen(candidate->parameters) > 0;
    return MLPBWD_OK;
}

/* Reads everything. Number of failures and findings; blobs that come out must be what they are named. */
static int read_all(const char *path, char hashes[2 * PLANS][DB_HASH_CAPACITY]) {
    mlp_message why = {""};
    db *database;
    int bad = 0, plans = 0, candidates = 0;
    if (db_open(path, DB_READ_ONLY, &database, &why) != MLPBWD_OK) {
        assert_true(strstr(why.text, path) != NULL);
        return 1;
    }
    bad += db_each_plan(database, NULL, count_plan, &plans, &why) != MLPBWD_OK;
    bad += db_each_candidate(database, NULL, count_candidate, &candidates, &why) != MLPBWD_OK;
    bad += plans != PLANS || candidates != CANDIDATES;
    for (int i = 0; i < 2 * PLANS; ++i) {
        void *bytes;
        size_t size;
        char actual[DB_HASH_CAPACITY];
        if (db_get_blob(database, hashes[i], &bytes, &size, NULL, &why) != MLPBWD_OK || !bytes) {
            ++bad;
            continue;
        }
        db_hash(bytes, size, actual);
        assert_string_equal(actual, hashes[i]);
        free(bytes);
    }
    free(fixture_export(database, true));
    fixture_report report;
    fixture_start_report(&report);
    bad += db_check(database, &report.report, &why) != MLPBWD_OK || report.report.rejected > 0;
    db_close(database);
    return bad;
}

static void test_flipped_bytes(void **state) {
    static char hashes[2 * PLANS][DB_HASH_CAPACITY];
    const char *path = fixture_path(state, "good.sqlite"), *bad = fixture_path(state, "bad.sqlite");
    fill(path, hashes);
    assert_int_equal(read_all(path, hashes), 0);
    size_t size;
    char *bytes = fixture_read(path, &size);
    int found = 0, tried = 0;
    uint32_t seed = 3;
    /* all of the header and the start of the first page, the start of every page, and places all over */
    for (size_t at = 0; at < size; at += at < 160 ? 1 : at % 4096 < 24 ? 3 : 97 + (seed >> 20) % 80) {
        seed = seed * 1664525u + 1013904223u;
        char old = bytes[at];
        bytes[at] = (char)(old ^ (seed >> 9 & 1 ? 0xff : 1 << (seed >> 16 & 7)));
        fixture_write(bad, bytes, size);
        bytes[at] = old;
        found += read_all(bad, hashes) > 0;
        ++tried;
    }
    free(bytes);
    assert_true(found > tried / 5);
}

static void test_truncated_files(void **state) {
    static char hashes[2 * PLANS][DB_HASH_CAPACITY];
    const char *path = fixture_path(state, "good.sqlite"), *bad = fixture_path(state, "bad.sqlite");
    fill(path, hashes);
    size_t size;
    char *bytes = fixture_read(path, &size);
    for (size_t length = 0; length < size; length += length < 128 ? 7 : 509) {
        fixture_write(bad, bytes, length);
        if (read_all(bad, hashes) == 0)
            fail_msg("a file cut to %zu of %zu bytes was taken for whole", length, size);
        mlp_message why = {""};
        db *database;
        if (length > 0 && db_open(bad, DB_READ_WRITE, &database, &why) != MLPBWD_DATABASE_ERROR)
            fail_msg("a file cut to %zu of %zu bytes was opened for writing", length, size);
    }
    for (size_t length = 4096; length < size; length += 4096) { /* whole pages cut off */
        fixture_write(bad, bytes, length);
        assert_true(read_all(bad, hashes) > 0);
    }
    free(bytes);
}

/* Pages of a stranger's choice: blocks of one page written over another. */
static void test_shuffled_pages(void **state) {
    static char hashes[2 * PLANS][DB_HASH_CAPACITY];
    const char *path = fixture_path(state, "good.sqlite"), *bad = fixture_path(state, "bad.sqlite");
    fill(path, hashes);
    size_t size;
    char *bytes = fixture_read(path, &size), *copy = malloc(size);
    assert_non_null(copy);
    const size_t pages = size / 4096;
    for (size_t i = 0; i < pages * pages && i < 400; ++i) {
        size_t from = i % pages, to = 1 + i * 7 % (pages - 1);
        memcpy(copy, bytes, size);
        memcpy(copy + to * 4096, bytes + from * 4096, 4096);
        fixture_write(bad, copy, size);
        (void)read_all(bad, hashes); /* must come back */
    }
    free(copy);
    free(bytes);
}

/* Records candidates until one is refused; returns how many are acknowledged. The refusal must say `says`, and all
 * that was acknowledged must be there afterwards, in a file that passes the check. */
static int fill_up(const char *path, const char *says, int limit_pages) {
    mlp_message why = {""};
    db *database;
    if (db_open(path, DB_READ_WRITE, &database, &why) != MLPBWD_OK)
        return -1;
    if (limit_pages) {
        char pragma[64];
        snprintf(pragma, sizeof pragma, "PRAGMA max_page_count = %d", limit_pages);
        if (sql_exec(database, "limiting", pragma, &why) != MLPBWD_OK)
            return -2;
    }
    int acknowledged = 0;
    for (; acknowledged < 100000; ++acknowledged) {
        char parameters[64];
        db_candidate candidate = fixture_candidate(acknowledged, parameters);
        if (db_record_candidate(database, &candidate, &why) != MLPBWD_OK)
            break;
    }
    if (!strstr(why.text, says)) {
        fprintf(stderr, "the message does not say \"%s\": %s\n", says, why.text);
        return -3;
    }
    /* a bigger change fails as a whole */
    static const char big[1 << 20];
    char hash[DB_HASH_CAPACITY];
    if (db_begin(database, &why) != MLPBWD_OK)
        return -4;
    mlpbwd_status put = db_put_blob(database, "cubin", big, sizeof big, hash, &why);
    mlpbwd_status committed = db_commit(database, &why);
    if (put == MLPBWD_OK && committed == MLPBWD_OK)
        return -5;
    db_rollback(database);
    int count = 0;
    if (db_each_candidate(database, NULL, count_candidate, &count, &why) != MLPBWD_OK || count != acknowledged)
        return -6;
    db_close(database);
    return acknowledged;
}

static void expect_intact(const char *path, int candidates) {
    mlp_message why = {""};
    fixture_report report;
    int count = 0;
    db *database = fixture_open(path, DB_READ_WRITE);
    assert_int_equal(db_each_candidate(database, NULL, count_candidate, &count, &why), MLPBWD_OK);
    assert_int_equal(count, candidates);
    fixture_start_report(&report);
    assert_int_equal(db_check(database, &report.report, &why), MLPBWD_OK);
    assert_string_equal(report.text, "");
    char parameters[64];
    db_candidate candidate = fixture_candidate(1000000, parameters); /* with room again, work goes on */
    assert_int_equal(db_record_candidate(database, &candidate, &why), MLPBWD_OK);
    db_close(database);
}

static void test_page_limit(void **state) {
    const char *path = fixture_path(state, "a.sqlite");
    int acknowledged = fill_up(path, "disk is full", 24);
    assert_true(acknowledged > 10);
    expect_intact(path, acknowledged);
}

/* Children answer over a pipe, because the limits cannot be taken back. */
static int in_child(int (*work)(const char *path), const char *path) {
    int ends[2], answer = -100, result;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        answer = work(path);
        _exit(write(ends[1], &answer, sizeof answer) == sizeof answer ? 0 : 1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &answer, sizeof answer), sizeof answer);
    close(ends[0]);
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    return answer;
}

static int fill_with_file_limit(const char *path) {
    const struct rlimit limit = {100000, 100000};
    if (signal(SIGXFSZ, SIG_IGN) == SIG_ERR || setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return -200;
    return fill_up(path, "no room", 0);
}

static void test_file_size_limit(void **state) {
    const char *path = fixture_path(state, "a.sqlite");
    int acknowledged = in_child(fill_with_file_limit, path);
    assert_true(acknowledged > 10);
    expect_intact(path, acknowledged);
}

/* A real full disk, where this process may mount one. The file is looked at inside, before the mount goes away. */
static int fill_disk(const char *path) {
    char folder[4096], *slash;
    snprintf(folder, sizeof folder, "%s", path);
    slash = strrchr(folder, '/');
    *slash = 0;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", 0, "size=192k") != 0)
        return -200;
    int acknowledged = fill_up(path, "disk is full", 0);
    if (acknowledged < 0)
        return acknowledged;
    mlp_message why = {""};
    db *database;
    fixture_report report;
    fixture_start_report(&report);
    if (db_open(path, DB_READ_ONLY, &database, &why) != MLPBWD_OK ||
        db_check(database, &report.report, &why) != MLPBWD_OK || report.report.rejected)
        return -7;
    db_close(database);
    return acknowledged;
}

static void test_full_disk(void **state) {
    int acknowledged = in_child(fill_disk, fixture_path(state, "a.sqlite"));
    if (acknowledged == -200)
        skip();
    assert_true(acknowledged > 10);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, fixture_folder, fixture_remove)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_flipped_bytes), IN_FOLDER(test_truncated_files), IN_FOLDER(test_shuffled_pages),
        IN_FOLDER(test_page_limit),    IN_FOLDER(test_file_size_limit), IN_FOLDER(test_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
