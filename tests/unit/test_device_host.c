/* The host device end to end: memory, launches also from many threads and across fork, timing. Modules have a program
 * of their own. */
#include "host_fixture.h"

#include "device/host_pool.h"

static void test_memory(void **state) {
    NEED_DEVICE();
    mlp_message why;
    static const size_t sizes[] = {0, 1, 255, 256, 257, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *memory;
        assert_int_equal(dev_alloc(f->context, sizes[i], &memory, &why), MLPBWD_OK);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 256, 0);
        assert_int_equal(dev_fill(f->context, memory, 0x5a, sizes[i], NULL, &why), MLPBWD_OK);
        unsigned char *copy = malloc(sizes[i] + 1);
        assert_non_null(copy);
        assert_int_equal(dev_copy_out(f->context, copy, memory, sizes[i], &why), MLPBWD_OK);
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal(copy[j], 0x5a);
        memset(copy, 7, sizes[i]);
        assert_int_equal(dev_copy_in(f->context, memory, copy, sizes[i], &why), MLPBWD_OK);
        assert_memory_equal(memory, copy, sizes[i]);
        free(copy);
        dev_free(f->context, memory);
    }
    dev_free(f->context, NULL);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* their allocators end the program instead */
    void *none = f;
    assert_int_equal(dev_alloc(f->context, (size_t)1 << 62, &none, &why), MLPBWD_OUT_OF_MEMORY);
    assert_null(none);
    assert_non_null(strstr(why.text, "4611686018427387904 bytes"));
#endif
}

static void test_streams(void **state) {
    NEED_DEVICE();
    dev_stream stream = f;
    dev_event *event = NULL;
    uint64_t id = 1;
    mlp_message why;
    int dummy;
    assert_int_equal(dev_stream_create(f->context, &stream, &why), MLPBWD_OK);
    assert_null(stream);
    assert_int_equal(dev_event_create(f->context, &event, &why), MLPBWD_OK);
    assert_non_null(event);
    assert_int_equal(dev_stream_order(f->context, stream, NULL, event, &why), MLPBWD_OK);
    assert_int_equal(dev_stream_capture_id(f->context, stream, &id, &why), MLPBWD_OK);
    assert_int_equal(id, 0);
    assert_int_equal(dev_stream_order(f->context, &dummy, NULL, event, &why), MLPBWD_INVALID_ARGUMENT);
    assert_int_equal(dev_fill(f->context, &dummy, 0, sizeof dummy, &dummy, &why), MLPBWD_INVALID_ARGUMENT);
    assert_non_null(strstr(why.text, "must be NULL"));
    dev_event_destroy(f->context, event);
    dev_stream_destroy(f->context, stream);
}

static void test_launch_values(void **state) {
    NEED_DEVICE();
    float *in = malloc(ELEMENTS * sizeof *in), *out = malloc(ELEMENTS * sizeof *out);
    float *again = malloc(ELEMENTS * sizeof *again);
    assert_true(in && out && again);
    for (size_t i = 0; i < ELEMENTS; i++)
        in[i] = input_value(i, 0);
    assert_int_equal(run_affine(f, out, in, 1.5f, 1), 0);
    for (unsigned most = 2; most < 70; most += 13) {
        assert_int_equal(run_affine(f, again, in, 1.5f, most), 0);
        assert_memory_equal(out, again, ELEMENTS * sizeof *out);
    }
    free(in);
    free(out);
    free(again);
}

