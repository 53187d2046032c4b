/* Every wrapper of inline PTX (templates/lib/ptx*.cuh) assembles for the architectures that have it, and has a namesake
 * in the headers of emulated kernels: tests/emulated/wrappers/X.cu uses all of ptx*.cuh's file X once. */
#include <ctype.h>
#include <dirent.h>

#include "tma_support.h"

enum { NAMES = 128, NAME = 64 };

/* The library's file of PTX wrappers, what must come before it, and who has the instructions. */
typedef struct wrapper_file {
    const char *name;
    const char *before;
    const char *architectures[4];
} wrapper_file;
static const wrapper_file files[] = {
    {"ptx", NULL, {"sm_80", "sm_90a", "sm_100a"}},
    {"ptx_sm90", "ptx", {"sm_90a", "sm_100a"}},
    {"ptx_tma", "ptx", {"sm_90a", "sm_100a"}},
    {"ptx_cluster", "ptx", {"sm_90a", "sm_100a"}},
    {"ptx_sm100", "ptx", {"sm_100a", "sm_103a"}},
};
enum { FILES = sizeof files / sizeof files[0] };

static char *read_path(const char *path) {
    char *text = NULL;
    size_t capacity = 0;
    FILE *file = fopen(path, "re");
    if (!file || getdelim(&text, &capacity, 0, file) < 0)
        fail_msg("%s cannot be read", path);
    (void)fclose(file);
    return text;
}

/* Names of the device functions of a text; of one made by a macro (tmem_load_##shape) what stands before the ##. */
static size_t function_names(const char *text, char names[NAMES][NAME]) {
    static const char mark[] = "__device__ __forceinline__ ";
    size_t count = 0;
    while ((text = strstr(text, mark)) != NULL) {
        text += strlen(mark);
        const char *end = text + strcspn(text, "(\n"), *start;
        const char *hole = strstr(text, "##"), *fill = strstr(text, "${");
        if (hole && hole < end)
            end = hole;
        if (fill && fill < end)
            end = fill;
        for (start = end; start > text && (isalnum((unsigned char)start[-1]) || start[-1] == '_'); start--)
            continue;
        assert_true(end > start && end - start < NAME && count < NAMES);
        memcpy(names[count], start, (size_t)(end - start));
        names[count++][end - start] = 0;
        text = end;
    }
    return count;
}

static char *wrappers_text(const wrapper_file *file) {
    char before[128], library[128], kernel[128];
    kernel_fill fills[FILLS];
    size_t count = 0, pieces = 0;
    for (; count < sizeof product_fills / sizeof product_fills[0]; count++)
        fills[count] = product_fills[count];
    fills[count] = (kernel_fill){NULL, NULL};
    const char *texts[4] = {"templates/lib/base.cuh"};
    pieces = 1;
    if (file->before) {
        snprintf(before, sizeof before, "templates/lib/%s.cuh", file->before);
        texts[pieces++] = before;
    }
    snprintf(library, sizeof library, "templates/lib/%s.cuh", file->name);
    snprintf(kernel, sizeof kernel, "tests/emulated/wrappers/%s.cu", file->name);
    texts[pieces++] = library;
    texts[pieces++] = kernel;
    return kernel_text(texts, pieces, fills);
}

/* A file of wrappers that is new needs a row above and a kernel. */
static void test_every_file_has_a_kernel(void **state) {
    (void)state;
    DIR *folder = opendir(SOURCE_DIR "/templates/lib");
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        size_t length = strlen(entry->d_name);
        if (strncmp(entry->d_name, "ptx", 3) != 0 || length < 5 || strcmp(entry->d_name + length - 4, ".cuh") != 0)
            continue;
        bool known = false;
        for (size_t i = 0; i < FILES; i++)
            known |= strlen(files[i].name) == length - 4 && strncmp(files[i].name, entry->d_name, length - 4) == 0;
        if (!known)
            fail_msg("templates/lib/%s has no row in files[] and no kernel in tests/emulated/wrappers", entry->d_name);
    }
    closedir(folder);
}

static void test_every_wrapper_is_used(void **state) {
    (void)state;
    static char names[NAMES][NAME];
    for (size_t i = 0; i < FILES; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/templates/lib/%s.cuh", SOURCE_DIR, files[i].name);
        char *library = read_path(path);
        snprintf(path, sizeof path, "%s/tests/emulated/wrappers/%s.cu", SOURCE_DIR, files[i].name);
        char *kernel = read_path(path);
        size_t count = function_names(library, names);
        assert_true(count > 5);
        for (size_t k = 0; k < count; k++)
            if (!strstr(kernel, names[k]))
                fail_msg("%s does not use %s of %s.cuh", path, names[k], files[i].name);
        free(library);
        free(kernel);
    }
}

static void compile_all(const char *compiler) {
    char version[64];
    mlp_message why = {""};
    if (dev_compiler_version(compiler, version, sizeof version, &why)) {
        print_message("%s\n", why.text);
        skip();
    }
    for (size_t i = 0; i < FILES; i++) {
        char *text = wrappers_text(&files[i]);
        for (const char *const *architecture = files[i].architectures; *architecture; architecture++) {
            const dev_compile_request request = {
                .compiler = compiler, .target = *architecture, .source = text, .name = files[i].name};
            dev_image image;
            if (dev_compile(&request, &image, &why))
                fail_msg("%s.cuh for %s: %s", files[i].name, *architecture, why.text);
            dev_image_free(&image);
        }
        free(text);
    }
}

static void test_assembles(void **state) {
    (void)state;
    compile_all("nvrtc");
}

static void test_emulated(void **state) {
    (void)state;
    compile_all("emulated");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_file_has_a_kernel),
                                       cmocka_unit_test(test_every_wrapper_is_used), cmocka_unit_test(test_assembles),
                                       cmocka_unit_test(test_emulated)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
