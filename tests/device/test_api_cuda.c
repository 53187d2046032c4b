/* The public interface on "cuda:0": results, the legacy stream, threads and streams at once, lifetimes. */
#include <math.h>
#include <pthread.h>
#include <sys/wait.h>

#include "api_cuda_fixture.h"
#include "tolerance.h"

enum { THREADS = 4, STREAMS = 4, CALLS = 250 };

/* ---- results ---- */

static void check_outputs(const memory *m, int activation, const float *old) {
    reference64 reference;
    reference64_make(&reference, &inputs, activation);
    for (int k = 0; k < OUT_COUNT; k++) {
        char sentence[512];
        float *values = read_output(m, k);
        if (!tolerance_check(&reference, MLPBWD_ACCURACY_TF32, k, values, k == OUT_GRAD_HIDDEN ? NULL : old, NULL,
                             sentence, sizeof sentence))
            fail_msg("%s", sentence);
        free(values);
    }
    reference64_free(&reference);
}

static void test_results(void **state) {
    NEED_PLAN();
    for (unsigned variant = 0; variant < 4; variant++) {
        mlpbwd_problem asked = problem;
        asked.activation = variant & 1;
        asked.flags |= variant & 2 ? MLPBWD_FLAG_ACCUMULATE : 0;
        mlpbwd_plan *own = NULL;
        memory m;
        float *old = test_alloc((size_t)(sizes.hidden * sizes.intermediate) * sizeof *old);
        for (int64_t i = 0; i < sizes.hidden * sizes.intermediate; i++)
            old[i] = 2.0F;
        if (mlpbwd_plan_create(library, &asked, &own))
            fail_msg("%s", mlpbwd_last_error());
        memory_make(&m, own, NULL);
        poison(&m, NULL);
        for (int k = 1; k < TENSOR_OUTPUTS && variant & 2; k++)
            CHECK(dev_copy_in(context, m.pointers[TENSOR_INPUTS + k], old, m.bytes[TENSOR_INPUTS + k], &failure));
        execute(own, &m, NULL);
        check_outputs(&m, asked.activation, variant & 2 ? old : NULL);
        free(old);
        memory_free(&m, NULL);
        mlpbwd_plan_destroy(own);
    }
}

/* Every set of outputs: the wanted ones have the same bits as in a whole run, the others are not touched. */
static void test_sets_of_outputs(void **state) {
    NEED_PLAN();
    memory whole, m;
    memory_make(&whole, plan, NULL);
    memory_make(&m, plan, &whole);
    execute(plan, &whole, NULL);
    for (unsigned outputs = 0; outputs < 32; outputs++) {
        memory part = m;
        for (size_t k = 0; k < TENSOR_OUTPUTS; k++)
            if (!(outputs >> k & 1))
                part.pointers[TENSOR_INPUTS + k] = NULL;
        memcpy(&part.tensors, part.pointers, sizeof part.tensors);
        poison(&m, NULL);
        execute(plan, &part, NULL);
        for (int k = 0; k < TENSOR_OUTPUTS; k++) {
            float *values = read_output(&m, k), *wanted = read_output(&whole, k);
            if (outputs >> k & 1)
                assert_memory_equal(values, wanted, m.bytes[TENSOR_INPUTS + k]);
            else
                for (size_t i = 0; i < m.bytes[TENSOR_INPUTS + k] / sizeof(float); i++)
                    assert_true(isnan(values[i]));
            free(values);
            free(wanted);
        }
    }
    memory_free(&m, &whole);
    memory_free(&whole, NULL);
}

/* What the legacy stream did before is seen, and what follows on it sees the result, though side streams do not wait
 * for it by themselves. */
static void test_legacy_stream_orders(void **state) {
    NEED_PLAN();
    memory wanted, m;
    memory_make(&wanted, plan, NULL);
    memory_make(&m, plan, NULL);
    execute(plan, &wanted, NULL);
    for (int round = 0; round < 20; round++) {
        poison(&m, NULL);
        for (size_t k = 0; k < TENSOR_INPUTS; k++)
            if (m.pointers[k])
                CHECK(dev_fill(context, m.pointers[k], 0, m.bytes[k], NULL, &failure));
        execute(plan, &m, NULL);
        for (int k = 1; k < TENSOR_OUTPUTS; k++) {
            float *values = read_output(&m, k);
            for (size_t i = 0; i < m.bytes[TENSOR_INPUTS + k] / sizeof(float); i++)
                assert_true(values[i] == 0.0F);
            free(values);
        }
    }
    memory_free(&m, NULL);
    memory_free(&wanted, NULL);
}