static void test_grids(void **state) {
    NEED_DEVICE();
    static const uint32_t shapes[][3] = {{1, 1, 1}, {2, 1, 1}, {1, 1, 3}, {3, 5, 7}, {1, 64, 1}, {1000, 3, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (unsigned most = 0; most <= 4; most++)
            check_grid(f, shapes[i][0], shapes[i][1], shapes[i][2], most);
    uint32_t block[3] = {2, 1, 1};
    for (int i = 0; i < 3; i++) { /* nothing is called: there are no arguments */
        uint32_t grid[3] = {4, 4, 4};
        grid[i] = 0;
        assert_int_equal(dev_launch(f->count, grid, block, 0, NULL, NULL, NULL), MLPBWD_OK);
    }
    uint32_t huge[3] = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    mlp_message why;
    assert_int_equal(dev_launch(f->count, huge, block, 0, NULL, NULL, &why), MLPBWD_INVALID_ARGUMENT);
    assert_int_equal(dev_launch(f->count, block, block, 0, NULL, f, &why), MLPBWD_INVALID_ARGUMENT);
}

static void mark(void *const *arguments, unsigned x, unsigned y, unsigned z) {
    (void)y;
    (void)z;
    (*(unsigned char **)arguments[0])[x]++;
}

/* More threads than this machine may have processors, and every number of them. */
static void test_large_pool(void **state) {
    (void)state;
    enum { MOST = 37, POINTS = 300 };
    host_pool *pool = host_pool_create(MOST);
    assert_non_null(pool);
    for (unsigned points = 1; points <= POINTS; points++) {
        unsigned char marks[POINTS + 1] = {0}, *pointer = marks;
        void *arguments[] = {&pointer};
        uint32_t grid[3] = {points, 1, 1};
        host_pool_run(pool, mark, arguments, grid, points, points % (MOST + 5));
        for (unsigned i = 0; i < points; i++)
            assert_int_equal(marks[i], 1);
        assert_int_equal(marks[points], 0);
    }
    host_pool_destroy(pool);
    host_pool_destroy(NULL);
    pool = host_pool_create(1);
    unsigned char one = 0, *pointer = &one;
    void *arguments[] = {&pointer};
    uint32_t grid[3] = {1, 1, 1};
    host_pool_run(pool, mark, arguments, grid, 1, 9);
    host_pool_run(NULL, mark, arguments, grid, 1, 9);
    assert_int_equal(one, 2);
    host_pool_destroy(pool);
}

/* ---- many callers ---- */

enum { CALLERS = 8, ROUNDS = 60 };

typedef struct caller {
    const fixture *f;
    int number, wrong;
} caller;

static void *call_often(void *argument) {
    caller *self = argument;
    float *in = malloc(ELEMENTS * sizeof *in), *out = malloc(ELEMENTS * sizeof *out);
    if (!in || !out) {
        self->wrong = -1;
    } else {
        for (size_t i = 0; i < ELEMENTS; i++)
            in[i] = input_value(i, self->number);
        for (int round = 0; round < ROUNDS; round++)
            self->wrong += run_affine(self->f, out, in, (float)(self->number + round), 4);
    }
    free(in);
    free(out);
    return NULL;
}

static void test_many_callers(void **state) {
    NEED_DEVICE();
    caller callers[CALLERS];
    pthread_t threads[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){f, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(callers[i].wrong, 0);
    }
}

/* A kernel that launches: the pool is taken, so the inner grid must run alone and not wait. */
static void launch_inside(void *user, unsigned x) {
    caller *self = user;
    if (x == 0)
        call_often(self);
}

static void test_busy_pool(void **state) {
    NEED_DEVICE();
    caller self = {f, 3, 0};
    void *user = &self;
    void (*function)(void *, unsigned) = launch_inside;
    void *arguments[] = {&function, &user};
    uint32_t grid[3] = {4, 1, 1}, block[3] = {8, 1, 1};
    assert_int_equal(dev_launch(f->call, grid, block, 0, arguments, NULL, NULL), MLPBWD_OK);
    assert_int_equal(self.wrong, 0);
}

/* ---- fork ---- */

/* In the child: launches work alone, what needs the parent's device is refused, nothing hangs. */
static int child_checks(fixture *f) {
    alarm(30);
    float in[ELEMENTS], out[ELEMENTS];
    for (size_t i = 0; i < ELEMENTS; i++)
        in[i] = input_value(i, 5);
    if (run_affine(f, out, in, 2.0f, 8) != 0)
        return 1;
    dev_context *context;
    dev_module *module;
    mlp_message why;
    if (dev_context_get(f->device, &context, &why) != MLPBWD_DEVICE_ERROR || !strstr(why.text, "fork"))
        return 2;
    if (dev_module_load(f->context, f->image.bytes, f->image.size, "elf-so", &module, &why) != MLPBWD_DEVICE_ERROR)
        return 3;
    dev_module_unload(f->module);
    dev_context_release(f->context);
    dev_release(f->device);
    dev *own; /* the child may open a device of its own */
    if (dev_open("host", &own, &why) || dev_context_get(own, &context, &why))
        return 4;
    dev_context_release(context);
    dev_release(own);
    return 0;
}

static void test_fork(void **state) {
    NEED_DEVICE();
    check_grid(f, 64, 1, 1, 4); /* the pool has worked */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(child_checks(f));
    check_child(child);
    check_grid(f, 64, 1, 1, 4); /* and still works in the parent */
}

static pid_t forked;

static void fork_inside(void *user, unsigned x) {
    if (x == 0) {
        forked = fork();
        if (forked == 0)
            _exit(child_checks(user));
    }
}

static void test_fork_while_busy(void **state) {
    NEED_DEVICE();
    void *user = f;
    void (*function)(void *, unsigned) = fork_inside;
    void *arguments[] = {&function, &user};
    uint32_t grid[3] = {4, 1, 1}, block[3] = {8, 1, 1};
    assert_int_equal(dev_launch(f->call, grid, block, 0, arguments, NULL, NULL), MLPBWD_OK);
    assert_true(forked > 0);
    check_child(forked);
}

/* ---- timing ---- */

typedef struct timed {
    int calls, fail_at;
} timed;

static mlpbwd_status sleep_a_little(void *user, dev_stream stream, mlp_message *why) {
    timed *t = user;
    assert_null(stream);
    if (++t->calls == t->fail_at)
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "planted");
    usleep(2000);
    return MLPBWD_OK;
}

static void test_time(void **state) {
    NEED_DEVICE();
    mlp_message why;
    for (int cold = 0; cold < 2; cold++) {
        double microseconds[4] = {-1, -1, -1, -1};
        timed t = {0, -1};
        dev_timing timing = {.microseconds = microseconds, .repetitions = 3, .warmup = 2, .cold = cold};
        assert_int_equal(dev_time(f->context, sleep_a_little, &t, &timing, &why), MLPBWD_OK);
        assert_int_equal(t.calls, 5);
        for (int i = 0; i < 3; i++)
            assert_true(microseconds[i] >= 2000 && microseconds[i] < 2e6);
        assert_true(microseconds[3] == -1);
        assert_true(timing.clock_mhz == 0);
        assert_string_equal(timing.protocol, cold ? "cold cache, direct call, 3 repetitions after 2"
                                                  : "warm cache, direct call, 3 repetitions after 2");
        t = (timed){0, 4};
        assert_int_equal(dev_time(f->context, sleep_a_little, &t, &timing, &why), MLPBWD_UNSUPPORTED);
        assert_string_equal(why.text, "planted");
        assert_int_equal(t.calls, 4);
    }
    dev_timing none = {.repetitions = 0};
    assert_int_equal(dev_time(f->context, sleep_a_little, NULL, &none, &why), MLPBWD_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),    cmocka_unit_test(test_streams),    cmocka_unit_test(test_launch_values),
        cmocka_unit_test(test_grids),     cmocka_unit_test(test_large_pool), cmocka_unit_test(test_many_callers),
        cmocka_unit_test(test_busy_pool), cmocka_unit_test(test_fork),       cmocka_unit_test(test_fork_while_busy),
        cmocka_unit_test(test_time),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
