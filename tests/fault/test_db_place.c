/* Opening in hostile surroundings: odd paths, missing and read-only folders, other owners, loose modes, foreign and
 * newer files, interrupted writers. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "db_fixture.h"
#include "names.h"
#include "sql.h"

static void refused(const char *path, db_mode mode, const char *says) {
    mlp_message why = {""};
    db *database = (db *)&why; /* must become NULL */
    assert_int_equal(db_open(path, mode, &database, &why), MLPBWD_DATABASE_ERROR);
    assert_null(database);
    if (!strstr(why.text, says) || !strstr(why.text, path))
        fail_msg("\"%s\" should name the path and say \"%s\"", why.text, says);
}

static void make(const char *path) {
    db *database = fixture_open(path, DB_READ_WRITE);
    fixture_put_plan(database, 256, 10);
    db_close(database);
}

static mlpbwd_status count_plan(void *user, const db_plan_row *row, mlp_message *why) {
    (void)row;
    (void)why;
    ++*(int *)user;
    return MLPBWD_OK;
}

static int count_plans(db *database) {
    mlp_message why = {""};
    int count = 0;
    if (db_each_plan(database, NULL, count_plan, &count, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    return count;
}

static bool is_immutable(db *database) {
    return sqlite3_uri_boolean(sqlite3_db_filename(database->handle, "main"), "immutable", 0);
}

static void test_odd_paths(void **state) {
    static const char *const names[] = {
        "plain", "with space",   "100%",       "%41",         "a?immutable=1&mode=memory",
        "a#b",   "it's",         "say \"hi\"", ":memory:",    "file:x",
        "-dash", "\xff\xfe\x80", "new\nline",  "back\\slash", "caf\xc3\xa9",
        "~",     "sub/dir/%2F",  "&vfs=none",  "tab\there",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        const char *path = fixture_path(state, names[i]);
        make(path);
        struct stat info;
        assert_int_equal(stat(path, &info), 0);
        assert_true(info.st_size > 0);
        db *database = fixture_open(path, DB_READ_ONLY);
        char *shown = text_utf8(path, SIZE_MAX);
        assert_string_equal(db_path(database), shown);
        assert_true(strchr(names[i], '\xff') ? strstr(shown, "/???") != NULL : strcmp(shown, path) == 0);
        free(shown);
        assert_int_equal(count_plans(database), 1);
        db_close(database);
        assert_int_equal(chmod(path, 0444), 0); /* the other way of opening */
        database = fixture_open(path, DB_READ_ONLY);
        assert_true(is_immutable(database));
        assert_int_equal(count_plans(database), 1);
        db_close(database);
    }
    char *start = getcwd(NULL, 0);
    assert_non_null(start);
    assert_int_equal(chdir(*state), 0);
    make(":memory: too");
    make("relative?.sqlite");
    db *database = fixture_open(":memory:", DB_READ_ONLY); /* the file of that name */
    assert_int_equal(count_plans(database), 1);
    db_close(database);
    assert_int_equal(chdir(start), 0);
    free(start);
    mlp_message why = {""};
    assert_int_equal(db_open("", DB_READ_WRITE, &database, &why), MLPBWD_INVALID_ARGUMENT);
    assert_int_equal(db_open(NULL, DB_READ_WRITE, &database, &why), MLPBWD_INVALID_ARGUMENT);
}

static void test_what_is_created(void **state) {
    const struct {
        mode_t mask, file, folder;
    } cases[] = {{0, 0644, 0700}, {022, 0644, 0700}, {027, 0640, 0700}, {077, 0600, 0700}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        char name[32], folder_name[32];
        snprintf(folder_name, sizeof folder_name, "new%zu/deep", i);
        snprintf(name, sizeof name, "new%zu/deep/a.sqlite", i);
        mode_t mask = umask(cases[i].mask);
        make(fixture_path(state, name));
        umask(mask);
        struct stat info;
        assert_int_equal(stat(fixture_path(state, name), &info), 0);
        assert_int_equal(info.st_mode & 07777, cases[i].file);
        assert_int_equal(stat(fixture_path(state, folder_name), &info), 0);
        assert_int_equal(info.st_mode & 07777, cases[i].folder);
    }
    fixture_write(fixture_path(state, "file"), "x", 1);
    refused(fixture_path(state, "file/a.sqlite"), DB_READ_WRITE, "Not a directory");
    refused(fixture_path(state, "none/a.sqlite"), DB_READ_ONLY, "No such file");
    struct stat info;
    assert_int_equal(stat(fixture_path(state, "none"), &info), -1); /* reading creates nothing */
    refused(*state, DB_READ_ONLY, "folder");
    refused("/dev/null", DB_READ_ONLY, "special file");
}

static void test_settings(void **state) {
    mlp_message why;
    int64_t value;
    db *database = fixture_open(fixture_path(state, "a.sqlite"), DB_READ_WRITE);
    const struct {
        const char *pragma;
        int64_t expected;
    } numbers[] = {{"PRAGMA foreign_keys", 1},
                   {"PRAGMA synchronous", 2},
                   {"PRAGMA user_version", 1},
                   {"PRAGMA application_id", 0x6D6C7062},
                   {"SELECT journal_mode = 'delete' FROM pragma_journal_mode", 1},
                   {"SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND strict", 4}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) {
        assert_int_equal(sql_number(database, "asking", numbers[i].pragma, &value, &why), MLPBWD_OK);
        assert_int_equal(value, numbers[i].expected);
    }
    db_close(database);
}

/* A read-only place must look the same afterwards, for root too. */
static void test_read_only_folder(void **state) {
    const char *path = fixture_path(state, "ro/a.sqlite"), *folder = fixture_path(state, "ro");
    make(path);
    assert_int_equal(chmod(folder, 0555), 0);
    struct stat before, after;
    assert_int_equal(stat(folder, &before), 0);
    db *database = fixture_open(path, DB_READ_ONLY);
    assert_true(is_immutable(database));
    assert_int_equal(count_plans(database), 1);
    char *while_open = fixture_list(folder);
    assert_string_equal(while_open, "a.sqlite");
    free(while_open);
    db_close(database);
    char *names = fixture_list(folder);
    assert_string_equal(names, "a.sqlite");
    free(names);
    assert_int_equal(stat(folder, &after), 0);
    assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim);
    refused(path, DB_READ_WRITE, "read-only");
    assert_int_equal(chmod(folder, 0755), 0);
    database = fixture_open(path, DB_READ_ONLY);
    assert_false(is_immutable(database));
    db_close(database);
    assert_int_equal(chmod(path, 0444), 0);
    refused(path, DB_READ_WRITE, "read-only");
}

static void test_modes_that_let_others_write(void **state) {
    const char *path = fixture_path(state, "a.sqlite");
    make(path);
    const mode_t modes[] = {0664, 0646, 0666, 0622, 0777};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; ++i) {
        char mode[16], command[512];
        assert_int_equal(chmod(path, modes[i]), 0);
        snprintf(mode, sizeof mode, "mode %04o", (unsigned)modes[i]);
        snprintf(command, sizeof command, "chmod go-w '%s'", path);
        refused(path, DB_READ_ONLY, mode);
        refused(path, DB_READ_WRITE, command);
    }
}

