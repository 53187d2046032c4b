/* The device interface on "cuda:0": streams, their order, capture, threads, timing. Skipped where no device opens. */
#include "cuda_fixture.h"

/* ---- streams, order, capture ---- */

static const uint64_t millisecond = 1000000; /* of nanoseconds */

static void test_order(void **state) {
    NEED_DEVICE();
    dev_stream a, b;
    dev_event *event;
    void *x;
    CHECK(dev_stream_create(f->context, &a, &failure));
    CHECK(dev_stream_create(f->context, &b, &failure));
    assert_non_null(a);
    assert_ptr_not_equal(a, b);
    CHECK(dev_event_create(f->context, &event, &failure));
    CHECK(dev_alloc(f->context, 4, &x, &failure));
    for (int round = 0; round < 5; round++) {
        CHECK(dev_fill(f->context, x, 0, 4, a, &failure));
        CHECK(launch_slow(f, x, 1, 2 * millisecond, a, &failure)); /* 0 -> 1 */
        CHECK(dev_stream_order(f->context, a, b, event, &failure));
        CHECK(launch_slow(f, x, 5, 0, b, &failure)); /* -> 8; first it would be 5 * 3 + 1 */
        CHECK(dev_stream_order(f->context, b, a, event, &failure));
        CHECK(launch_slow(f, x, 2, 0, a, &failure)); /* -> 26 */
        assert_int_equal(read_word(f, x), 26);
    }
    dev_event_destroy(f->context, event);
    dev_stream_destroy(f->context, a);
    dev_stream_destroy(f->context, b);
    dev_free(f->context, x);
}

/* A non-blocking stream does not wait for the legacy stream. */
static void test_streams_are_independent(void **state) {
    NEED_DEVICE();
    dev_stream a;
    void *x, *y;
    bool pushed;
    CHECK(dev_context_enter(f->context, &pushed, &failure)); /* for the raw calls */
    CHECK(dev_stream_create(f->context, &a, &failure));
    CHECK(dev_alloc(f->context, 4, &x, &failure));
    CHECK(dev_alloc(f->context, 4, &y, &failure));
    CHECK(dev_fill(f->context, x, 0, 4, NULL, &failure));
    CHECK(dev_fill(f->context, y, 0, 4, NULL, &failure));
    CHECK(dev_synchronize(f->context, &failure));
    CHECK(launch_slow(f, x, 1, 200 * millisecond, NULL, &failure));
    CHECK(launch_slow(f, y, 1, 0, a, &failure));
    assert_int_equal(f->api->cuStreamSynchronize((CUstream)a), 0);
    cuda_enum (*query)(CUstream);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    assert_non_null(library);
    void *address = dlsym(library, "cuStreamQuery");
    assert_non_null(address);
    memcpy(&query, &address, sizeof address);
    assert_int_equal(query(NULL), 600); /* CUDA_ERROR_NOT_READY */
    assert_int_equal(read_word(f, x), 1);
    assert_int_equal(read_word(f, y), 1);
    dlclose(library);
    dev_stream_destroy(f->context, a);
    dev_free(f->context, x);
    dev_free(f->context, y);
    dev_context_leave(f->context, pushed);
}

