/* Which database answers: explicit paths, the user's, the shipped one, forced files, and sources without code. */
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
#include "mlpbwd.h"
#include "tiny.h"

static char folder[64], first_path[128], second_path[128], force_path[128];
static const mlpbwd_problem small = {.batch_size = 7, .seq_len = 1, .hidden_size = 64, .intermediate_size = 64};

typedef struct log_lines {
    int count;
    char last[1024];
} log_lines;

static void keep_line(void *user, const char *message) {
    log_lines *lines = user;
    lines->count++;
    snprintf(lines->last, sizeof lines->last, "%s", message);
}

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/mlpbwd-api db-XXXXXX"); /* a blank in the path, as users have */
    if (!mkdtemp(folder))
        return -1;
    snprintf(first_path, sizeof first_path, "%s/first.sqlite", folder);
    snprintf(second_path, sizeof second_path, "%s/second.sqlite", folder);
    snprintf(force_path, sizeof force_path, "%s/force.json", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(first_path);
    unlink(second_path);
    unlink(force_path);
    return rmdir(folder);
}

/* Nothing but what a test sets: no home, no user's, no shipped database. */
static int clear_environment(void **state) {
    (void)state;
    unlink(first_path);
    unlink(second_path);
    unsetenv("HOME");
    unsetenv("XDG_DATA_HOME");
    unsetenv("MLPBWD_DATABASE");
    unsetenv("MLPBWD_FORCE");
    return setenv("MLPBWD_SHIPPED_DATABASE", "", 1);
}

static mlpbwd_library *open_with(const char *path) {
    mlpbwd_library *library = NULL;
    if (mlpbwd_open(path, "host", &library) != MLPBWD_OK)
        fail_msg("%s", mlpbwd_last_error());
    return library;
}

/* A field of the description of a plan made for the small problem. */
static void describe(mlpbwd_library *library, const char *field, char *value, size_t capacity) {
    mlpbwd_plan *plan = NULL;
    char text[8192];
    if (mlpbwd_plan_create(library, &small, &plan) != MLPBWD_OK)
        fail_msg("%s", mlpbwd_last_error());
    assert_int_equal(mlpbwd_plan_describe(plan, text, sizeof text, NULL), MLPBWD_OK);
    mlpbwd_plan_destroy(plan);
    json_t *answer = json_loads(text, 0, NULL);
    snprintf(value, capacity, "%s", json_string_value(json_object_get(answer, field)));
    json_decref(answer);
}

static void expect_database(const char *explicit_path, const char *database) {
    char value[256];
    mlpbwd_library *library = open_with(explicit_path);
    describe(library, "database", value, sizeof value);
    assert_string_equal(value, database);
    mlpbwd_close(library);
}

static void test_no_database_is_no_error(void **state) {
    (void)state;
    log_lines log = {0};
    mlpbwd_set_log(keep_line, &log);
    mlpbwd_library *library = open_with(NULL);
    mlpbwd_plan *plan = NULL;
    assert_int_equal(mlpbwd_plan_create(library, &small, &plan), MLPBWD_UNSUPPORTED);
    assert_null(plan);
    assert_non_null(strstr(mlpbwd_last_error(), "no database is open"));
    mlpbwd_problem empty = small;
    empty.batch_size = 0;
    assert_int_equal(mlpbwd_plan_create(library, &empty, &plan), MLPBWD_OK);
    assert_int_equal(log.count, 0);
    mlpbwd_plan_destroy(plan);
    mlpbwd_close(library);
    mlpbwd_set_log(NULL, NULL);
}

static void test_users_then_shipped(void **state) {
    (void)state;
    tiny_default_database(first_path, true, false);
    tiny_default_database(second_path, true, false);
    setenv("MLPBWD_SHIPPED_DATABASE", second_path, 1);
    expect_database(NULL, second_path);
    setenv("MLPBWD_DATABASE", first_path, 1);
    expect_database(NULL, first_path);
    expect_database(second_path, second_path);
    setenv("MLPBWD_SHIPPED_DATABASE", "", 1);
    expect_database(NULL, first_path);
}

