/* The cuda backend against a driver that keeps books (fake_cuda.c): every call in turn fails; each failure must be
 * reported, nothing may leak, and the thread's context stack and capture mode must be as before. */
#include <dlfcn.h>
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
#include "fake_cuda.h"

static const fake_control *fake;

/* The library opens "libcuda.so.1"; the loader answers with what is loaded under that SONAME. */
static int set_up(void **state) {
    (void)state;
    void *library = dlopen(BUILD_DIR "/tests/libfake_cuda.so", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        print_message("%s\n", dlerror());
        return 1;
    }
    fake = dlsym(library, "fake_cuda_control");
    return fake ? 0 : 1;
}

static void check_books_closed(void) {
    fake_books books = fake->books();
    assert_int_equal(books.primaries, 0);
    assert_int_equal(books.modules, 0);
    assert_int_equal(books.allocations, 0);
    assert_int_equal(books.streams, 0);
    assert_int_equal(books.events, 0);
    assert_int_equal(books.graphs, 0);
    assert_int_equal(books.executables, 0);
    assert_int_equal(books.stack, 0);
    assert_int_equal(books.mode, 0);
}

/* ---- a pass through everything ---- */

typedef struct everything {
    dev *device;
    dev_context *context;
    dev_module *module;
    dev_function *function;
    void *memory;
    dev_stream first, second;
    dev_event *event;
    dev_graph *graph;
} everything;

static mlpbwd_status launch(const everything *e, dev_stream stream, mlp_message *why) {
    uint32_t grid[3] = {2, 3, 4}, block[3] = {128, 1, 1};
    void *memory = e->memory;
    void *arguments[] = {&memory};
    return dev_launch(e->function, grid, block, 1024, arguments, stream, why);
}

/* In clusters, with a tensor map. */
static mlpbwd_status launch_dependent(const everything *e, mlp_message *why) {
    const uint32_t grid[3] = {4, 1, 1}, block[3] = {128, 1, 1}, cluster[3] = {2, 1, 1};
    const dev_launch_attributes attributes = {.cluster = {2, 1, 1}, .programmatic = true};
    const dev_tensor tensor = {.address = e->memory,
                               .element = DEV_BF16,
                               .rank = 2,
                               .size = {64, 8},
                               .stride = {128},
                               .box = {64, 8},
                               .swizzle = DEV_SWIZZLE_128B,
                               .l2_bytes = 256};
    dev_tensor_map map;
    void *arguments[] = {&map};
    int clusters;
    mlpbwd_status status = dev_tensor_map_encode(e->context, &tensor, &map, why);
    if (!status)
        status = dev_active_clusters(e->function, block, 1024, cluster, &clusters, why);
    if (!status)
        assert_int_equal(clusters, 66);
    if (!status)
        status = dev_launch_with(e->function, grid, block, 1024, arguments, &attributes, e->first, why);
    return status;
}

/* One launch recorded, changed and enqueued twice. */
static mlpbwd_status launch_recorded(everything *e, mlp_message *why) {
    const uint32_t grid[3] = {4, 1, 1}, block[3] = {128, 1, 1};
    void *memory = e->memory;
    void *arguments[] = {&memory};
    dev_graph_node node = NULL;
    mlpbwd_status status = dev_graph_begin(e->context, e->first, why);
    if (status)
        return status;
    status = launch(e, e->first, why);
    if (!status)
        status = dev_graph_last(e->context, e->first, &node, why);
    if (status)
        (void)dev_graph_end(e->context, e->first, NULL, NULL);
    else
        status = dev_graph_end(e->context, e->first, &e->graph, why);
    if (!status)
        status = dev_graph_set(e->graph, node, e->function, grid, block, 2048, arguments, why);
    for (int i = 0; i < 2 && !status; i++)
        status = dev_graph_launch(e->graph, i ? e->second : e->first, why);
    return status;
}

static mlpbwd_status enqueue(void *user, dev_stream stream, mlp_message *why) {
    return launch(user, stream, why);
}

static mlpbwd_status prepare(everything *e, mlp_message *why) {
    dev_function_info info;
    mlpbwd_status status = dev_open("cuda:0", &e->device, why);
    if (!status)
        status = dev_context_get(e->device, &e->context, why);
    if (!status)
        status = dev_module_load(e->context, "some PTX", 8, "ptx", &e->module, why);
    if (!status)
        status = dev_function_get(e->module, "kernel", 100000, &e->function, &info, why);
    if (!status)
        status = dev_alloc(e->context, 4097, &e->memory, why);
    if (!status)
        status = dev_stream_create(e->context, &e->first, why);
    if (!status)
        status = dev_stream_create(e->context, &e->second, why);
    if (!status)
        status = dev_event_create(e->context, &e->event, why);
    return status;
}

