/* The public interface on "cuda:0": capture and replay, the pool of side streams, recorded launches, contexts. */
#include <dlfcn.h>

#include "api_cuda_fixture.h"

enum { MODE_RELAXED = 2 };

#define CUDA(call) assert_int_equal(cuda->call, 0)

/* ---- capture ---- */

/* The first execute of a plan may already be captured. */
static void test_capture_and_replay(void **state) {
    NEED_PLAN();
    memory wanted, m;
    dev_stream stream;
    CUgraph graph;
    CUgraphExec executable;
    mlpbwd_library *fresh = NULL;
    mlpbwd_plan *own = NULL;
    bool pushed;
    memory_make(&wanted, plan, NULL);
    memory_make(&m, plan, &wanted);
    execute(plan, &wanted, NULL);
    CHECK(dev_synchronize(context, &failure));
    if (mlpbwd_open(path, "cuda:0", &fresh) || mlpbwd_plan_create(fresh, &problem, &own))
        fail_msg("%s", mlpbwd_last_error());
    CHECK(dev_stream_create(context, &stream, &failure));
    CHECK(dev_context_enter(context, &pushed, &failure));
    CUDA(cuStreamBeginCapture_v2((CUstream)stream, 0 /* global, the strictest */));
    execute(own, &m, stream);
    execute(own, &m, stream);
    CUDA(cuStreamEndCapture((CUstream)stream, &graph));
    CUDA(cuGraphInstantiateWithFlags(&executable, graph, 0));
    for (int round = 0; round < 5; round++) {
        poison(&m, stream);
        CUDA(cuGraphLaunch(executable, (CUstream)stream));
        assert_true(same_outputs(&m, &wanted));
    }
    CUDA(cuGraphExecDestroy(executable));
    CUDA(cuGraphDestroy(graph));
    dev_context_leave(context, pushed);
    dev_stream_destroy(context, stream);
    mlpbwd_plan_destroy(own);
    mlpbwd_close(fresh);
    memory_free(&m, &wanted);
    memory_free(&wanted, NULL);
}

/* Open captures keep the side streams: the next executes, captured or not, run serially with the same bits. */
static void test_exhausted_pool(void **state) {
    NEED_PLAN();
    enum { CAPTURES = 6 };
    memory wanted, captured[CAPTURES], m;
    dev_stream streams[CAPTURES], plain;
    CUgraph graphs[CAPTURES];
    bool pushed;
    memory_make(&wanted, plan, NULL);
    memory_make(&m, plan, &wanted);
    execute(plan, &wanted, NULL);
    CHECK(dev_stream_create(context, &plain, &failure));
    for (int i = 0; i < CAPTURES; i++) {
        memory_make(&captured[i], plan, &wanted);
        CHECK(dev_stream_create(context, &streams[i], &failure));
    }
    CHECK(dev_context_enter(context, &pushed, &failure));
    for (int i = 0; i < CAPTURES; i++) {
        CUDA(cuStreamBeginCapture_v2((CUstream)streams[i], MODE_RELAXED));
        execute(plan, &captured[i], streams[i]);
    }
    execute(plan, &m, plain);
    for (int i = 0; i < CAPTURES; i++)
        CUDA(cuStreamEndCapture((CUstream)streams[i], &graphs[i]));
    assert_true(same_outputs(&m, &wanted));
    for (int i = 0; i < CAPTURES; i++) {
        CUgraphExec executable;
        CUDA(cuGraphInstantiateWithFlags(&executable, graphs[i], 0));
        CUDA(cuGraphLaunch(executable, (CUstream)plain));
        assert_true(same_outputs(&captured[i], &wanted));
        CUDA(cuGraphExecDestroy(executable));
        CUDA(cuGraphDestroy(graphs[i]));
    }
    poison(&m, plain);
    execute(plan, &m, plain); /* and with the pool free again */
    assert_true(same_outputs(&m, &wanted));
    dev_context_leave(context, pushed);
    for (int i = 0; i < CAPTURES; i++) {
        memory_free(&captured[i], &wanted);
        dev_stream_destroy(context, streams[i]);
    }
    dev_stream_destroy(context, plain);
    memory_free(&m, &wanted);
    memory_free(&wanted, NULL);
}

/* Outside of captures a plan replays graphs that it recorded, one a stream while there are some: tensors may change
 * from call to call, and on streams beyond the last graph the launches are enqueued one by one. */
