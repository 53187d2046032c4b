/* What the programs about tensor copies and clusters share: texts of tests/emulated/kernels, loaded and launched. */
#ifndef TMA_SUPPORT_H
#define TMA_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "emulated_kernel.h"

enum { FILLS = 40 };

/* Holes of ptx_sm90.cuh, which these kernels do not care for: a product of 64 x 8. */
static const kernel_fill product_fills[] = {
    {"registers", "4"},
    {"n", "8"},
    {"type", "f16"},
    {"d_list", "%0, %1, %2, %3"},
    {"d_operands", "\"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3])"},
    {"a_index", "4"},
    {"b_index", "5"},
    {"accumulate_index", "6"},
    {"transpose_index", "7"},
};

/* Holes of the kernels here, as right kernels have them; a test may put others before them. */
static const kernel_fill right_fills[] = {
    {"expected", "bytes"},
    {"fence", "fence_proxy_async_shared();"},
    {"load", "tma_load_pair_multicast_2d(box, &map, 0, 8, full, 3)"},
    {"place", ""},
    {"start", "cluster_barrier_arrive_relaxed(); cluster_barrier_wait();"},
    {"drain", "mbarrier_wait_cluster(empty, 1);"},
    {"barrier", "cluster_barrier_arrive(); cluster_barrier_wait();"},
    {"last", "cluster_barrier_arrive(); cluster_barrier_wait();"},
    {"set", "store_release(flag, 1)"},
    {"get", "load_acquire(flag)"},
    {"count", "fetch_add_acquire_release(counter, 1)"},
    {"wait", "dependency_wait();"},
};

/* The kernels of tests/emulated/kernels/NAME with all wrappers before them; changed: up to a NULL name, may be NULL. */
static inline test_kernel *load_changed(const char *device, const char *name, const kernel_fill *changed,
                                        mlpbwd_status *status, mlp_message *why) {
    char file[128];
    kernel_fill fills[FILLS];
    size_t count = 0;
    snprintf(file, sizeof file, "tests/emulated/kernels/%s", name);
    const char *last = strstr(device, "sm_100") ? "templates/lib/ptx_sm100.cuh" : "\n";
    const char *pieces[] = {"templates/lib/base.cuh",
                            "templates/lib/ptx.cuh",
                            "templates/lib/ptx_sm90.cuh",
                            "templates/lib/ptx_tma.cuh",
                            "templates/lib/ptx_cluster.cuh",
                            last,
                            file};
    while (changed && changed->name)
        fills[count++] = *changed++;
    for (size_t i = 0; i < sizeof product_fills / sizeof product_fills[0]; i++)
        fills[count++] = product_fills[i];
    for (size_t i = 0; i < sizeof right_fills / sizeof right_fills[0]; i++)
        fills[count++] = right_fills[i];
    fills[count] = (kernel_fill){NULL, NULL};
    char *text = kernel_text(pieces, sizeof pieces / sizeof pieces[0], fills);
    test_kernel *kernel = kernel_load(device, name, text, status, why);
    free(text);
    return kernel;
}

/* Where a right kernel runs: asynchronous operations late, early, and at drawn times; and on a GPU. */
typedef struct place {
    const char *device, *timing, *seed;
} place;
static const place places[] = {
    {"emulated:sm_90a", "late", "0"}, {"emulated:sm_90a", "early", "0"}, {"emulated:sm_90a", "mixed", "7"}};
#define AT(test, where)                                                                                                \
    { #test, test, NULL, NULL, (void *)(where) }
#define EVERYWHERE(test, gpu)                                                                                          \
    AT(test, &places[0]), AT(test, &places[1]), AT(test, &places[2]), AT(test, (&(const place){gpu, "", ""}))

/* The right one, at a place (*state). Skips the test where there is no such device. */
static inline test_kernel *load_right(const place *at, const char *name) {
    mlpbwd_status status;
    mlp_message why = {""};
    assert_int_equal(setenv("MLPBWD_EMULATED_TIMING", at->timing, 1), 0);
    assert_int_equal(setenv("MLPBWD_EMULATED_SEED", at->seed, 1), 0);
    test_kernel *kernel = load_changed(at->device, name, NULL, &status, &why);
    if (status == MLPBWD_NO_DEVICE) {
        print_message("%s\n", why.text);
        skip();
    }
    if (!kernel)
        fail_msg("%s", why.text);
    return kernel;
}

static inline void run_right(test_kernel *kernel, const char *entry, const kernel_dims *dims, void **arguments) {
    mlp_message why = {""};
    if (kernel_run(kernel, entry, dims, arguments, &why))
        fail_msg("%s: %s", entry, why.text);
}

/* ---- mistakes ---- */

/* A kernel of the file with the holes filled so; NULL: right. Ends with kernel_free. */
static inline test_kernel *load_with(const char *file, const kernel_fill *changed) {
    mlp_message why = {""};
    test_kernel *kernel = load_changed(places[0].device, file, changed, NULL, &why);
    if (!kernel)
        fail_msg("%s", why.text);
    return kernel;
}

/* The launch must end with a fault whose report has all of these. */
static inline void must_fault(test_kernel *kernel, const char *entry, const kernel_dims *dims, void **arguments,
                              const char *const *parts) {
    mlp_message why = {""};
    mlpbwd_status status = kernel_run(kernel, entry, dims, arguments, &why);
    if (status != MLPBWD_DEVICE_ERROR)
        fail_msg("%s: status %d, no fault was found", entry, (int)status);
    for (; *parts; parts++)
        if (!strstr(why.text, *parts))
            fail_msg("%s: the report does not say \"%s\": %s", entry, *parts, why.text);
}
#define PARTS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define FILL(name, value) ((const kernel_fill[]){{name, value}, {NULL, NULL}})

#endif
