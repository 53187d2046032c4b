/* What the calls cost the caller, on "cuda:0" with the shipped or default database, in a process whose CUDA context
 * exists: opening with the first plan, a further plan, one already made, and the processor time of mlpbwd_execute (200
 * calls, the launch queue never full), with the same tensors again and with other ones each time. Prints a table; the
 * limits are those of the design's section 7 and are checked on CUDA devices only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <time.h>

#include "device/device.h"
#include "mlpbwd.h"
#include "plan_tensors.h"

enum { REPEATS = 100, CALLS = 200, CALLS_BETWEEN_WAITS = 8 };
static const double limit_first_ms = 30, limit_new_ms = 2, limit_repeated_us = 20, limit_execute_us = 12;

static double now_us(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

typedef struct costs {
    double first_ms, new_ms, repeated_us, execute_us, execute_cpu_us, execute_changing_us;
    size_t launches;
    char pipeline[64], match[32];
} costs;

static void read_description(const mlpbwd_plan *plan, costs *c) {
    size_t needed = 0;
    assert_int_equal(mlpbwd_plan_describe(plan, NULL, 0, &needed), MLPBWD_OK);
    char *text = malloc(needed);
    assert_non_null(text);
    assert_int_equal(mlpbwd_plan_describe(plan, text, needed, NULL), MLPBWD_OK);
    json_t *answer = json_loads(text, 0, NULL);
    free(text);
    c->launches = json_array_size(json_object_get(answer, "launches"));
    snprintf(c->pipeline, sizeof c->pipeline, "%s", json_string_value(json_object_get(answer, "pipeline")));
    snprintf(c->match, sizeof c->match, "%s", json_string_value(json_object_get(answer, "match")));
    json_decref(answer);
}

/* Means of `calls` calls, the two sets of tensors in turns. */
static void time_calls(dev_context *context, const mlpbwd_plan *plan, const mlpbwd_tensors *const tensors[2],
                       void *workspace, size_t size, int calls, double *wall_us, double *cpu_us) {
    mlp_message why = {0};
    double wall = 0, cpu = 0;
    for (int i = -CALLS_BETWEEN_WAITS; i < calls; i++) { /* those before 0 warm up */
        if (i % CALLS_BETWEEN_WAITS == 0)
            assert_int_equal(dev_synchronize(context, &why), MLPBWD_OK);
        double wall_before = now_us(CLOCK_MONOTONIC), cpu_before = now_us(CLOCK_THREAD_CPUTIME_ID);
        mlpbwd_status status = mlpbwd_execute(plan, tensors[i & 1], workspace, size, NULL);
        double cpu_after = now_us(CLOCK_THREAD_CPUTIME_ID), wall_after = now_us(CLOCK_MONOTONIC);
        if (status != MLPBWD_OK)
            fail_msg("%s", mlpbwd_last_error());
        if (i >= 0) {
            wall += wall_after - wall_before;
            cpu += cpu_after - cpu_before;
        }
    }
    *wall_us = wall / calls;
    *cpu_us = cpu / calls;
}

static void time_executes(dev_context *context, const mlpbwd_problem *problem, const mlpbwd_plan *plan, int calls,
                          costs *c) {
    mlp_message why = {0};
    size_t bytes[TENSOR_COUNT], size = mlpbwd_plan_workspace_size(plan);
    void *pointers[TENSOR_COUNT], *workspace = NULL;
    mlpbwd_tensors tensors;
    assert_int_equal(plan_tensor_sizes(problem, bytes, &why), MLPBWD_OK);
    for (size_t k = 0; k < TENSOR_COUNT; k++) {
        assert_int_equal(dev_alloc(context, bytes[k], &pointers[k], &why), MLPBWD_OK);
        assert_int_equal(dev_fill(context, pointers[k], 0, bytes[k], NULL, &why), MLPBWD_OK);
    }
    memcpy(&tensors, pointers, sizeof tensors);
    assert_int_equal(dev_alloc(context, size, &workspace, &why), MLPBWD_OK);
    mlpbwd_tensors other = tensors; /* as the next layer's would be: another address in one place is enough */
    void *another = NULL;
    assert_int_equal(dev_alloc(context, bytes[TENSOR_COUNT - 1], &another, &why), MLPBWD_OK);
    other.grad_bias2 = another;
    const mlpbwd_tensors *const same[2] = {&tensors, &tensors}, *const changing[2] = {&tensors, &other};
    double wall = 0;
    time_calls(context, plan, same, workspace, size, calls, &c->execute_us, &c->execute_cpu_us);
    time_calls(context, plan, changing, workspace, size, calls, &wall, &c->execute_changing_us);
    assert_int_equal(dev_synchronize(context, &why), MLPBWD_OK);
    for (size_t k = 0; k < TENSOR_COUNT; k++)
        dev_free(context, pointers[k]);
    dev_free(context, another);
    dev_free(context, workspace);
}