/* Runs in a child as another user; its exit status is the number of the step that went wrong. */
static int as_user(void *const *state, uid_t user) {
    mlp_message why = {""};
    db *database;
    int count = 0;
    if (setgid(user) != 0 || setuid(user) != 0)
        return 1;
    if (db_open(fixture_path(state, "roots.sqlite"), DB_READ_ONLY, &database, &why) != MLPBWD_OK)
        return 2;
    if (!is_immutable(database) || db_each_plan(database, NULL, count_plan, &count, &why) != MLPBWD_OK || count != 1)
        return 3;
    db_close(database);
    if (db_open(fixture_path(state, "theirs.sqlite"), DB_READ_ONLY, &database, &why) != MLPBWD_DATABASE_ERROR ||
        !strstr(why.text, "owned by user 12345"))
        return 4;
    if (db_open(fixture_path(state, "new.sqlite"), DB_READ_WRITE, &database, &why) != MLPBWD_DATABASE_ERROR ||
        !strstr(why.text, "cannot be created"))
        return 5;
    if (db_open(fixture_path(state, "secret.sqlite"), DB_READ_ONLY, &database, &why) != MLPBWD_DATABASE_ERROR)
        return 6;
    return 0;
}

static void test_other_owners(void **state) {
    if (geteuid() != 0)
        skip();
    assert_int_equal(chmod(*state, 0755), 0);
    make(fixture_path(state, "roots.sqlite"));
    make(fixture_path(state, "theirs.sqlite"));
    make(fixture_path(state, "secret.sqlite"));
    assert_int_equal(chmod(fixture_path(state, "secret.sqlite"), 0600), 0);
    assert_int_equal(chown(fixture_path(state, "theirs.sqlite"), 12345, 12345), 0);
    refused(fixture_path(state, "theirs.sqlite"), DB_READ_ONLY, "owned by user 12345");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(as_user(state, 54321));
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
}