static void test_home_folders(void **state) {
    (void)state;
    char data[160], inner[192], database[256], command[512];
    snprintf(data, sizeof data, "%s/home/.local/share", folder);
    snprintf(inner, sizeof inner, "%s/mlpbwd", data);
    snprintf(database, sizeof database, "%s/tuning.sqlite", inner);
    snprintf(command, sizeof command, "mkdir -p '%s'", inner);
    assert_int_equal(system(command), 0);
    tiny_default_database(database, true, false);
    setenv("XDG_DATA_HOME", data, 1);
    expect_database(NULL, database);
    unsetenv("XDG_DATA_HOME");
    snprintf(data, sizeof data, "%s/home", folder);
    setenv("HOME", data, 1);
    expect_database(NULL, database);
    /* One that is no database is left out, with one line, and nothing fails. */
    FILE *file = fopen(database, "w");
    assert_non_null(file);
    fputs("this is no database, and long enough to be read as one: ................................................",
          file);
    fclose(file);
    log_lines log = {0};
    mlpbwd_set_log(keep_line, &log);
    mlpbwd_close(open_with(NULL));
    assert_int_equal(log.count, 1);
    assert_non_null(strstr(log.last, database));
    mlpbwd_set_log(NULL, NULL);
    snprintf(command, sizeof command, "rm -r '%s/home'", folder);
    assert_int_equal(system(command), 0);
}

static void test_asked_for_and_bad(void **state) {
    (void)state;
    mlpbwd_library *library = NULL;
    assert_int_equal(mlpbwd_open(first_path, "host", &library), MLPBWD_DATABASE_ERROR);
    assert_null(library);
    assert_non_null(strstr(mlpbwd_last_error(), "first.sqlite"));
    assert_int_equal(access(first_path, F_OK), -1); /* it was not created */
    setenv("MLPBWD_DATABASE", first_path, 1);
    assert_int_equal(mlpbwd_open(NULL, "host", &library), MLPBWD_DATABASE_ERROR);
    assert_non_null(strstr(mlpbwd_last_error(), "MLPBWD_DATABASE"));
    tiny_default_database(first_path, true, false);
    assert_int_equal(chmod(first_path, 0666), 0);
    assert_int_equal(mlpbwd_open(NULL, "host", &library), MLPBWD_DATABASE_ERROR);
    assert_int_equal(mlpbwd_open(folder, "host", &library), MLPBWD_DATABASE_ERROR);
    assert_int_equal(mlpbwd_open("", "host", &library), MLPBWD_DATABASE_ERROR);
    assert_null(library);
}

static void test_shipped_path(void **state) {
    (void)state;
    char path[4096], small_room[4];
    lookup_shipped_path(path, sizeof path);
    assert_string_equal(path, "");
    setenv("MLPBWD_SHIPPED_DATABASE", "/anywhere/x.sqlite", 1);
    lookup_shipped_path(path, sizeof path);
    assert_string_equal(path, "/anywhere/x.sqlite");
    lookup_shipped_path(small_room, sizeof small_room);
    assert_string_equal(small_room, "");
    unsetenv("MLPBWD_SHIPPED_DATABASE");
    lookup_shipped_path(path, sizeof path);
    if (path[0])
        assert_int_equal(access(path, R_OK), 0);
}

