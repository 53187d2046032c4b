/* Emitted CUDA compiles with NVRTC, without spilling: the default of every kernel and role on four architectures, of
 * every class on one of them, and some other variants there. Needs the compiler, no device. Two processes share the
 * work. With MLPBWD_TEST_VARIANTS=sm_100a instead: every variant that a sweep of the benchmark's T may come to there,
 * in every class; with sm_100a/umma only of kernels whose names begin so. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/device.h"
#include "gen.h"

enum {
    LOCAL_LIMIT = 64,   /* bytes of local memory (spills and local arrays) that a thread may have */
    OTHER_VARIANTS = 1, /* besides the default, of each kernel and role, taken at equal distances */
    PROCESSES = 2
};

static const char *const architectures[] = {"sm_90a", "sm_80", "sm_100a", "compute_80"}; /* the first: all classes */

static gen *generator;
static mlp_message why;

/* ---- local memory of each entry, from the cubin's .nv.info sections ---- */

enum { INFO_SIZED_VALUE = 4, INFO_FRAME_SIZE = 0x11 };

/* Largest frame size in an .nv.info section: records of {format, attribute, u16 size or value, payload}. */
static unsigned largest_frame(const unsigned char *bytes, size_t size) {
    unsigned largest = 0;
    for (size_t at = 0; at + 4 <= size;) {
        unsigned format = bytes[at], attribute = bytes[at + 1], length = bytes[at + 2] | (unsigned)bytes[at + 3] << 8;
        at += 4;
        if (format != INFO_SIZED_VALUE)
            continue; /* the value is in the length */
        if (attribute == INFO_FRAME_SIZE && length == 8 && at + 8 <= size) {
            uint32_t frame;
            memcpy(&frame, bytes + at + 4, sizeof frame);
            largest = frame > largest ? frame : largest;
        }
        at += length;
    }
    return largest;
}

/* False: not a cubin that can be read. */
static bool local_bytes(const dev_image *image, unsigned *bytes) {
    const unsigned char *base = image->bytes;
    Elf64_Ehdr header;
    bool found = false;
    *bytes = 0;
    if (image->size < sizeof header || memcmp(base, ELFMAG, SELFMAG) != 0)
        return false;
    memcpy(&header, base, sizeof header);
    for (unsigned i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr section, names;
        size_t offset = header.e_shoff + (size_t)i * sizeof section;
        size_t names_offset = header.e_shoff + (size_t)header.e_shstrndx * sizeof names;
        if (offset + sizeof section > image->size || names_offset + sizeof names > image->size)
            return false;
        memcpy(&section, base + offset, sizeof section);
        memcpy(&names, base + names_offset, sizeof names);
        const char *name = (const char *)base + names.sh_offset + section.sh_name;
        if (names.sh_offset + section.sh_name < image->size && strncmp(name, ".nv.info", 8) == 0 &&
            section.sh_offset + section.sh_size <= image->size) {
            unsigned frame = largest_frame(base + section.sh_offset, section.sh_size);
            *bytes = frame > *bytes ? frame : *bytes;
            found = true;
        }
    }
    return found;
}

/* ---- the sample ---- */

struct work {
    json_t *done; /* "target source-text" already compiled */
    int share, next, compiled, failed;
    unsigned limit, most_local; /* bytes of local memory a thread: allowed, seen */
    size_t bytes, largest;      /* machine code */
    double seconds, slowest;
};