/* False: the device or a plan for it is not there. */
static bool measure(const char *device_name, int calls, int64_t tokens, int64_t hidden, int64_t intermediate,
                    costs *c) {
    mlp_message why = {0};
    dev *device = NULL;
    dev_context *context = NULL;
    void *something = NULL;
    mlpbwd_library *library = NULL;
    mlpbwd_plan *first = NULL, *second = NULL, *again = NULL;
    const mlpbwd_problem problem = {
        .batch_size = 1, .seq_len = tokens, .hidden_size = hidden, .intermediate_size = intermediate};
    mlpbwd_problem other = problem;
    other.batch_size = 8;
    other.seq_len = 773;
    if (dev_open(device_name, &device, &why) != MLPBWD_OK) {
        print_message("%s\n", why.text);
        return false;
    }
    assert_int_equal(dev_context_get(device, &context, &why), MLPBWD_OK);
    assert_int_equal(dev_alloc(context, 256, &something, &why), MLPBWD_OK); /* now the context exists for sure */
    double start = now_us(CLOCK_MONOTONIC);
    mlpbwd_status status = mlpbwd_open(NULL, device_name, &library);
    if (status == MLPBWD_OK)
        status = mlpbwd_plan_create(library, &problem, &first);
    c->first_ms = (now_us(CLOCK_MONOTONIC) - start) / 1e3;
    if (status == MLPBWD_OK) {
        start = now_us(CLOCK_MONOTONIC);
        assert_int_equal(mlpbwd_plan_create(library, &other, &second), MLPBWD_OK);
        c->new_ms = (now_us(CLOCK_MONOTONIC) - start) / 1e3;
        start = now_us(CLOCK_MONOTONIC);
        for (int i = 0; i < REPEATS; i++) {
            assert_int_equal(mlpbwd_plan_create(library, &problem, &again), MLPBWD_OK);
            mlpbwd_plan_destroy(again);
        }
        c->repeated_us = (now_us(CLOCK_MONOTONIC) - start) / REPEATS;
        read_description(first, c);
        time_executes(context, &problem, first, calls, c);
    } else {
        print_message("%s\n", mlpbwd_last_error());
    }
    mlpbwd_plan_destroy(first);
    mlpbwd_plan_destroy(second);
    mlpbwd_close(library);
    dev_free(context, something);
    dev_context_release(context);
    dev_release(device);
    return status == MLPBWD_OK;
}

static void print_costs(const char *device, int64_t tokens, const costs *c) {
    print_message("%s, T = %lld, rung %s, pipeline %s, %zu launches\n", device, (long long)tokens, c->match,
                  c->pipeline, c->launches);
    print_message("  open + first plan     %9.2f ms\n", c->first_ms);
    print_message("  a further new plan    %9.2f ms\n", c->new_ms);
    print_message("  a plan already made   %9.2f us\n", c->repeated_us);
    print_message("  execute, wall time    %9.2f us a call\n", c->execute_us);
    print_message("  execute, CPU time     %9.2f us a call\n", c->execute_cpu_us);
    print_message("  ... with other tensors%9.2f us a call\n", c->execute_changing_us);
}

static void test_host(void **state) {
    (void)state;
    costs c = {0};
    if (!measure("host", 3, 2164, 128, 256, &c)) /* synchronous: its time is that of the kernels */
        skip();
    print_costs("host", 2164, &c);
}

static void test_cuda(void **state) {
    (void)state;
    static const int64_t tokens[] = {2164, 512}; /* on Hopper one whose launches take no tensor maps, one whose do */
    costs c[2];
    memset(c, 0, sizeof c);
    for (int i = 0; i < 2; i++) {
        if (!measure("cuda:0", CALLS, tokens[i], 2048, 8192, &c[i]))
            skip();
        print_costs("cuda:0", tokens[i], &c[i]);
    }
    for (int i = 0; i < 2; i++) {
        assert_true(c[i].first_ms <= limit_first_ms);
        assert_true(c[i].repeated_us <= limit_repeated_us);
        assert_true(c[i].execute_cpu_us <= limit_execute_us);
        assert_true(c[i].execute_changing_us <= limit_execute_us);
        assert_true(c[i].new_ms <= limit_new_ms);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cuda), cmocka_unit_test(test_host)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
