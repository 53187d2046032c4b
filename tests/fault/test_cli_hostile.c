/* The command line where surroundings are hostile: names that are no UTF-8, mistyped files, limits of the system. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
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

/* Checks the code, and that standard output or standard error says `told`. */
static void expect(int code, const char *told, run_result result) {
    if (result.code != code || (strstr(result.errors, told) == NULL && strstr(result.output, told) == NULL)) {
        fail_msg("code %d instead of %d, \"%s\" expected in:\n%s%s", result.code, code, told, result.output,
                 result.errors);
    }
    run_result_free(&result);
}

static void names_that_are_no_utf8(void **state) {
    (void)state;
    const char *path = path_in(folder, "\xff\xfe.sqlite");
    tiny_default_database(path, true, false);
    run_surroundings alone = {.environment = (const char *const[]){"MLPBWD_SHIPPED_DATABASE=", NULL}};
    expect(0, "/??.sqlite", RUN(&alone, "query", "--json", "--db", path, "--device", "host", "--tokens", "5"));
    expect(0, "/??.sqlite: sound.", RUN(NULL, "db", "check", "--db", path));
}

static void mistyped_files(void **state) {
    (void)state;
    const char *path = path_in(folder, "mistyped.sqlite"), *target = path_in(folder, "target.sqlite");
    expect(1, "mistyped.sqlite: cannot be opened", RUN(NULL, "db", "prune", "--db", path));
    assert_int_equal(access(path, F_OK), -1);
    expect(1, "cannot be read: No such file", RUN(NULL, "db", "import", "--db", target, path));
    expect(1, "cannot be read: Is a directory", RUN(NULL, "db", "import", "--db", target, folder));
    expect(1, "mistyped.sqlite", RUN(NULL, "tune", "--device", "host", "--replay", path, "--db", target));
}

/* SIGXFSZ would end the program without a word. */
static void file_size_limit(void **state) {
    (void)state;
    const char *path = path_in(folder, "list.json");
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 8192;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    run_result result = RUN(NULL, "emit", "--list", "--output", path);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    expect(1, "list.json cannot be written", result);
    assert_int_equal(access(path, F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_are_no_utf8),
        cmocka_unit_test(mistyped_files),
        cmocka_unit_test(file_size_limit),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