static void test_sources_without_code(void **state) {
    (void)state;
    tiny_default_database(first_path, false, false);
    mlpbwd_library *library = open_with(first_path);
    mlpbwd_plan *plan = NULL;
    mlpbwd_problem problem = small;
    assert_int_equal(mlpbwd_plan_create(library, &problem, &plan), MLPBWD_UNSUPPORTED);
    assert_non_null(strstr(mlpbwd_last_error(), "MLPBWD_FLAG_ALLOW_COMPILE"));
    problem.flags = MLPBWD_FLAG_ALLOW_COMPILE;
    if (mlpbwd_plan_create(library, &problem, &plan) != MLPBWD_OK)
        fail_msg("%s", mlpbwd_last_error());
    size_t size = mlpbwd_plan_workspace_size(plan);
    void *workspace = tiny_aligned(size);
    tiny_case c;
    tiny_case_make(&c, &problem);
    assert_int_equal(mlpbwd_execute(plan, &c.tensors, workspace, size, NULL), MLPBWD_OK);
    assert_true(tiny_case_error(&c, 0, 0) < 1e-6);
    tiny_case_free(&c);
    free(workspace);
    mlpbwd_plan_destroy(plan);
    mlpbwd_close(library);
}

/* A row for exactly this device and T, whose code was made nowhere: the default serves, and the log says why. */
static void test_unusable_row_is_left_out(void **state) {
    (void)state;
    char code[DB_HASH_CAPACITY], source[DB_HASH_CAPACITY], value[256];
    dev *device = NULL;
    mlp_message why = {0};
    log_lines log = {0};
    tiny_default_database(first_path, true, false);
    db *database = tiny_database(first_path, false, source, code);
    assert_int_equal(dev_open("host", &device, &why), MLPBWD_OK);
    const dev_info *info = dev_get_info(device);
    const tiny_row row = {.arch = tiny_host_arch(),
                          .device_name = info->name,
                          .units = info->units,
                          .tokens = 7,
                          .hidden_size = 64,
                          .intermediate_size = 64,
                          .median_us = 10,
                          .plan = {.source = source, .factor = 3}};
    tiny_put(database, &row);
    db_close(database);
    dev_release(device);
    mlpbwd_set_log(keep_line, &log);
    mlpbwd_library *library = open_with(first_path);
    describe(library, "match", value, sizeof value);
    assert_string_equal(value, "default");
    assert_int_equal(log.count, 2); /* what was left out, and that a default answers */
    mlpbwd_set_log(NULL, NULL);
    mlpbwd_close(library);
}

/* Changes one byte of the file at the only place where these bytes stand. */
static void damage(const char *path, const void *bytes, size_t size) {
    enum { LARGEST = 1 << 22 };
    FILE *file = fopen(path, "r+");
    char *content = malloc(LARGEST);
    assert_non_null(file);
    assert_non_null(content);
    size_t length = fread(content, 1, LARGEST, file);
    assert_true(length > 0 && length < LARGEST);
    const char *at = memmem(content, length, bytes, size);
    assert_non_null(at);
    assert_int_equal(fseek(file, at - content, SEEK_SET), 0);
    assert_int_not_equal(fputc(*at ^ 0x40, file), EOF);
    assert_int_equal(fclose(file), 0);
    free(content);
}

/* The user's database holds a plan that would be taken, but its row or its code is damaged. */
static void test_damage_is_forgiven_where_nobody_named_the_file(void **state) {
    (void)state;
    char inner[128], users[160], command[512];
    mlp_message why = {0};
    const dev_image *image = NULL;
    assert_true(tiny_compile(&image, &why));
    snprintf(inner, sizeof inner, "%s/mlpbwd", folder);
    snprintf(users, sizeof users, "%s/tuning.sqlite", inner);
    snprintf(command, sizeof command, "mkdir -p '%s'", inner);
    assert_int_equal(system(command), 0);
    tiny_default_database(second_path, true, false);
    setenv("MLPBWD_SHIPPED_DATABASE", second_path, 1);
    for (int i = 0; i < 2; i++) {
        unlink(users);
        tiny_default_database(users, true, false);
        setenv("XDG_DATA_HOME", folder, 1);
        expect_database(NULL, users);
        if (i == 0)
            damage(users, "2026-01-02", 10);
        else
            damage(users, (const char *)image->bytes + 64, 64);
        log_lines log = {0};
        mlpbwd_set_log(keep_line, &log);
        expect_database(NULL, second_path);
        mlpbwd_set_log(NULL, NULL);
        assert_int_equal(log.count, 2); /* what was left out, and that a default answers */
        /* A file that was asked for is taken at its word. */
        mlpbwd_plan *plan = NULL;
        mlpbwd_library *library = open_with(users);
        assert_int_equal(mlpbwd_plan_create(library, &small, &plan), MLPBWD_DATABASE_ERROR);
        assert_non_null(strstr(mlpbwd_last_error(), users));
        mlpbwd_close(library);
        setenv("MLPBWD_DATABASE", users, 1);
        library = open_with(NULL);
        assert_int_equal(mlpbwd_plan_create(library, &small, &plan), MLPBWD_DATABASE_ERROR);
        mlpbwd_close(library);
        unsetenv("MLPBWD_DATABASE");
    }
    snprintf(command, sizeof command, "rm -r '%s'", inner);
    assert_int_equal(system(command), 0);
}

