/* What the two programs about CUDA devices share: kernels written in PTX, so that NVRTC is not needed, and a device. */
#ifndef TESTS_CUDA_FIXTURE_H
#define TESTS_CUDA_FIXTURE_H

#include <dlfcn.h>
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

#include "device/cuda_api.h"
#include "device/device.h"

static const char ptx_source[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    /* x[i] = a * x[i] + b for 32-bit integers, i < n */
    ".visible .entry affine(.param .u64 x, .param .u32 a, .param .u32 b, .param .u32 n)\n"
    "{\n"
    "    .reg .pred %p; .reg .u32 %i, %t, %c, %a, %b, %n, %v; .reg .u64 %x, %o;\n"
    "    ld.param.u64 %x, [x]; ld.param.u32 %a, [a]; ld.param.u32 %b, [b]; ld.param.u32 %n, [n];\n"
    "    mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %v, %ntid.x; mad.lo.u32 %i, %c, %v, %t;\n"
    "    setp.ge.u32 %p, %i, %n; @%p ret;\n"
    "    cvta.to.global.u64 %x, %x; mul.wide.u32 %o, %i, 4; add.u64 %x, %x, %o;\n"
    "    ld.global.u32 %v, [%x]; mad.lo.u32 %v, %v, %a, %b; st.global.u32 [%x], %v;\n"
    "    ret;\n"
    "}\n"
    /* waits some nanoseconds, then does *x = *x * 3 + b: the order of two shows in the result */
    ".visible .entry slow(.param .u64 x, .param .u32 b, .param .u64 wait)\n"
    "{\n"
    "    .reg .pred %p; .reg .u32 %v, %b; .reg .u64 %x, %t0, %t, %w;\n"
    "    ld.param.u64 %x, [x]; ld.param.u32 %b, [b]; ld.param.u64 %w, [wait];\n"
    "    cvta.to.global.u64 %x, %x; mov.u64 %t0, %globaltimer;\n"
    "again: mov.u64 %t, %globaltimer; sub.u64 %t, %t, %t0; setp.lt.u64 %p, %t, %w; @%p bra again;\n"
    "    ld.volatile.global.u32 %v, [%x]; mad.lo.u32 %v, %v, 3, %b; st.volatile.global.u32 [%x], %v;\n"
    "    ret;\n"
    "}\n"
    /* uses dynamic shared memory: writes word `last`, reads it back into *x */
    ".extern .shared .align 16 .b8 memory[];\n"
    ".visible .entry shared(.param .u64 x, .param .u32 last)\n"
    "{\n"
    "    .reg .u32 %l, %a, %v; .reg .u64 %x;\n"
    "    ld.param.u64 %x, [x]; ld.param.u32 %l, [last]; cvta.to.global.u64 %x, %x;\n"
    "    mov.u32 %a, memory; add.u32 %a, %a, %l; mov.u32 %v, 4711; st.volatile.shared.u32 [%a], %v;\n"
    "    ld.volatile.shared.u32 %v, [%a]; st.global.u32 [%x], %v;\n"
    "    ret;\n"
    "}\n";

typedef struct fixture {
    dev *device;
    dev_context *context;
    dev_module *module;
    dev_function *affine, *slow, *shared;
    const cuda_functions *api;
    dev_stream capturing; /* between begin_capture and end_capture, so that clean_up can end what a failed test left */
} fixture;

static mlp_message failure; /* of the main thread's last failed call */

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if (call)                                                                                                      \
            fail_msg("%s: %s", #call, failure.text);                                                                   \
    } while (0)

static inline int set_up(void **state) {
    static fixture f;
    mlp_message message;
    *state = NULL;
    if (dev_open("cuda:0", &f.device, &message)) {
        print_message("%s\n", message.text);
        return 0;
    }
    f.api = cuda_driver(NULL);
    CHECK(dev_context_get(f.device, &f.context, &failure));
    CHECK(dev_module_load(f.context, ptx_source, strlen(ptx_source), "ptx", &f.module, &failure));
    CHECK(dev_function_get(f.module, "affine", 0, &f.affine, NULL, &failure));
    CHECK(dev_function_get(f.module, "slow", 0, &f.slow, NULL, &failure));
    *state = &f;
    return 0;
}

static inline int tear_down(void **state) {
    fixture *f = *state;
    if (!f)
        return 0;
    dev_context_release(f->context);
    dev_release(f->device);
    dev_module_unload(f->module); /* the last reference to both */
    return 0;
}

/* After each test: a failed one may have left a capture open or the context current, which would fail the others. */
static inline int clean_up(void **state) {
    fixture *f = *state;
    CUcontext current = NULL;
    CUgraph graph = NULL;
    bool pushed;
    if (!f)
        return 0;
    if (f->capturing && dev_context_enter(f->context, &pushed, NULL) == MLPBWD_OK) {
        if (f->api->cuStreamEndCapture((CUstream)f->capturing, &graph) == 0 && graph)
            (void)f->api->cuGraphDestroy(graph);
        dev_context_leave(f->context, pushed);
    }
    f->capturing = NULL;
    while (f->api->cuCtxGetCurrent(&current) == 0 && current)
        if (f->api->cuCtxPopCurrent_v2(&current))
            return 1;
    return 0;
}

#define TEST(function) cmocka_unit_test_teardown(function, clean_up)

#define NEED_DEVICE()                                                                                                  \
    fixture *f = *state;                                                                                               \
    if (!f)                                                                                                            \
    skip()

static inline mlpbwd_status launch_affine(const fixture *f, void *x, uint32_t a, uint32_t b, uint32_t n,
                                          dev_stream stream, mlp_message *why) {
    void *arguments[] = {&x, &a, &b, &n};
    uint32_t grid[3] = {(n + 127) / 128, 1, 1}, block[3] = {128, 1, 1};
    return dev_launch(f->affine, grid, block, 0, arguments, stream, why);
}

static inline mlpbwd_status launch_slow(const fixture *f, void *x, uint32_t b, uint64_t wait, dev_stream stream,
                                        mlp_message *why) {
    void *arguments[] = {&x, &b, &wait};
    uint32_t one[3] = {1, 1, 1};
    return dev_launch(f->slow, one, one, 0, arguments, stream, why);
}

/* Both need the fixture's context current, as every raw call of the driver does. */
static inline void begin_capture(fixture *f, dev_stream stream, cuda_enum mode) {
    assert_int_equal(f->api->cuStreamBeginCapture_v2((CUstream)stream, mode), 0);
    f->capturing = stream;
}

static inline CUgraph end_capture(fixture *f) {
    CUgraph graph = NULL;
    CUstream stream = (CUstream)f->capturing;
    f->capturing = NULL; /* also an invalidated capture is over afterwards */
    assert_int_equal(f->api->cuStreamEndCapture(stream, &graph), 0);
    assert_non_null(graph);
    return graph;
}

static inline uint32_t read_word(const fixture *f, const void *memory) {
    uint32_t value = 0;
    CHECK(dev_synchronize(f->context, &failure));
    CHECK(dev_copy_out(f->context, &value, memory, sizeof value, &failure));
    return value;
}

#endif