/* SQLite takes pages out of a journal into the database: whose journal it is matters as much. */
static void test_planted_journals(void **state) {
    static const char *const suffixes[] = {"-journal", "-wal"};
    for (size_t i = 0; i < 2; ++i) {
        char name[64], side[64];
        snprintf(name, sizeof name, "planted%zu.sqlite", i);
        snprintf(side, sizeof side, "%s%s", name, suffixes[i]);
        const char *path = fixture_path(state, name), *planted = fixture_path(state, side);
        make(path);
        fixture_write(planted, "pages", 5);
        assert_int_equal(chmod(planted, 0666), 0);
        refused(path, DB_READ_ONLY, suffixes[i]);
        refused(path, DB_READ_WRITE, "others can write it");
        assert_int_equal(remove(planted), 0);
        assert_int_equal(symlink("/etc/hostname", planted), 0);
        refused(path, DB_READ_WRITE, "special file");
        if (geteuid() != 0)
            continue;
        assert_int_equal(remove(planted), 0);
        fixture_write(planted, "pages", 5);
        assert_int_equal(chown(planted, 12345, 12345), 0);
        refused(path, DB_READ_WRITE, "owned by user 12345");
    }
}

static void change(const char *path, const char *text) {
    mlp_message why = {""};
    db *database = fixture_open(path, DB_READ_WRITE);
    if (sql_exec(database, "changing", text, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    db_close(database);
}

static void test_foreign_and_newer_files(void **state) {
    const char *path = fixture_path(state, "newer.sqlite");
    make(path);
    change(path, "PRAGMA user_version = 99");
    refused(path, DB_READ_ONLY, "version 99");
    refused(path, DB_READ_WRITE, "versions up to 1");
    path = fixture_path(state, "foreign.sqlite");
    make(path);
    change(path, "PRAGMA application_id = 5");
    refused(path, DB_READ_ONLY, "another program");
    refused(path, DB_READ_WRITE, "another program");
    path = fixture_path(state, "old.sqlite");
    make(path);
    change(path, "PRAGMA user_version = 0");
    refused(path, DB_READ_WRITE, "versions start at 1");
    path = fixture_path(state, "hollow.sqlite");
    make(path);
    change(path, "DROP TABLE plans");
    refused(path, DB_READ_WRITE, "plans");
    path = fixture_path(state, "text.sqlite");
    fixture_write(
        path, "This is no database, but it is long enough to be looked at as if it were one, at 100 bytes.....", 95);
    refused(path, DB_READ_ONLY, "no SQLite database");
    refused(path, DB_READ_WRITE, "no SQLite database");
    path = fixture_path(state, "empty.sqlite");
    fixture_write(path, "", 0);
    refused(path, DB_READ_ONLY, "empty");
    db_close(fixture_open(path, DB_READ_WRITE)); /* as if a writer had been killed just after creating it */
    db *database = fixture_open(path, DB_READ_ONLY);
    assert_int_equal(count_plans(database), 0);
    db_close(database);
}

/* A file that some tool has switched to WAL is taken back; no side file stays. */
static void test_wal_files(void **state) {
    const char *folder = fixture_path(state, "wal"), *path = fixture_path(state, "wal/a.sqlite");
    make(path);
    change(path, "PRAGMA journal_mode = WAL");
    assert_int_equal(chmod(folder, 0555), 0);
    db *database = fixture_open(path, DB_READ_ONLY);
    assert_int_equal(count_plans(database), 1);
    db_close(database);
    char *names = fixture_list(folder);
    assert_string_equal(names, "a.sqlite");
    free(names);
    assert_int_equal(chmod(folder, 0755), 0);
    database = fixture_open(path, DB_READ_ONLY);
    assert_int_equal(count_plans(database), 1);
    names = fixture_list(folder);
    assert_string_equal(names, "a.sqlite");
    free(names);
    db_close(database);
    size_t size;
    char *bytes = fixture_read(path, &size);
    assert_int_equal(bytes[18], 1);
    free(bytes);
}

/* Leaves a journal that must be undone: a writer killed after SQLite had to spill changed pages into the file. */
static void interrupt_writer(const char *path) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        mlp_message why = {""};
        db *database;
        char hash[DB_HASH_CAPACITY];
        static char bytes[1 << 20];
        if (db_open(path, DB_READ_WRITE, &database, &why) != MLPBWD_OK ||
            sql_exec(database, "spilling", "PRAGMA cache_spill = ON; PRAGMA cache_size = 10", &why) != MLPBWD_OK ||
            db_begin(database, &why) != MLPBWD_OK ||
            sql_exec(database, "spilling", "DELETE FROM plans", &why) != MLPBWD_OK)
            _exit(1);
        for (int i = 0; i < 4; ++i) {
            bytes[0] = (char)i;
            if (db_put_blob(database, "cubin", bytes, sizeof bytes, hash, &why) != MLPBWD_OK)
                _exit(2);
        }
        raise(SIGKILL);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFSIGNALED(result) && WTERMSIG(result) == SIGKILL);
}

