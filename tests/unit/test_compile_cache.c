/* MLPBWD_COMPILE_CACHE: what was compiled once is not compiled again, however the file came to harm, and code from
 * folders that others may write is not taken. */
#include <dirent.h>
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

#include "device/device.h"
#include "run_tool.h"

static char folder[256], cache[300], calls[300];

/* $CC is a script that notes each call and hands on to the system's compiler. */
static int set_up(void **state) {
    (void)state;
    make_folder(folder, sizeof folder);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    snprintf(calls, sizeof calls, "%s/calls", folder);
    const char *script = path_in(folder, "compiler");
    FILE *file = fopen(script, "w");
    if (!file)
        return -1;
    fprintf(file, "#!/bin/sh\necho >>'%s'\nexec cc \"$@\"\n", calls);
    fclose(file);
    return chmod(script, 0755) || setenv("CC", script, 1) || setenv("MLPBWD_COMPILE_CACHE", cache, 1);
}

static int tear_down(void **state) {
    (void)state;
    remove_folder(folder);
    return 0;
}

/* Compiles, and returns how many calls of the compiler it took. */
static long calls_for(const char *source, const char *name, mlpbwd_status expected, dev_image *image) {
    dev_compile_request request = {"cc", "x86-64", source, name};
    mlp_message why = {{0}};
    struct stat before = {0}, after = {0};
    (void)stat(calls, &before);
    mlpbwd_status status = dev_compile(&request, image, &why);
    if (status == MLPBWD_UNSUPPORTED)
        skip();
    if (status != expected)
        fail_msg("%s", why.text);
    (void)stat(calls, &after);
    return (long)(after.st_size - before.st_size);
}

/* The only file in the cache, or "" with another number of them. */
static const char *only_file(void) {
    static char path[600];
    int count = 0;
    DIR *entries = opendir(cache);
    assert_non_null(entries);
    for (struct dirent *entry = readdir(entries); entry; entry = readdir(entries))
        if (entry->d_name[0] != '.' && ++count)
            snprintf(path, sizeof path, "%s/%s", cache, entry->d_name);
    (void)closedir(entries);
    return count == 1 ? path : "";
}

static const char source[] = "#warning remembered\nint f(void) { return 7; }\n";

static void what_was_compiled_is_remembered(void **state) {
    (void)state;
    dev_image first, second;
    assert_int_equal(calls_for(source, "one", MLPBWD_OK, &first), 1);
    assert_int_equal(calls_for(source, "one", MLPBWD_OK, &second), 0);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.bytes, second.bytes, first.size);
    assert_string_equal(first.format, second.format);
    assert_string_equal(first.log, second.log);
    assert_non_null(strstr(first.log, "remembered"));
    dev_image_free(&first);
    dev_image_free(&second);
    const char *file = only_file();
    assert_string_not_equal(file, "");
    static const long cuts[] = {0, 10, 60, 400};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        assert_int_equal(truncate(file, cuts[i]), 0);
        assert_int_equal(calls_for(source, "one", MLPBWD_OK, &first), 1); /* and the file is whole again */
        assert_int_equal(calls_for(source, "one", MLPBWD_OK, &second), 0);
        dev_image_free(&first);
        dev_image_free(&second);
    }
    for (int in_format = 0; in_format <= 1; in_format++) { /* the format's name follows the first line; code is last */
        FILE *damaged = fopen(file, "r+");
        char head[200];
        assert_non_null(damaged);
        assert_non_null(fgets(head, sizeof head, damaged));
        assert_int_equal(in_format ? fseek(damaged, 0, SEEK_CUR) : fseek(damaged, -100, SEEK_END), 0);
        assert_int_equal(fputs("damage", damaged) < 0, 0);
        assert_int_equal(fclose(damaged), 0);
        assert_int_equal(calls_for(source, "one", MLPBWD_OK, &first), 1);
        dev_image_free(&first);
    }
}

static void other_requests_are_others(void **state) {
    (void)state;
    dev_image image;
    assert_int_equal(calls_for(source, "two", MLPBWD_OK, &image), 1); /* the name stands in diagnostics */
    dev_image_free(&image);
    assert_int_equal(calls_for("int f(void) { return 8; }\n", "one", MLPBWD_OK, &image), 1);
    dev_image_free(&image);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(calls_for("no C\n", "one", MLPBWD_COMPILE_ERROR, &image), 1);
        dev_image_free(&image);
    }
    const char *script = path_in(folder, "compiler"); /* another compiler by the same name */
    FILE *file = fopen(script, "a");
    assert_non_null(file);
    assert_true(fputs("#\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(calls_for(source, "two", MLPBWD_OK, &image), 1);
    dev_image_free(&image);
}

static void only_ones_own_folder_is_used(void **state) {
    (void)state;
    dev_image image;
    assert_int_equal(calls_for(source, "three", MLPBWD_OK, &image), 1);
    dev_image_free(&image);
    assert_int_equal(chmod(cache, 0722), 0);
    assert_int_equal(calls_for(source, "three", MLPBWD_OK, &image), 1);
    dev_image_free(&image);
    assert_int_equal(chmod(cache, 0700), 0);
    assert_int_equal(calls_for(source, "three", MLPBWD_OK, &image), 0);
    dev_image_free(&image);
    char *file = strdup(only_file());
    assert_int_equal(chmod(file, 0622), 0); /* and a file that others may write is replaced */
    assert_int_equal(calls_for(source, "three", MLPBWD_OK, &image), 1);
    dev_image_free(&image);
    assert_int_equal(unlink(file) || mkfifo(file, 0600), 0); /* so is what would wait for a writer */
    for (int calls_left = 1; calls_left >= 0; calls_left--) {
        assert_int_equal(calls_for(source, "three", MLPBWD_OK, &image), calls_left);
        dev_image_free(&image);
    }
    free(file);
    assert_int_equal(setenv("MLPBWD_COMPILE_CACHE", "not/absolute", 1), 0);
    assert_int_equal(calls_for(source, "three", MLPBWD_OK, &image), 1);
    dev_image_free(&image);
    assert_int_equal(access("not", F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_compiled_is_remembered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_requests_are_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_ones_own_folder_is_used, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
