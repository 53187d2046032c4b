/* kill -9 at any moment loses no acknowledged row, and the next process goes on. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "db_fixture.h"

enum { ROUNDS = 30 };

/* Records from `first` on and acknowledges each over the pipe. */
static void record_forever(const char *path, int first, int acknowledge) {
    mlp_message why = {""};
    db *database;
    if (db_open(path, DB_READ_WRITE, &database, &why) != MLPBWD_OK)
        _exit(1);
    for (int i = first;; ++i) {
        char parameters[64], hash[DB_HASH_CAPACITY];
        db_candidate candidate = fixture_candidate(i, parameters);
        static unsigned char code[20000];
        memcpy(code, &i, sizeof i);
        if (db_put_blob(database, "cubin", code, sizeof code, hash, &why) != MLPBWD_OK)
            _exit(2);
        candidate.code_hash = hash;
        if (db_record_candidate(database, &candidate, &why) != MLPBWD_OK)
            _exit(3);
        if (write(acknowledge, &i, sizeof i) != sizeof i)
            _exit(4);
    }
}

static mlpbwd_status see(void *user, const db_candidate *candidate, mlp_message *why) {
    int number = -1;
    (void)why;
    if (sscanf(candidate->parameters, "{\"number\":%d}", &number) == 1 && number >= 0 && number < 1 << 20)
        ((char *)user)[number] = 1;
    return MLPBWD_OK;
}

static void test_killed_writers(void **state) {
    const char *path = fixture_path(state, "a.sqlite"), *journal_path = fixture_path(state, "a.sqlite-journal");
    char *present = malloc(1 << 20);
    assert_non_null(present);
    int next = 0;
    uint32_t seed = 11;
    for (int round = 0; round < ROUNDS; ++round) {
        int ends[2], last = next - 1, number, result;
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            close(ends[0]);
            record_forever(path, next, ends[1]);
        }
        close(ends[1]);
        /* from before the file exists (first round) to the middle of some row: rows first, because how long one takes
         * depends on the disk */
        seed = seed * 1664525u + 1013904223u;
        for (uint32_t rows = round ? seed >> 8 & 3 : 0; rows; --rows) {
            assert_int_equal(read(ends[0], &number, sizeof number), sizeof number);
            last = number;
        }
        const struct timespec pause = {0, (long)(seed >> 10) % (round ? 20000000 : 3000000)};
        nanosleep(&pause, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        while (read(ends[0], &number, sizeof number) == sizeof number)
            last = number;
        close(ends[0]);
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_true(WIFSIGNALED(result));

        mlp_message why = {""};
        db *database = fixture_open(path, round % 2 || last < 0 ? DB_READ_WRITE : DB_READ_ONLY);
        memset(present, 0, 1 << 20);
        assert_int_equal(db_each_candidate(database, NULL, see, present, &why), MLPBWD_OK);
        for (int i = 0; i <= last; ++i)
            if (!present[i])
                fail_msg("round %d: row %d of %d was acknowledged and is gone", round, i, last);
        fixture_report report;
        fixture_start_report(&report);
        assert_int_equal(db_check(database, &report.report, &why), MLPBWD_OK);
        assert_string_equal(report.text, "");
        db_close(database);
        /* A journal that stays is one that the writer had not finished (empty, or its first byte is 0 until then). */
        if (access(journal_path, F_OK) == 0) {
            size_t size;
            char *journal = fixture_read(journal_path, &size);
            assert_int_equal(size ? journal[0] : 0, 0);
            free(journal);
        }
        next = last + 1;
    }
    assert_true(next > 20);
    free(present);
}

/* Two writers and a reader at once: everybody waits for his turn, nothing is lost. */
static void test_writers_take_turns(void **state) {
    const char *path = fixture_path(state, "a.sqlite");
    enum { EACH = 40, WRITERS = 2 };
    pid_t children[WRITERS];
    for (int w = 0; w < WRITERS; ++w) {
        children[w] = fork();
        assert_true(children[w] >= 0);
        if (children[w] == 0) {
            mlp_message why = {""};
            db *database;
            if (db_open(path, DB_READ_WRITE, &database, &why) != MLPBWD_OK)
                _exit(1);
            for (int i = 0; i < EACH; ++i) {
                char parameters[64];
                db_candidate candidate = fixture_candidate(w * EACH + i, parameters);
                if (db_record_candidate(database, &candidate, &why) != MLPBWD_OK)
                    _exit(2);
            }
            db_close(database);
            _exit(0);
        }
    }
    for (int w = 0; w < WRITERS; ++w) {
        int result;
        assert_int_equal(waitpid(children[w], &result, 0), children[w]);
        assert_int_equal(result, 0);
    }
    mlp_message why = {""};
    char present[1 << 8] = {0};
    db *database = fixture_open(path, DB_READ_ONLY);
    assert_int_equal(db_each_candidate(database, NULL, see, present, &why), MLPBWD_OK);
    for (int i = 0; i < WRITERS * EACH; ++i)
        assert_true(present[i]);
    db_close(database);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, fixture_folder, fixture_remove)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_killed_writers),
        IN_FOLDER(test_writers_take_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