static mlpbwd_status use(everything *e, mlp_message *why) {
    unsigned char byte = 7;
    uint64_t id = 1;
    double microseconds[2];
    dev_timing timing = {.microseconds = microseconds, .repetitions = 2, .warmup = 1, .cold = true};
    mlpbwd_status status = dev_copy_in(e->context, e->memory, &byte, 1, why);
    if (!status)
        status = dev_fill(e->context, e->memory, 3, 4096, e->first, why);
    if (!status)
        status = dev_fill(e->context, e->memory, 5, 4097, NULL, why);
    if (!status)
        status = dev_copy_out(e->context, &byte, e->memory, 1, why);
    if (!status)
        status = launch(e, e->first, why);
    if (!status)
        status = launch_dependent(e, why);
    if (!status)
        status = launch_recorded(e, why);
    if (!status)
        status = dev_stream_order(e->context, e->first, e->second, e->event, why);
    if (!status)
        status = dev_stream_capture_id(e->context, e->first, &id, why);
    if (!status)
        status = dev_time(e->context, enqueue, e, &timing, why);
    if (!status)
        status = dev_synchronize(e->context, why);
    return status;
}

static void finish(everything *e) {
    dev_graph_destroy(e->graph);
    if (e->context) {
        dev_event_destroy(e->context, e->event);
        dev_stream_destroy(e->context, e->first);
        dev_stream_destroy(e->context, e->second);
        dev_free(e->context, e->memory);
    }
    dev_context_release(e->context);
    dev_release(e->device);
    dev_module_unload(e->module);
}

static void test_everything_works(void **state) {
    (void)state;
    everything e = {0};
    mlp_message why = {""};
    fake->reset(1, 90, 0);
    if (prepare(&e, &why) || use(&e, &why))
        fail_msg("%s", why.text);
    assert_int_equal((uintptr_t)e.memory % 256, 0);
    assert_int_equal(*(unsigned char *)e.memory, 5);
    fake_books books = fake->books();
    assert_int_equal(books.launches, 4); /* one plain, one in clusters, one into each graph */
    assert_int_equal(books.node_shared, 2048);
    assert_int_equal(books.cluster, 2);
    assert_true(books.programmatic);
    assert_int_equal(books.graph_launches, 3 + 2);
    assert_int_equal(books.primaries, 1);
    finish(&e);
    check_books_closed();
}

static void test_each_call_fails(void **state) {
    (void)state;
    static const struct {
        unsigned result;
        mlpbwd_status status;
    } kinds[] = {{2, MLPBWD_OUT_OF_MEMORY}, {999, MLPBWD_DEVICE_ERROR}};
    for (size_t kind = 0; kind < 2; kind++) {
        long number = 1, forgiven = 0;
        for (bool more = true; more; number++) {
            everything e = {0};
            mlp_message why = {""};
            fake->reset(1, 90, 0);
            fake->fail_call(number, kinds[kind].result);
            mlpbwd_status status = prepare(&e, &why);
            if (!status)
                status = use(&e, &why);
            more = fake->books().calls >= number;
            fake->fail_call(0, 0);
            if (status == MLPBWD_OK) {
                forgiven += more;
            } else {
                assert_true(more);
                assert_true(status == kinds[kind].status || status == MLPBWD_NO_DEVICE);
                assert_non_null(
                    strstr(why.text, kinds[kind].result == 2 ? "FAKE_OUT_OF_MEMORY (2)" : "FAKE_ERROR (999)"));
            }
            assert_int_equal(fake->books().stack, 0);
            assert_int_equal(fake->books().mode, 0);
            finish(&e);
            check_books_closed();
        }
        assert_true(number > 60); /* it was the whole way */
        /* The clock probe is for information: its load, its entry, its memory, its launch, the wait and the copy; and
         * where cuCtxGetCurrent fails in dev_context_get, the primary context is used. */
        assert_int_equal(forgiven, 7);
    }
}

static dev_module *load_another(const everything *e) {
    dev_module *module;
    mlp_message why;
    assert_int_equal(dev_module_load(e->context, "some PTX", 8, "ptx", &module, &why), MLPBWD_OK);
    return module;
}

