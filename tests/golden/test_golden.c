/* Emitted text, byte for byte: the default variant of every kernel, role and class on an architecture of each backend
 * and family of tensor-core instructions. Files: KERNEL.ROLE.ARCH.CLASS.txt, the launches as a comment and then the
 * source; a class or architecture whose text is that of an earlier one has no file. UPDATE_GOLDEN=1
 * (tests/golden/update.sh) writes them anew. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gen.h"

#define FOLDER SOURCE_DIR "/tests/golden"
#define COMMAND "sh tests/golden/update.sh"

static const char *const sample[] = {"sm_90a", "x86-64-v3", "sm_100a"};

static gen *generator;
static mlp_message why;

static int open_shipped(void **state) {
    (void)state;
    const char *folders[] = {SOURCE_DIR "/templates"};
    if (gen_open(folders, 1, NULL, &generator, &why) != MLPBWD_OK) {
        print_error("%s\n", why.text);
        return -1;
    }
    return 0;
}

static int close_shipped(void **state) {
    (void)state;
    gen_close(generator);
    return 0;
}

/* Malloc'ed; NULL: no such file. */
static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t capacity = 0;
    if (!file)
        return NULL;
    if (getdelim(&text, &capacity, '\0', file) < 0) {
        free(text);
        text = strdup("");
    }
    (void)fclose(file); /* only read */
    return text;
}

/* Name of each golden file -> its text. */
static json_t *emit_all(void) {
    json_t *all = json_object(), *fields, *role;
    const char *kernel;
    json_object_foreach(generator->kernels, kernel, fields) {
        size_t i;
        json_array_foreach(json_object_get(fields, "roles"), i, role) {
            json_t *earlier = json_object();
            for (size_t a = 0; a < sizeof sample / sizeof *sample; a++) {
                for (int accuracy = 0; accuracy < 3; accuracy++) {
                    gen_target target = {sample[a], accuracy};
                    kernel_use use;
                    kernel_variant variant;
                    char name[512];
                    if (kernel_use_init(&use, generator, kernel, json_string_value(role), &target, NULL) != MLPBWD_OK)
                        continue;
                    if (kernel_variant_make(&use, NULL, NULL, &variant, &why) != MLPBWD_OK)
                        fail_msg("%s", why.text);
                    char *launches = json_dumps(variant.launches, JSON_INDENT(1) | JSON_SORT_KEYS);
                    json_t *text =
                        json_sprintf("/* launches of the default variant:\n%s\n*/\n%s", launches, variant.source);
                    if (!json_object_get(earlier, json_string_value(text))) {
                        snprintf(name, sizeof name, "%s.%s.%s.%s.txt", kernel, json_string_value(role), sample[a],
                                 accuracy_name(accuracy));
                        json_object_set_new(earlier, json_string_value(text), json_true());
                        json_object_set(all, name, text);
                    }
                    json_decref(text);
                    free(launches);
                    kernel_variant_free(&variant);
                }
            }
            json_decref(earlier);
        }
    }
    return all;
}

static void write_all(const json_t *all) {
    const char *name;
    json_t *text;
    json_object_foreach((json_t *)all, name, text) {
        char path[4096];
        snprintf(path, sizeof path, FOLDER "/%s", name);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(json_string_value(text), 1, json_string_length(text), file), json_string_length(text));
        assert_int_equal(fclose(file), 0);
    }
}

/* Golden files that nothing emits any more: removed when updating, else named. */
static void check_stale(const json_t *all, bool update) {
    DIR *folder = opendir(FOLDER);
    struct dirent *entry;
    assert_non_null(folder);
    while ((entry = readdir(folder))) {
        size_t length = strlen(entry->d_name);
        if (length < 4 || strcmp(entry->d_name + length - 4, ".txt") != 0 || json_object_get(all, entry->d_name))
            continue;
        char path[4096];
        snprintf(path, sizeof path, FOLDER "/%s", entry->d_name);
        if (!update) {
            (void)closedir(folder);
            fail_msg("nothing emits tests/golden/%s any more: " COMMAND, path + sizeof FOLDER);
        }
        assert_int_equal(unlink(path), 0);
    }
    (void)closedir(folder);
}

/* 1-based line of the first difference. */
static size_t first_difference(const char *a, const char *b) {
    size_t line = 1;
    for (; *a && *a == *b; a++, b++)
        line += *a == '\n';
    return line;
}

static void test_golden(void **state) {
    (void)state;
    const char *update = getenv("UPDATE_GOLDEN"), *name;
    json_t *all = emit_all(), *text;
    bool differs = false;
    if (update && *update)
        write_all(all);
    check_stale(all, update && *update);
    json_object_foreach(all, name, text) {
        char path[4096];
        snprintf(path, sizeof path, FOLDER "/%s", name);
        char *golden = read_file(path);
        if (!golden || strcmp(golden, json_string_value(text)) != 0) {
            differs = true;
            if (golden)
                print_error("tests/golden/%s: differs from what is emitted in line %zu\n", name,
                            first_difference(golden, json_string_value(text)));
            else
                print_error("tests/golden/%s: is missing\n", name);
        }
        free(golden);
    }
    json_decref(all);
    if (differs)
        fail_msg("if the new text is meant, run: " COMMAND);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden)};
    return cmocka_run_group_tests_name("golden sources", tests, open_shipped, close_shipped);
}
