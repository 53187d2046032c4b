/* Architecture names and capability tests stand where they belong: templates/arch and runtime/device/arch.c. Kernels
 * and the rest of the code ask for features. Templates include no file: what they emit is self-contained. (Which room
 * may include what: test_rooms.sh.) */
#include <ftw.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static regex_t arch_name, quoted_include;
static int broken, files;

static bool has_suffix(const char *path, const char *suffix) {
    size_t length = strlen(path), size = strlen(suffix);
    return length >= size && strcmp(path + length - size, suffix) == 0;
}

static bool starts(const char *path, const char *prefix) {
    return strncmp(path, prefix, strlen(prefix)) == 0;
}

/* Comments and help texts may give names as examples. */
static bool is_example(const char *line) {
    line += strspn(line, " \t");
    return strstr(line, "such as ") || starts(line, "\"  mlpbwd ") || starts(line, "/*") || starts(line, "*") ||
           starts(line, "//") || starts(line, "--") || starts(line, "#");
}

static void check_line(const char *path, int number, const char *line) {
    bool arch_file = starts(path, "templates/arch/") || strcmp(path, "runtime/device/arch.c") == 0;
    char code[4096];
    snprintf(code, sizeof code, "%s", line);
    char *comment = strstr(code, "/*");
    if (comment)
        *comment = '\0';
    comment = has_suffix(path, ".lua") ? strstr(code, "--") : strstr(code, "//");
    if (comment)
        *comment = '\0';
    if (!arch_file && !is_example(line) && regexec(&arch_name, code, 0, NULL, 0) == 0) {
        print_error("%s:%d: names an architecture: %s", path, number, line);
        broken++;
    }
    if (starts(path, "templates/") && regexec(&quoted_include, line, 0, NULL, 0) == 0) {
        print_error("%s:%d: includes a file: %s", path, number, line);
        broken++;
    }
}

static int check_file(const char *full, const struct stat *info, int kind, struct FTW *where) {
    static const char *const suffixes[] = {".c", ".h", ".lua", ".cu", ".cuh", ".def"};
    const char *path = full + sizeof SOURCE_DIR;
    bool wanted = false;
    (void)info;
    (void)where;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        wanted = wanted || has_suffix(path, suffixes[i]);
    if (kind != FTW_F || !wanted)
        return 0;
    FILE *file = fopen(full, "r");
    if (!file)
        return -1;
    char *line = NULL;
    size_t capacity = 0;
    files++;
    for (int number = 1; getline(&line, &capacity, file) > 0; number++)
        check_line(path, number, line);
    free(line);
    return fclose(file);
}

static void test_architecture_names(void **state) {
    static const char *const rooms[] = {"runtime", "tuning_db", "generator", "templates", "bench"};
    (void)state;
    assert_int_equal(regcomp(&arch_name,
                             "sm_[0-9]|compute_[0-9]|__CUDA_ARCH__|compute_capability *([<>]=?|[=!]=) *[0-9]{2}",
                             REG_EXTENDED | REG_NOSUB),
                     0);
    assert_int_equal(regcomp(&quoted_include, "^[ \t]*#[ \t]*include[ \t]*\"", REG_EXTENDED | REG_NOSUB), 0);
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        char root[4096];
        snprintf(root, sizeof root, SOURCE_DIR "/%s", rooms[i]);
        assert_int_equal(nftw(root, check_file, 16, FTW_PHYS), 0);
    }
    regfree(&arch_name);
    regfree(&quoted_include);
    assert_true(files > 20);
    assert_int_equal(broken, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_architecture_names)};
    return cmocka_run_group_tests_name("layers", tests, NULL, NULL);
}