/* Throwing a module away asks the driver for nothing; the code goes when the context has been waited for. */
static void test_unload(void **state) {
    (void)state;
    everything e = {0};
    mlp_message why;
    fake->reset(1, 90, 0);
    assert_int_equal(prepare(&e, &why), MLPBWD_OK);
    dev_module *first = load_another(&e), *second = load_another(&e), *third = load_another(&e);
    fake->fail_call(0, 0); /* counts from here */
    dev_module_unload(first);
    dev_module_unload(second);
    assert_int_equal(fake->books().calls, 0);
    assert_int_equal(fake->books().waits, 0);
    assert_int_equal(fake->books().modules, 4);
    fake->fail_call(3, 900); /* current?, push, synchronize */
    assert_int_equal(dev_synchronize(e.context, &why), MLPBWD_DEVICE_ERROR);
    assert_int_equal(fake->books().modules, 4);
    dev_module_unload(third);
    fake->fail_call(0, 0);
    assert_int_equal(dev_synchronize(e.context, &why), MLPBWD_OK);
    assert_int_equal(fake->books().modules, 1);
    assert_int_equal(fake->books().mode, 0);
    assert_int_equal(fake->books().stack, 0);
    finish(&e);
    check_books_closed();
}

/* While the application holds the context too, nobody can know that it is idle: the code stays, nothing waits. */
static void test_unload_in_a_shared_context(void **state) {
    (void)state;
    everything e = {0};
    mlp_message why;
    fake->reset(1, 90, 0);
    fake->hold_primary(1);
    assert_int_equal(prepare(&e, &why), MLPBWD_OK);
    dev_module_unload(load_another(&e));
    finish(&e);
    assert_int_equal(fake->books().waits, 0);
    assert_int_equal(fake->books().modules, 2);
    assert_int_equal(fake->books().primaries, 1);
    fake->hold_primary(-1);
    check_books_closed();
}