static void test_capture(void **state) {
    NEED_DEVICE();
    const cuda_functions *api = f->api;
    dev_stream a, b, c;
    dev_event *event;
    void *x;
    uint64_t ids[4] = {9, 9, 9, 9};
    CUgraphExec executable;
    bool pushed;
    CHECK(dev_context_enter(f->context, &pushed, &failure)); /* for the raw calls */
    CHECK(dev_stream_create(f->context, &a, &failure));
    CHECK(dev_stream_create(f->context, &b, &failure));
    CHECK(dev_stream_create(f->context, &c, &failure));
    CHECK(dev_event_create(f->context, &event, &failure));
    CHECK(dev_alloc(f->context, 4, &x, &failure));
    CHECK(dev_stream_capture_id(f->context, a, &ids[0], &failure));
    CHECK(dev_stream_capture_id(f->context, NULL, &ids[1], &failure));
    assert_int_equal(ids[0], 0);
    assert_int_equal(ids[1], 0);
    begin_capture(f, a, 0 /* global: the strictest */);
    CHECK(dev_stream_capture_id(f->context, a, &ids[0], &failure));
    CHECK(dev_stream_capture_id(f->context, b, &ids[1], &failure));
    assert_true(ids[0] != 0);
    assert_int_equal(ids[1], 0);
    CHECK(dev_stream_capture_id(f->context, NULL, &ids[3], &failure)); /* asking must not break the capture */
    assert_int_equal(ids[3], 0);
    CHECK(dev_fill(f->context, x, 0, 4, a, &failure));
    CHECK(launch_slow(f, x, 1, 1000, a, &failure));
    CHECK(dev_stream_order(f->context, a, b, event, &failure));
    CHECK(dev_stream_capture_id(f->context, b, &ids[1], &failure));
    CHECK(dev_stream_capture_id(f->context, c, &ids[2], &failure));
    assert_true(ids[1] == ids[0]); /* joined the same capture */
    assert_int_equal(ids[2], 0);
    CHECK(launch_slow(f, x, 5, 1000, b, &failure));
    CHECK(dev_stream_order(f->context, b, a, event, &failure));
    CHECK(launch_slow(f, x, 2, 1000, a, &failure));
    CUgraph graph = end_capture(f);
    assert_int_equal(api->cuGraphInstantiateWithFlags(&executable, graph, 0), 0);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(api->cuGraphLaunch(executable, (CUstream)c), 0);
        assert_int_equal(read_word(f, x), 26);
    }
    assert_int_equal(api->cuGraphExecDestroy(executable), 0);
    assert_int_equal(api->cuGraphDestroy(graph), 0);
    dev_event_destroy(f->context, event);
    dev_stream_destroy(f->context, a);
    dev_stream_destroy(f->context, b);
    dev_stream_destroy(f->context, c);
    dev_free(f->context, x);
    dev_context_leave(f->context, pushed);
}

/* While one thread captures, another may open, allocate, load and throw away; the capture must survive. */
typedef struct beside {
    const fixture *f;
    dev_module *module;
    mlpbwd_status worst;
} beside;

static void *set_up_beside(void *argument) {
    beside *self = argument;
    dev_module *module;
    dev_function *function;
    dev_stream stream;
    dev_event *event;
    void *memory;
    dev_context *context = self->f->context;
    mlpbwd_status worst = dev_module_load(context, ptx_source, strlen(ptx_source), "ptx", &module, NULL);
    if (!worst)
        worst = dev_function_get(module, "affine", 0, &function, NULL, NULL);
    if (!worst)
        worst = dev_alloc(context, 1 << 20, &memory, NULL);
    if (!worst)
        worst = dev_stream_create(context, &stream, NULL);
    if (!worst)
        worst = dev_event_create(context, &event, NULL);
    self->worst = worst;
    self->module = module;
    if (worst)
        return NULL;
    dev_event_destroy(context, event);
    dev_stream_destroy(context, stream);
    dev_free(context, memory);
    return NULL;
}

static void *unload_beside(void *argument) {
    beside *self = argument;
    dev_module_unload(self->module);
    return NULL;
}

