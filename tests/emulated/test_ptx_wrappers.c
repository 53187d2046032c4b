/* Every wrapper of inline PTX (templates/lib/ptx*.cuh) assembles for the architectures that have it, and has a namesake
 * in the headers of emulated kernels. The kernel that calls them all is made from their declarations;
 * tests/emulated/wrappers has those of files that are not so simple. */
#include <ctype.h>
#include <dirent.h>

#include "tma_support.h"

enum { MOST_FILES = 16, NAME = 64 };

/* What a file needs that its text does not say; a file without a row stands behind ptx.cuh and is for sm_90a. */
typedef struct wrapper_file {
    const char *name;
    bool first;                   /* needs no other file before it */
    bool by_hand;                 /* tests/emulated/wrappers/NAME.cu calls its wrappers */
    const char *architectures[4]; /* up to NULL */
    kernel_fill fills[8];
} wrapper_file;
static const wrapper_file rows[] = {
    {"ptx", .first = true, .architectures = {"sm_80", "sm_90a", "sm_100a"}},
    {"ptx_sm90", .architectures = {"sm_90a", "sm_100a"}},
    {"ptx_tma", .architectures = {"sm_90a", "sm_100a"}},
    {"ptx_cluster", .architectures = {"sm_90a", "sm_100a"}},
    {"ptx_sm100", .by_hand = true, .architectures = {"sm_100a"}},
    {"ptx_sm90_rs", .architectures = {"sm_90a"},
     .fills = {{"a_list", "%4, %5, %6, %7"}, {"b_index", "8"}, {"accumulate_index", "9"}}},
};

/* Values of template parameters, where not 1. */
static const kernel_fill template_values[] = {{"PENDING", "0"}, {"REGISTERS", "40"}, {"THREADS", "128"}};

static wrapper_file row_of(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i];
    return (wrapper_file){name, .architectures = {"sm_90a"}};
}

static size_t list_files(char names[MOST_FILES][NAME]) {
    size_t count = 0;
    DIR *folder = opendir(SOURCE_DIR "/templates/lib");
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const char *end = strstr(entry->d_name, ".cuh");
        if (strncmp(entry->d_name, "ptx", 3) != 0 || !end)
            continue;
        size_t length = (size_t)(end - entry->d_name);
        assert_true(count < MOST_FILES && length < NAME);
        memcpy(names[count], entry->d_name, length);
        names[count++][length] = 0;
    }
    closedir(folder);
    return count;
}

/* ---- declarations ---- */

typedef struct declaration {
    char name[NAME], result[NAME], values[NAME]; /* values: "<0>", or "" */
    char parameters[512];
} declaration;

static void copy_range(char *to, size_t capacity, const char *first, const char *end) {
    while (first < end && isspace((unsigned char)*first))
        first++;
    while (end > first && isspace((unsigned char)end[-1]))
        end--;
    size_t length = (size_t)(end - first);
    assert_true(length < capacity);
    memcpy(to, first, length);
    to[length] = 0;
}

static const char *template_value(const char *name) {
    for (size_t i = 0; i < sizeof template_values / sizeof template_values[0]; i++)
        if (strcmp(template_values[i].name, name) == 0)
            return template_values[i].value;
    return "1";
}

/* "template <int ID, int THREADS>" to "<1, 128>". */
static void read_template(const char *text, const char *end, char *values, size_t capacity) {
    size_t used = 0;
    values[0] = 0;
    for (const char *at = strstr(text, "int "); at && at < end; at = strstr(at, "int ")) {
        char name[NAME];
        at += strlen("int ");
        copy_range(name, sizeof name, at, at + strcspn(at, ",>"));
        used += (size_t)snprintf(values + used, capacity - used, "%s%s", used ? ", " : "<", template_value(name));
    }
    if (used)
        snprintf(values + used, capacity - used, ">");
}

/* The next function of the text; NULL: none. */
static const char *next_declaration(const char *text, declaration *out) {
    static const char mark[] = "__device__ __forceinline__ ";
    const char *at = strstr(text, mark), *line = at;
    if (!at)
        return NULL;
    while (line > text && line[-1] != '\n')
        line--;
    read_template(line, at, out->values, sizeof out->values);
    at += strlen(mark);
    const char *open = strchr(at, '('), *name = open, *close;
    assert_non_null(open);
    while (name > at && (isalnum((unsigned char)name[-1]) || name[-1] == '_'))
        name--;
    copy_range(out->result, sizeof out->result, at, name);
    copy_range(out->name, sizeof out->name, name, open);
    close = strchr(open, '{'); /* the body */
    assert_non_null(close);
    while (*close != ')')
        close--;
    copy_range(out->parameters, sizeof out->parameters, open + 1, close);
    return close;
}

/* ---- the kernel ---- */

/* An argument for "u32 shared", "const void *global" or "float (&d)[4]", and what must stand before the call. */
static void write_argument(FILE *before, FILE *call, const char *parameter, int number) {
    const char *array = strstr(parameter, "(&"), *name;
    char type[NAME];
    if (array) {
        copy_range(type, sizeof type, parameter, array);
        (void)fprintf(before, "%s a%d%s = {};\n", type, number, strchr(array, '['));
        (void)fprintf(call, "a%d", number);
        return;
    }
    for (name = parameter + strlen(parameter); name[-1] != ' ' && name[-1] != '*'; name--)
        continue;
    copy_range(type, sizeof type, parameter, name);
    if (strchr(type, '*'))
        (void)fprintf(call, "(%s)global", type);
    else
        (void)fprintf(call, "(%s)words[%d]", type, number);
}