static void test_interrupted_writer(void **state) {
    const char *folder = fixture_path(state, "hot"), *path = fixture_path(state, "hot/a.sqlite");
    struct stat info;
    make(path);
    interrupt_writer(path);
    assert_int_equal(stat(fixture_path(state, "hot/a.sqlite-journal"), &info), 0);
    assert_true(info.st_size > 0);
    assert_int_equal(chmod(folder, 0555), 0);
    refused(path, DB_READ_ONLY, "-journal");
    assert_int_equal(chmod(folder, 0755), 0);
    db *database = fixture_open(path, DB_READ_ONLY);
    assert_int_equal(count_plans(database), 1);
    fixture_report report;
    fixture_start_report(&report);
    mlp_message why;
    assert_int_equal(db_check(database, &report.report, &why), MLPBWD_OK);
    assert_string_equal(report.text, "");
    db_close(database);
    char *names = fixture_list(folder);
    assert_string_equal(names, "a.sqlite");
    free(names);
    interrupt_writer(path); /* the next writer recovers as well */
    database = fixture_open(path, DB_READ_WRITE);
    assert_int_equal(count_plans(database), 1);
    db_close(database);
}

/* Another connection of this process holds a lock: opening and closing must not drop it (a POSIX trap). */
static void test_opening_does_not_drop_locks(void **state) {
    mlp_message why = {""};
    const char *path = fixture_path(state, "a.sqlite");
    make(path);
    db *writer = fixture_open(path, DB_READ_WRITE);
    assert_int_equal(db_begin(writer, &why), MLPBWD_OK);
    db_close(fixture_open(path, DB_READ_ONLY));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) { /* locks belong to processes: only another one can tell */
        sqlite3 *other = NULL;
        if (sqlite3_open_v2(path, &other, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
            _exit(2);
        _exit(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_BUSY ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    assert_int_equal(db_commit(writer, &why), MLPBWD_OK);
    db_close(writer);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, fixture_folder, fixture_remove)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_odd_paths),
        IN_FOLDER(test_what_is_created),
        IN_FOLDER(test_settings),
        IN_FOLDER(test_read_only_folder),
        IN_FOLDER(test_modes_that_let_others_write),
        IN_FOLDER(test_other_owners),
        IN_FOLDER(test_planted_journals),
        IN_FOLDER(test_foreign_and_newer_files),
        IN_FOLDER(test_wal_files),
        IN_FOLDER(test_interrupted_writer),
        IN_FOLDER(test_opening_does_not_drop_locks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