/* Captures two launches of `slow` (0 -> 5 -> 20) with the work on another thread between them, and runs the graph. */
static void capture_beside(fixture *f, const fixture *owner, void *(*work)(void *), beside *self, cuda_enum mode) {
    dev_stream stream;
    CUgraphExec executable;
    uint32_t value = 0;
    void *x;
    pthread_t thread;
    bool pushed;
    CHECK(dev_context_enter(f->context, &pushed, &failure)); /* for the raw calls */
    CHECK(dev_stream_create(f->context, &stream, &failure));
    CHECK(dev_alloc(f->context, 4, &x, &failure));
    begin_capture(f, stream, mode);
    CHECK(dev_fill(f->context, x, 0, 4, stream, &failure));
    CHECK(launch_slow(owner, x, 5, 1000, stream, &failure));
    assert_int_equal(pthread_create(&thread, NULL, work, self), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    CHECK(launch_slow(f, x, 5, 1000, stream, &failure));
    CUgraph graph = end_capture(f);
    assert_int_equal(f->api->cuGraphInstantiateWithFlags(&executable, graph, 0), 0);
    assert_int_equal(f->api->cuGraphLaunch(executable, (CUstream)stream), 0);
    assert_int_equal(f->api->cuStreamSynchronize((CUstream)stream), 0);
    CHECK(dev_copy_out(f->context, &value, x, sizeof value, &failure));
    assert_int_equal(value, 20);
    assert_int_equal(f->api->cuGraphExecDestroy(executable), 0);
    assert_int_equal(f->api->cuGraphDestroy(graph), 0);
    dev_stream_destroy(f->context, stream);
    dev_free(f->context, x);
    dev_context_leave(f->context, pushed);
    CHECK(dev_synchronize(f->context, &failure));
}

static void test_set_up_during_capture(void **state) {
    NEED_DEVICE();
    for (cuda_enum mode = 0; mode <= 2; mode++) {
        beside self = {f, NULL, MLPBWD_OK};
        capture_beside(f, f, set_up_beside, &self, mode);
        assert_int_equal(self.worst, MLPBWD_OK);
        dev_module_unload(self.module);
    }
}

/* The module that is thrown away has already been captured from: the graph must still find its code. */
static void test_unload_during_capture(void **state) {
    NEED_DEVICE();
    for (cuda_enum mode = 0; mode <= 2; mode++) {
        fixture own = *f;
        CHECK(dev_module_load(f->context, ptx_source, strlen(ptx_source), "ptx", &own.module, &failure));
        CHECK(dev_function_get(own.module, "slow", 0, &own.slow, NULL, &failure));
        beside self = {f, own.module, MLPBWD_OK};
        capture_beside(f, &own, unload_beside, &self, mode);
    }
}

static void test_unload_while_running(void **state) {
    NEED_DEVICE();
    fixture own = *f;
    dev_stream stream;
    void *x;
    CHECK(dev_stream_create(f->context, &stream, &failure));
    CHECK(dev_alloc(f->context, 4, &x, &failure));
    for (int round = 0; round < 3; round++) {
        CHECK(dev_module_load(f->context, ptx_source, strlen(ptx_source), "ptx", &own.module, &failure));
        CHECK(dev_function_get(own.module, "slow", 0, &own.slow, NULL, &failure));
        CHECK(dev_fill(f->context, x, 0, 4, stream, &failure));
        CHECK(launch_slow(&own, x, 1, 50 * millisecond, stream, &failure));
        CHECK(launch_slow(&own, x, 5, 10 * millisecond, stream, &failure));
        dev_module_unload(own.module);
        assert_int_equal(read_word(f, x), 8);
    }
    dev_stream_destroy(f->context, stream);
    dev_free(f->context, x);
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 250 };

typedef struct thread_work {
    const fixture *f;
    uint32_t number;
    bool good;
    mlp_message why;
} thread_work;

static void *work(void *argument) {
    thread_work *self = argument;
    const fixture *f = self->f;
    mlp_message *why = &self->why;
    dev_stream stream = NULL;
    void *x = NULL;
    bool pushed = false;
    uint32_t values[64], expected = self->number;
    bool good = !dev_stream_create(f->context, &stream, why) && !dev_alloc(f->context, sizeof values, &x, why);
    for (int i = 0; i < 64; i++)
        values[i] = self->number;
    good = good && !dev_copy_in(f->context, x, values, sizeof values, why);
    for (int round = 0; round < ROUNDS && good; round++) {
        good = !launch_affine(f, x, 3, self->number, 64, stream, why);
        expected = expected * 3 + self->number;
    }
    good = good && !dev_context_enter(f->context, &pushed, why);
    good = good && f->api->cuStreamSynchronize((CUstream)stream) == 0;
    dev_context_leave(f->context, pushed);
    good = good && !dev_copy_out(f->context, values, x, sizeof values, why);
    for (int i = 0; i < 64 && good; i++)
        good = values[i] == expected;
    dev_free(f->context, x);
    dev_stream_destroy(f->context, stream);
    self->good = good;
    return NULL;
}

static void test_threads(void **state) {
    NEED_DEVICE();
    pthread_t threads[THREADS];
    thread_work works[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        works[i] = (thread_work){f, i + 11, false, {""}};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &works[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) /* all, before a failure leaves this function with what they use */
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++)
        if (!works[i].good)
            fail_msg("thread %d: %s", i, works[i].why.text[0] ? works[i].why.text : "a wrong value");
}

/* ---- timing ---- */

typedef struct timed {
    const fixture *f;
    void *x;
    uint64_t wait;
    int calls;
    bool fail;
} timed;

static mlpbwd_status enqueue(void *user, dev_stream stream, mlp_message *why) {
    timed *t = user;
    t->calls++;
    mlpbwd_status status = launch_slow(t->f, t->x, 1, t->wait, stream, why);
    if (!status && t->fail)
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "planted");
    return status;
}