static double seconds_now(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void complain(struct work *work, const kernel_use *use, const json_t *parameters, const char *text) {
    char *shown = json_dumps(parameters, JSON_COMPACT | JSON_SORT_KEYS);
    print_error("kernel %s, role %s, %s, %s, %s: %s\n", use->kernel, use->role, use->target->arch,
                accuracy_name(use->target->accuracy), shown, text);
    free(shown);
    work->failed++;
}

static void compile(struct work *work, const kernel_use *use, const json_t *given) {
    kernel_variant variant;
    dev_image image;
    char text[128];
    unsigned bytes;
    if (kernel_variant_make(use, given, NULL, &variant, &why) != MLPBWD_OK) {
        complain(work, use, given, why.text);
        return;
    }
    json_t *key = json_sprintf("%s %s", use->target->arch, variant.source);
    bool mine = !json_object_get(work->done, json_string_value(key)) && work->next++ % PROCESSES == work->share;
    json_object_set_new(work->done, json_string_value(key), json_true());
    json_decref(key);
    if (mine) {
        dev_compile_request request = {json_string_value(json_object_get(use->arch, "compiler")),
                                       json_string_value(json_object_get(use->arch, "target")), variant.source,
                                       use->kernel};
        double seconds = seconds_now();
        bytes = 0;
        if (dev_compile(&request, &image, &why) != MLPBWD_OK) {
            complain(work, use, variant.parameters, why.text);
        } else if (strcmp(image.format, "cubin") == 0 && !local_bytes(&image, &bytes)) {
            complain(work, use, variant.parameters, "the cubin cannot be read");
        } else if (strcmp(image.format, "cubin") == 0 && bytes > work->limit) {
            snprintf(text, sizeof text, "%u bytes of local memory a thread; at most %u are allowed", bytes,
                     work->limit);
            complain(work, use, variant.parameters, text);
        }
        seconds = seconds_now() - seconds;
        work->compiled++;
        work->seconds += seconds;
        work->slowest = seconds > work->slowest ? seconds : work->slowest;
        work->bytes += image.size;
        work->largest = image.size > work->largest ? image.size : work->largest;
        work->most_local = bytes > work->most_local ? bytes : work->most_local;
        dev_image_free(&image);
    }
    kernel_variant_free(&variant);
}

static void compile_use(struct work *work, const char *kernel, const char *role, const char *arch, int accuracy,
                        bool *first_class, bool others) {
    gen_target target = {arch, accuracy};
    kernel_use use;
    if (kernel_use_init(&use, generator, kernel, role, &target, NULL) != MLPBWD_OK ||
        strcmp(json_string_value(json_object_get(use.arch, "compiler")), "nvrtc") != 0)
        return;
    if (*first_class || others)
        compile(work, &use, NULL);
    if (*first_class && others) {
        json_t *variants = NULL;
        if (gen_space(generator, kernel, role, &target, NULL, &variants, NULL, &why) != MLPBWD_OK)
            complain(work, &use, NULL, why.text);
        size_t count = json_array_size(variants);
        for (size_t i = 1; i <= OTHER_VARIANTS && i < count; i++)
            compile(work, &use, json_array_get(variants, i * (count - 1) / OTHER_VARIANTS));
        json_decref(variants);
    }
    *first_class = false;
}

/* What the first architecture compiled is not compiled again for larger and lesser ones: sm_80 has its own limits. */
static bool serves(const char *kernel, const char *role, const char *arch) {
    for (int accuracy = 0; accuracy < 3; accuracy++) {
        gen_target target = {arch, accuracy};
        kernel_use use;
        if (kernel_use_init(&use, generator, kernel, role, &target, NULL) == MLPBWD_OK)
            return true;
    }
    return false;
}

/* ---- all that a sweep may come to ---- */

static void compile_pruned(struct work *work, const char *kernel, const char *role, const gen_target *target) {
    static const int64_t tokens[] = {256, 512, 1024, 2048, 2164, 4096, 6184, 8192, 16384};
    kernel_use use;
    if (kernel_use_init(&use, generator, kernel, role, target, NULL) != MLPBWD_OK ||
        strcmp(json_string_value(json_object_get(use.arch, "compiler")), "nvrtc") != 0)
        return;
    json_t *tried = json_object();
    for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++) {
        const gen_problem problem = {tokens[t], 2048, 8192,
                                     (int)json_integer_value(json_object_get(use.arch, "units"))};
        json_t *variants = NULL, *variant;
        size_t i;
        if (gen_space(generator, kernel, role, target, &problem, &variants, NULL, &why) != MLPBWD_OK)
            complain(work, &use, NULL, why.text);
        json_array_foreach(variants, i, variant) {
            char *key = json_dumps(variant, JSON_COMPACT | JSON_SORT_KEYS);
            if (!json_object_get(tried, key))
                compile(work, &use, variant);
            json_object_set_new(tried, key, json_true());
            free(key);
        }
        json_decref(variants);
    }
    json_decref(tried);
}