static void test_recorded_launches(void **state) {
    NEED_PLAN();
    enum { STREAMS = 6 };
    memory wanted, a, b;
    dev_stream streams[STREAMS];
    memory_make(&wanted, plan, NULL);
    memory_make(&a, plan, &wanted);
    memory_make(&b, plan, &wanted);
    execute(plan, &wanted, NULL);
    for (int s = 0; s < STREAMS; s++)
        CHECK(dev_stream_create(context, &streams[s], &failure));
    for (int round = 0; round < 3; round++)
        for (int s = 0; s < STREAMS; s++) {
            poison(&a, streams[s]);
            poison(&b, streams[s]);
            execute(plan, &a, streams[s]);
            execute(plan, &b, streams[s]);
            assert_true(same_outputs(&a, &wanted));
            assert_true(same_outputs(&b, &wanted));
        }
    /* what is not wanted is neither written nor a reason to forget what is */
    mlpbwd_tensors some = a.tensors;
    some.grad_weight2 = NULL;
    poison(&a, streams[0]);
    assert_int_equal(mlpbwd_execute(plan, &some, a.workspace, a.workspace_size, streams[0]), MLPBWD_OK);
    assert_false(same_outputs(&a, &wanted));
    execute(plan, &a, streams[0]);
    assert_true(same_outputs(&a, &wanted));
    for (int s = 0; s < STREAMS; s++)
        dev_stream_destroy(context, streams[s]);
    memory_free(&a, &wanted);
    memory_free(&b, &wanted);
    memory_free(&wanted, NULL);
}

/* ---- contexts ---- */

typedef cuda_enum context_create(CUcontext *out, unsigned flags, CUdevice ordinal);
typedef cuda_enum context_destroy(CUcontext which);

static void *driver_symbol(const char *name) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    assert_non_null(driver);
    void *address = dlsym(driver, name);
    assert_non_null(address);
    return address; /* the driver stays loaded */
}

static void test_contexts(void **state) {
    NEED_PLAN();
    memory wanted, m;
    CUcontext other = NULL, current = NULL, popped = NULL;
    CUdevice ordinal = 0;
    context_create *create = NULL;
    context_destroy *destroy = NULL;
    void *address = driver_symbol("cuCtxCreate_v2");
    memcpy(&create, &address, sizeof address);
    address = driver_symbol("cuCtxDestroy_v2");
    memcpy(&destroy, &address, sizeof address);
    memory_make(&wanted, plan, NULL);
    memory_make(&m, plan, &wanted);
    CUDA(cuCtxGetCurrent(&current));
    assert_null(current); /* nothing so far left one current */
    execute(plan, &wanted, NULL);
    CUDA(cuCtxGetCurrent(&current));
    assert_null(current);
    CUDA(cuDeviceGet(&ordinal, 0));
    assert_int_equal(create(&other, 0, ordinal), 0); /* and makes it current */
    assert_int_equal(mlpbwd_execute(plan, &m.tensors, m.workspace, m.workspace_size, NULL), MLPBWD_INVALID_ARGUMENT);
    assert_non_null(strstr(mlpbwd_last_error(), "context"));
    mlpbwd_plan *there = NULL;
    if (mlpbwd_plan_create(library, &problem, &there))
        fail_msg("%s", mlpbwd_last_error());
    assert_ptr_not_equal(there, plan); /* belongs to the context that is current now */
    CUDA(cuCtxGetCurrent(&current));
    assert_ptr_equal(current, other);
    CUDA(cuCtxPopCurrent_v2(&popped));
    poison(&m, NULL);
    execute(plan, &m, NULL);
    assert_true(same_outputs(&m, &wanted));
    mlpbwd_plan_destroy(there);
    assert_int_equal(destroy(other), 0);
    /* Another one, maybe at the same address: the old plan must not come back. */
    assert_int_equal(create(&other, 0, ordinal), 0);
    if (mlpbwd_plan_create(library, &problem, &there))
        fail_msg("%s", mlpbwd_last_error());
    mlpbwd_tensors none = {0};
    assert_int_equal(mlpbwd_execute(there, &none, NULL, 0, NULL), MLPBWD_OK);
    mlpbwd_plan_destroy(there);
    CUDA(cuCtxPopCurrent_v2(&popped));
    assert_int_equal(destroy(other), 0);
    memory_free(&m, &wanted);
    memory_free(&wanted, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_capture_and_replay),
        cmocka_unit_test(test_exhausted_pool),
        cmocka_unit_test(test_recorded_launches),
        cmocka_unit_test(test_contexts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