static void export_first(bool with_code) {
    db *database = NULL;
    mlp_message why = {0};
    const db_plan_filter filter = {
        .units = -1, .accuracy = -1, .tokens = -1, .hidden_size = -1, .intermediate_size = -1};
    FILE *out = fopen(force_path, "w");
    assert_non_null(out);
    assert_int_equal(db_open(first_path, DB_READ_ONLY, &database, &why), MLPBWD_OK);
    assert_int_equal(db_export(database, &filter, with_code, out, &why), MLPBWD_OK);
    db_close(database);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(force_path, 0600), 0);
}

static void test_forced_file(void **state) {
    (void)state;
    char value[256];
    tiny_default_database(first_path, true, false);
    export_first(true);
    unlink(first_path);
    setenv("MLPBWD_FORCE", force_path, 1);
    mlpbwd_library *library = open_with(NULL); /* no database at all: the file has the code */
    unsetenv("MLPBWD_FORCE");                  /* read when the library is opened */
    describe(library, "match", value, sizeof value);
    assert_string_equal(value, "forced");
    describe(library, "database", value, sizeof value);
    assert_string_equal(value, force_path);
    mlpbwd_close(library);
    /* Never ignored: a file that cannot serve is an error, though a database could. */
    tiny_default_database(first_path, true, false);
    unlink(force_path);
    setenv("MLPBWD_FORCE", force_path, 1);
    library = open_with(first_path);
    mlpbwd_plan *plan = NULL;
    assert_int_equal(mlpbwd_plan_create(library, &small, &plan), MLPBWD_DATABASE_ERROR);
    assert_non_null(strstr(mlpbwd_last_error(), "MLPBWD_FORCE"));
    mlpbwd_close(library);
    /* Without code, an open database gives it. */
    export_first(false);
    library = open_with(first_path);
    describe(library, "match", value, sizeof value);
    assert_string_equal(value, "forced");
    mlpbwd_close(library);
}

static void test_nothing_without_a_compiler(void **state) {
    (void)state;
    skip();
}

int main(void) {
    mlp_message why = {0};
    const dev_image *image = NULL;
    const struct CMUnitTest none[] = {cmocka_unit_test(test_nothing_without_a_compiler)};
    if (!tiny_compile(&image, &why)) {
        print_message("%s\n", why.text);
        return cmocka_run_group_tests(none, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_no_database_is_no_error, clear_environment),
        cmocka_unit_test_setup(test_users_then_shipped, clear_environment),
        cmocka_unit_test_setup(test_home_folders, clear_environment),
        cmocka_unit_test_setup(test_asked_for_and_bad, clear_environment),
        cmocka_unit_test_setup(test_shipped_path, clear_environment),
        cmocka_unit_test_setup(test_sources_without_code, clear_environment),
        cmocka_unit_test_setup(test_unusable_row_is_left_out, clear_environment),
        cmocka_unit_test_setup(test_damage_is_forgiven_where_nobody_named_the_file, clear_environment),
        cmocka_unit_test_setup(test_forced_file, clear_environment),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