static void test_time(void **state) {
    NEED_DEVICE();
    timed t = {.f = f, .wait = 300000};
    double microseconds[6];
    CHECK(dev_alloc(f->context, 4, &t.x, &failure));
    for (int cold = 0; cold < 2; cold++) {
        dev_timing timing = {.microseconds = microseconds, .repetitions = 5, .warmup = 2, .cold = cold};
        CHECK(dev_fill(f->context, t.x, 0, 4, NULL, &failure));
        CHECK(dev_synchronize(f->context, &failure));
        t.calls = 0;
        microseconds[5] = -1;
        CHECK(dev_time(f->context, enqueue, &t, &timing, &failure));
        assert_int_equal(t.calls, 1); /* captured once */
        assert_int_equal(read_word(f, t.x), 1 + 3 + 9 + 27 + 81 + 243 + 729);
        int quick = 0; /* a repetition that the machine disturbed may be longer, but none can be shorter */
        for (int i = 0; i < 5; i++) {
            assert_true(microseconds[i] >= 295);
            quick += microseconds[i] < 450;
        }
        assert_true(quick >= 3);
        assert_true(microseconds[5] == -1);
        print_message("%s: %.1f us, clock %.0f MHz\n", timing.protocol, microseconds[2], timing.clock_mhz);
        assert_true(timing.clock_mhz > 100 && timing.clock_mhz < 5000);
        assert_string_equal(timing.protocol, cold ? "cold L2, graph replay, 5 repetitions after 2"
                                                  : "warm L2, graph replay, 5 repetitions after 2");
        dev_info full;
        dev_describe(f->device, &full);
        assert_true(full.max_clock_mhz == 0 || timing.clock_mhz < 1.05 * full.max_clock_mhz);
    }
    /* A failing enqueue is reported, and timing works afterwards. */
    mlp_message why;
    dev_timing timing = {.microseconds = microseconds, .repetitions = 1};
    t.fail = true;
    assert_int_equal(dev_time(f->context, enqueue, &t, &timing, &why), MLPBWD_UNSUPPORTED);
    assert_string_equal(why.text, "planted");
    t.fail = false;
    CHECK(dev_time(f->context, enqueue, &t, &timing, &failure));
    dev_free(f->context, t.x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_order),
        TEST(test_streams_are_independent),
        TEST(test_capture),
        TEST(test_set_up_during_capture),
        TEST(test_unload_during_capture),
        TEST(test_unload_while_running),
        TEST(test_threads),
        TEST(test_time),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