/* asked: ARCHITECTURE or ARCHITECTURE/BEGINNING. */
static void compile_everything(struct work *work, const char *asked) {
    char arch[32];
    size_t length = strcspn(asked, "/");
    const char *beginning = asked[length] ? asked + length + 1 : "", *kernel;
    snprintf(arch, sizeof arch, "%.*s", (int)length, asked);
    json_t *fields, *role;
    size_t i;
    work->limit = 0;
    json_object_foreach(generator->kernels, kernel, fields) {
        if (strncmp(kernel, beginning, strlen(beginning)) != 0)
            continue;
        json_array_foreach(json_object_get(fields, "roles"), i, role) {
            for (int accuracy = 0; accuracy < 3; accuracy++) {
                const gen_target target = {arch, accuracy};
                compile_pruned(work, kernel, json_string_value(role), &target);
            }
        }
    }
}

static void compile_share(struct work *work) {
    const char *kernel, *asked = getenv("MLPBWD_TEST_VARIANTS");
    json_t *fields, *role;
    size_t i;
    work->done = json_object();
    work->limit = LOCAL_LIMIT;
    if (asked && *asked && strcmp(asked, "all") != 0) {
        compile_everything(work, asked);
        json_decref(work->done);
        return;
    }
    json_object_foreach(generator->kernels, kernel, fields) {
        json_array_foreach(json_object_get(fields, "roles"), i, role) {
            for (size_t a = 0; a < sizeof architectures / sizeof *architectures; a++) {
                bool first_class = true;
                if (a > 1 && serves(kernel, json_string_value(role), architectures[0]))
                    continue;
                for (int accuracy = 0; accuracy < 3; accuracy++)
                    compile_use(work, kernel, json_string_value(role), architectures[a], accuracy, &first_class,
                                a == 0);
            }
        }
    }
    json_decref(work->done);
}

static void test_variants_compile(void **state) {
    (void)state;
    char version[64];
    if (dev_compiler_version("nvrtc", version, sizeof version, &why) != MLPBWD_OK) {
        print_message("%s\n", why.text);
        skip();
    }
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            struct work work = {.share = i};
            compile_share(&work);
            print_message(
                "%d variants compiled with %s in %.1f s (slowest %.1f); machine code %zu bytes (largest %zu), "
                "at most %u bytes of local memory\n",
                work.compiled, version, work.seconds, work.slowest, work.bytes, work.largest, work.most_local);
            _exit(work.failed || work.compiled == 0);
        }
    }
    bool passed = true;
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        passed = passed && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    assert_true(passed);
}

/* The measure itself: an array that is indexed at run time lies in local memory, a plain sum does not. */
static void test_local_memory_is_seen(void **state) {
    static const struct {
        const char *source;
        unsigned least, most;
    } cases[] = {
        {"extern \"C\" __global__ void f(float *p) { p[threadIdx.x] += 1.0f; }", 0, 0},
        {"extern \"C\" __global__ void f(float *p, int n) {\n"
         "    float a[64];\n"
         "    for (int i = 0; i < n; i++) a[(i * n) & 63] = p[i];\n"
         "    for (int i = 0; i < n; i++) p[i] += a[p[i] > 0.0f ? i & 63 : 1];\n"
         "}",
         256, 4096},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dev_compile_request request = {"nvrtc", "sm_90a", cases[i].source, "f"};
        dev_image image;
        unsigned bytes = 0;
        mlpbwd_status status = dev_compile(&request, &image, &why);
        if (status == MLPBWD_UNSUPPORTED)
            skip();
        assert_int_equal(status, MLPBWD_OK);
        assert_true(local_bytes(&image, &bytes));
        assert_in_range(bytes, cases[i].least, cases[i].most);
        dev_image_free(&image);
    }
}

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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_local_memory_is_seen),
                                       cmocka_unit_test(test_variants_compile)};
    return cmocka_run_group_tests_name("emitted CUDA compiles", tests, open_shipped, close_shipped);
}