static void test_loading_failures(void **state) {
    (void)state;
    everything e = {0};
    mlp_message why;
    dev_module *module;
    fake->reset(1, 90, 0);
    assert_int_equal(prepare(&e, &why), MLPBWD_OK);
    static const struct {
        unsigned result;
        mlpbwd_status status;
        const char *in_message;
    } cases[] = {{222, MLPBWD_UNSUPPORTED, "newer driver"},
                 {209, MLPBWD_UNSUPPORTED, "architecture"},
                 {218, MLPBWD_DEVICE_ERROR, "fake log"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fake->fail_call(3, cases[i].result); /* current?, push, load */
        assert_int_equal(dev_module_load(e.context, "some PTX", 8, "ptx", &module, &why), cases[i].status);
        assert_non_null(strstr(why.text, cases[i].in_message));
        assert_null(module);
    }
    fake->fail_call(0, 0);
    dev_function *function;
    assert_int_equal(dev_function_get(e.module, "absent", 0, &function, NULL, &why), MLPBWD_DEVICE_ERROR);
    assert_non_null(strstr(why.text, "no entry \"absent\""));
    assert_int_equal(dev_function_get(e.module, "kernel", 232449, &function, NULL, &why), MLPBWD_UNSUPPORTED);
    assert_non_null(strstr(why.text, "232448"));
    finish(&e);
    check_books_closed();
}

static void test_capture_ids(void **state) {
    (void)state;
    everything e = {0};
    mlp_message why;
    uint64_t id;
    fake->reset(1, 90, 0);
    assert_int_equal(prepare(&e, &why), MLPBWD_OK);
    long calls = fake->books().calls;
    for (uintptr_t legacy = 0; legacy < 2; legacy++) { /* NULL and CU_STREAM_LEGACY: the driver is not asked */
        dev_stream stream;
        memcpy(&stream, &legacy, sizeof stream);
        id = 1;
        assert_int_equal(dev_stream_capture_id(e.context, stream, &id, &why), MLPBWD_OK);
        assert_int_equal(id, 0);
    }
    assert_int_equal(fake->books().calls, calls);
    finish(&e);
    check_books_closed();
}

/* ---- opening ---- */

static void test_default_device(void **state) {
    (void)state;
    static const struct {
        int devices, capability;
        const char *id;
        const char *reason; /* why it is not a CUDA device */
    } cases[] = {
        {1, 90, "cuda:0", ""},
        {2, 80, "cuda:0", ""},
        {0, 90, "host", "no CUDA device: the NVIDIA driver shows none"},
        {2, 75, "host", "no CUDA device: cuda:1 (Fake GPU) has compute capability 7.5; 8.0 or later is needed"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dev *device;
        mlp_message reason = {"left from before"};
        fake->reset(cases[i].devices, cases[i].capability, 0);
        assert_int_equal(dev_open(NULL, &device, &reason), MLPBWD_OK);
        assert_string_equal(dev_get_info(device)->id, cases[i].id);
        assert_string_equal(reason.text, cases[i].reason);
        dev_release(device);
        assert_int_equal(dev_open(NULL, &device, NULL), MLPBWD_OK);
        dev_release(device);
    }
    dev *device;
    mlp_message why;
    fake->reset(2, 75, 0);
    assert_int_equal(dev_open("cuda:1", &device, &why), MLPBWD_NO_DEVICE);
    assert_non_null(strstr(why.text, "compute capability 7.5; 8.0 or later"));
    fake->reset(2, 90, 0);
    assert_int_equal(dev_open("cuda:2", &device, &why), MLPBWD_NO_DEVICE);
    assert_non_null(strstr(why.text, "there are 2 CUDA devices here, from cuda:0 on"));
    assert_int_equal(dev_open("cuda:1", &device, &why), MLPBWD_OK);
    const dev_info *info = dev_get_info(device);
    assert_string_equal(info->id, "cuda:1");
    assert_string_equal(info->name, "Fake GPU");
    assert_string_equal(info->arch, "sm_90a");
    assert_int_equal(info->compute_capability, 90);
    assert_int_equal(info->units, 132);
    assert_int_equal(info->memory_bytes, (int64_t)1 << 34);
    assert_int_equal(info->shared_bytes_per_block, 232448);
    assert_true(info->max_clock_mhz == 1980);
    assert_non_null(strstr(info->driver, "CUDA 13.0"));
    dev_release(device);
    check_books_closed();
}

typedef struct notes {
    int devices, sentences;
    bool old;
} notes;

static void visit(void *user, const dev_info *info) {
    (void)info;
    ((notes *)user)->devices++;
}

static void note(void *user, const char *sentence) {
    notes *n = user;
    n->sentences++;
    n->old |= strstr(sentence, "kernels need 8.0 or later") != NULL;
}

static void test_list(void **state) {
    (void)state;
    notes n = {0};
    fake->reset(3, 75, 0);
    dev_list(visit, note, &n);
    assert_int_equal(n.devices, 4);
    assert_true(n.old && n.sentences >= 3);
    n = (notes){0};
    fake->reset(3, 90, 0);
    fake->fail_call(3, 999); /* the count, the first device, its name */
    dev_list(visit, note, &n);
    assert_int_equal(n.devices, 3);
    assert_true(n.sentences >= 1);
    fake->fail_call(0, 0);
}

/* A driver that cannot start is asked once a process, so this needs one of its own. */
static int broken_driver(void) {
    dev *device;
    mlp_message why;
    fake->reset(1, 90, 803);
    if (dev_open("cuda:0", &device, &why) != MLPBWD_NO_DEVICE || !strstr(why.text, "cuInit gave FAKE_ERROR (803)"))
        return 1;
    if (dev_open(NULL, &device, &why) != MLPBWD_OK || strcmp(dev_get_info(device)->id, "host") != 0 ||
        strncmp(why.text, "no CUDA device: the NVIDIA driver cannot be used", 48) != 0)
        return 2;
    dev_release(device);
    notes n = {0};
    dev_list(visit, note, &n);
    return n.devices == 1 && n.sentences >= 1 ? 0 : 3;
}

static int no_device(void) {
    dev *device;
    mlp_message why;
    fake->reset(0, 90, 100);
    if (dev_open("cuda:0", &device, &why) != MLPBWD_NO_DEVICE)
        return 1;
    return strstr(why.text, "shows no CUDA device") ? 0 : 2;
}

static void in_child(int (*function)(void)) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(function());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_broken_drivers(void **state) {
    (void)state;
    in_child(broken_driver);
    in_child(no_device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken_drivers), /* first: afterwards the driver has started */
        cmocka_unit_test(test_everything_works), cmocka_unit_test(test_each_call_fails),
        cmocka_unit_test(test_unload),           cmocka_unit_test(test_unload_in_a_shared_context),
        cmocka_unit_test(test_loading_failures), cmocka_unit_test(test_capture_ids),
        cmocka_unit_test(test_default_device),   cmocka_unit_test(test_list),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
