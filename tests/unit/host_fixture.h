/* What the programs about the host device share: hand-written C kernels, compiled and loaded, and launches of them. */
#ifndef TESTS_HOST_FIXTURE_H
#define TESTS_HOST_FIXTURE_H

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/device.h"

static const char kernel_source[] =
    "#include <math.h>\n"
    "#include <pthread.h>\n"
    "#include <stdint.h>\n"
    "typedef unsigned u;\n"
    /* out[i] = a * in[i] + tanh(in[i]), one piece of 64 a point */
    "void affine(void *const *args, u x, u y, u z) {\n"
    "    float *out = *(float **)args[0];\n"
    "    const float *in = *(const float **)args[1];\n"
    "    float a = *(float *)args[2];\n"
    "    int64_t n = *(int64_t *)args[3];\n"
    "    for (int64_t i = 64 * (int64_t)x; i < 64 * (int64_t)x + 64 && i < n; i++) out[i] = a * in[i] + tanhf(in[i]);\n"
    "}\n"
    /* counts each point of a grid, and notes the thread that came */
    "void count(void *const *args, u x, u y, u z) {\n"
    "    int *counts = *(int **)args[0];\n"
    "    pthread_t *threads = *(pthread_t **)args[1];\n"
    "    const u *grid = *(const u **)args[2];\n"
    "    u i = x + grid[0] * (y + grid[1] * z);\n"
    "    counts[i]++;\n"
    "    threads[i] = pthread_self();\n"
    "}\n"
    /* calls back */
    "void call(void *const *args, u x, u y, u z) {\n"
    "    (*(void (**)(void *, u))args[0])(*(void **)args[1], x);\n"
    "}\n";

typedef struct fixture {
    dev *device;
    dev_context *context;
    dev_image image;
    dev_module *module;
    dev_function *affine, *count, *call;
} fixture;

static inline void get(fixture *f, const char *entry, dev_function **function) {
    mlp_message why;
    dev_function_info info;
    if (dev_function_get(f->module, entry, 0, function, &info, &why))
        fail_msg("%s", why.text);
    assert_true(info.max_threads >= 1);
    assert_int_equal(info.local_bytes, 0);
}

static inline int set_up(void **state) {
    static fixture f;
    mlp_message why;
    if (dev_compiler_version("cc", (char[64]){0}, 64, &why)) {
        print_message("%s\n", why.text);
        *state = NULL;
        return 0;
    }
    assert_int_equal(dev_open("host", &f.device, &why), MLPBWD_OK);
    assert_int_equal(dev_context_get(f.device, &f.context, &why), MLPBWD_OK);
    const dev_info *info = dev_get_info(f.device);
    dev_compile_request request = {"cc", info->arch, kernel_source, "test kernels"};
    if (dev_compile(&request, &f.image, &why))
        fail_msg("%s", why.text);
    assert_string_equal(f.image.format, "elf-so");
    if (dev_module_load(f.context, f.image.bytes, f.image.size, f.image.format, &f.module, &why))
        fail_msg("%s", why.text);
    get(&f, "affine", &f.affine);
    get(&f, "count", &f.count);
    get(&f, "call", &f.call);
    *state = &f;
    return 0;
}

static inline int tear_down(void **state) {
    fixture *f = *state;
    if (!f)
        return 0;
    dev_context *context = f->context;
    dev_context_release(context); /* the module has a reference of its own */
    dev_release(f->device);
    dev_module_unload(f->module);
    dev_image_free(&f->image);
    dev_image_free(&f->image);
    return 0;
}

#define NEED_DEVICE()                                                                                                  \
    fixture *f = *state;                                                                                               \
    if (!f)                                                                                                            \
    skip()

enum { ELEMENTS = 5000 }; /* no multiple of 64 */

static inline float input_value(size_t i, int seed) {
    return (float)((double)((i * 2654435761u + (size_t)seed * 40503u) % 20011u) / 5000.0 - 2.0);
}

/* Launches affine with `most` threads and compares with float64; returns the number of wrong elements. */
static inline int run_affine(const fixture *f, float *out, const float *in, float a, unsigned most) {
    int64_t n = ELEMENTS;
    void *arguments[] = {&out, &in, &a, &n};
    uint32_t grid[3] = {(ELEMENTS + 63) / 64, 1, 1}, block[3] = {most, 1, 1};
    memset(out, 0xff, ELEMENTS * sizeof *out);
    if (dev_launch(f->affine, grid, block, 0, arguments, NULL, NULL))
        return -1;
    int wrong = 0;
    for (size_t i = 0; i < ELEMENTS; i++) {
        double expected = (double)a * (double)in[i] + tanh((double)in[i]);
        wrong += !(fabs((double)out[i] - expected) <= 1e-6 * (1.0 + fabs((double)a * (double)in[i])));
    }
    return wrong;
}

static inline void check_grid(const fixture *f, uint32_t x, uint32_t y, uint32_t z, unsigned most) {
    size_t points = (size_t)x * y * z;
    int *counts = calloc(points, sizeof *counts);
    pthread_t *threads = calloc(points, sizeof *threads);
    assert_true(counts && threads);
    uint32_t grid[3] = {x, y, z}, block[3] = {most, 1, 1};
    const uint32_t *shape = grid;
    void *arguments[] = {&counts, &threads, &shape};
    assert_int_equal(dev_launch(f->count, grid, block, 0, arguments, NULL, NULL), MLPBWD_OK);
    pthread_t seen[64];
    unsigned distinct = 0;
    for (size_t i = 0; i < points; i++) {
        assert_int_equal(counts[i], 1);
        unsigned j = 0;
        while (j < distinct && !pthread_equal(seen[j], threads[i]))
            j++;
        if (j == distinct && distinct < 64)
            seen[distinct++] = threads[i];
    }
    assert_true(distinct <= (most ? most : 1));
    if (most <= 1)
        assert_true(pthread_equal(seen[0], pthread_self()));
    free(counts);
    free(threads);
}

static inline void check_child(pid_t child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#endif