static void write_call(FILE *out, const declaration *d, size_t position) {
    char *arguments = NULL;
    size_t size = 0;
    FILE *call = open_memstream(&arguments, &size);
    assert_non_null(call);
    (void)fputs("{\n", out);
    int number = 0;
    for (const char *at = d->parameters; *at; number++) {
        char parameter[128];
        const char *end = at + strcspn(at, ",");
        copy_range(parameter, sizeof parameter, at, end);
        if (number)
            (void)fputs(", ", call);
        write_argument(out, call, parameter, number);
        at = end + (*end == ',');
    }
    assert_int_equal(fclose(call), 0);
    if (strcmp(d->result, "void") == 0)
        (void)fprintf(out, "%s%s(%s);\n", d->name, d->values, arguments);
    else
        (void)fprintf(out, "((%s *)results)[%zu] = %s%s(%s);\n", d->result, position, d->name, d->values, arguments);
    (void)fputs("}\n", out);
    free(arguments);
}

static const char kernel_begin[] = "extern \"C\" __global__ void __launch_bounds__(128)\n"
                                   "    all_wrappers(void *global, const u32 *words, void *results) {\n";

/* A kernel that calls all wrappers of the filled text that the architecture has; how many they are. */
static char *make_kernel(const char *library, const char *architecture, size_t *count) {
    char *text = NULL;
    size_t size = 0;
    declaration d;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    (void)fputs(kernel_begin, out);
    *count = 0;
    while ((library = next_declaration(library, &d)) != NULL) {
        if (strncmp(d.name, "wgmma_", 6) == 0 && strcmp(architecture, "sm_90a") != 0)
            continue; /* Hopper alone has it */
        write_call(out, &d, (*count)++);
    }
    (void)fputs("}\n", out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void compile_file(const char *compiler, const wrapper_file *file) {
    char library[128], by_hand[128];
    kernel_fill fills[FILLS];
    size_t count = 0, calls = 0;
    for (; file->fills[count].name; count++)
        fills[count] = file->fills[count];
    for (size_t i = 0; i < sizeof product_fills / sizeof product_fills[0]; i++)
        fills[count++] = product_fills[i];
    fills[count] = (kernel_fill){NULL, NULL};
    snprintf(library, sizeof library, "templates/lib/%s.cuh", file->name);
    snprintf(by_hand, sizeof by_hand, "tests/emulated/wrappers/%s.cu", file->name);
    char *filled = kernel_text((const char *[]){library}, 1, fills);
    for (const char *const *architecture = file->architectures; *architecture; architecture++) {
        char *kernel = make_kernel(filled, *architecture, &calls);
        const char *pieces[4] = {"templates/lib/base.cuh"};
        size_t piece = 1;
        if (!file->first)
            pieces[piece++] = "templates/lib/ptx.cuh";
        pieces[piece++] = filled;
        pieces[piece++] = file->by_hand ? by_hand : kernel;
        char *text = kernel_text(pieces, piece, fills);
        const dev_compile_request request = {
            .compiler = compiler, .target = *architecture, .source = text, .name = file->name};
        dev_image image;
        mlp_message why = {""};
        if (dev_compile(&request, &image, &why))
            fail_msg("%s.cuh for %s: %s", file->name, *architecture, why.text);
        assert_true(calls > 0);
        dev_image_free(&image);
        free(text);
        free(kernel);
    }
    free(filled);
}

static void compile_all(const char *compiler) {
    static char names[MOST_FILES][NAME];
    char version[64];
    mlp_message why = {""};
    if (dev_compiler_version(compiler, version, sizeof version, &why)) {
        print_message("%s\n", why.text);
        skip();
    }
    size_t count = list_files(names);
    assert_true(count >= 5);
    for (size_t i = 0; i < count; i++) {
        wrapper_file file = row_of(names[i]);
        compile_file(compiler, &file);
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

/* Kernels written by hand leave no wrapper out. A name that a macro makes (tmem_load_##shape) counts up to its ##. */
static void test_kernels_by_hand(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char library[128], by_hand[128];
        declaration d;
        if (!rows[i].by_hand)
            continue;
        snprintf(library, sizeof library, "templates/lib/%s.cuh", rows[i].name);
        snprintf(by_hand, sizeof by_hand, "tests/emulated/wrappers/%s.cu", rows[i].name);
        char *text = kernel_text((const char *[]){library}, 1, NULL);
        char *kernel = kernel_text((const char *[]){by_hand}, 1, NULL);
        for (const char *at = text; (at = next_declaration(at, &d)) != NULL;) {
            char *hole = strstr(d.result, "##");
            const char *name = d.name;
            if (hole) {
                *hole = 0;
                name = strrchr(d.result, ' ') + 1;
            }
            if (!strstr(kernel, name))
                fail_msg("%s does not use %s of %s", by_hand, name, library);
        }
        free(text);
        free(kernel);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_assembles), cmocka_unit_test(test_emulated),
                                       cmocka_unit_test(test_kernels_by_hand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