/* ---- threads ---- */

typedef struct job {
    pthread_t thread;
    memory sets[STREAMS];
    dev_stream streams[STREAMS];
    int failures;
} job;

static void *execute_often(void *argument) {
    job *self = argument;
    for (int i = 0; i < CALLS; i++) {
        const memory *m = &self->sets[i % STREAMS];
        dev_stream stream = self->streams[i % STREAMS];
        for (size_t k = TENSOR_INPUTS; k < TENSOR_COUNT; k++)
            self->failures += dev_fill(context, m->pointers[k], 0xff, m->bytes[k], stream, NULL) != MLPBWD_OK;
        self->failures += mlpbwd_execute(plan, &m->tensors, m->workspace, m->workspace_size, stream) != MLPBWD_OK;
    }
    return NULL;
}

static void test_threads_and_streams(void **state) {
    NEED_PLAN();
    static job jobs[THREADS];
    memory wanted;
    memory_make(&wanted, plan, NULL);
    execute(plan, &wanted, NULL);
    CHECK(dev_synchronize(context, &failure));
    for (int t = 0; t < THREADS; t++)
        for (int s = 0; s < STREAMS; s++) {
            memory_make(&jobs[t].sets[s], plan, &wanted);
            CHECK(dev_stream_create(context, &jobs[t].streams[s], &failure));
        }
    for (int round = 0; round < 4; round++) {
        for (int t = 0; t < THREADS; t++)
            assert_int_equal(pthread_create(&jobs[t].thread, NULL, execute_often, &jobs[t]), 0);
        for (int t = 0; t < THREADS; t++) {
            assert_int_equal(pthread_join(jobs[t].thread, NULL), 0);
            assert_int_equal(jobs[t].failures, 0);
        }
        for (int t = 0; t < THREADS; t++)
            for (int s = 0; s < STREAMS; s++)
                assert_true(same_outputs(&jobs[t].sets[s], &wanted));
    }
    for (int t = 0; t < THREADS; t++)
        for (int s = 0; s < STREAMS; s++) {
            memory_free(&jobs[t].sets[s], &wanted);
            dev_stream_destroy(context, jobs[t].streams[s]);
        }
    memory_free(&wanted, NULL);
}

/* ---- lifetimes ---- */

static void test_destroyed_while_running(void **state) {
    NEED_PLAN();
    memory wanted, m;
    memory_make(&wanted, plan, NULL);
    memory_make(&m, plan, &wanted);
    execute(plan, &wanted, NULL);
    for (int round = 0; round < 3; round++) {
        mlpbwd_library *own_library = NULL;
        mlpbwd_plan *own = NULL;
        if (mlpbwd_open(path, "cuda:0", &own_library) || mlpbwd_plan_create(own_library, &problem, &own))
            fail_msg("%s", mlpbwd_last_error());
        mlpbwd_close(own_library);
        poison(&m, NULL);
        for (int i = 0; i < 50; i++)
            execute(own, &m, NULL);
        mlpbwd_plan_destroy(own);
        assert_true(same_outputs(&m, &wanted));
    }
    memory_free(&m, &wanted);
    memory_free(&wanted, NULL);
}

static void test_fork(void **state) {
    NEED_PLAN();
    mlpbwd_tensors tensors = {0};
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool good = mlpbwd_execute(plan, &tensors, NULL, 0, NULL) == MLPBWD_DEVICE_ERROR;
        mlpbwd_plan_destroy(plan);
        mlpbwd_close(library);
        _exit(good ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_sets_of_outputs),
        cmocka_unit_test(test_legacy_stream_orders),
        cmocka_unit_test(test_threads_and_streams),
        cmocka_unit_test(test_destroyed_while_running),
        cmocka_unit_test(test_fork),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
