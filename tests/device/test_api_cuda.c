/* The public interface on "cuda:0", with a pipeline that uses side streams: results, threads and streams at once,
 * capture and replay, contexts, the pool of side streams, lifetimes. The plan is made here from the templates, so
 * NVRTC is needed; skipped where that or a device is missing. */
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
#include <dlfcn.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>

#include "db.h"
#include "device/cuda_api.h"
#include "device/device.h"
#include "generator.h"
#include "mlpbwd.h"
#include "plan_tensors.h"
#include "tolerance.h"

enum { THREADS = 4, STREAMS = 4, CALLS = 250, MODE_RELAXED = 2 };

static const mlpbwd_problem problem = {.batch_size = 2, .seq_len = 65, .hidden_size = 256, .intermediate_size = 512};
static const test_sizes sizes = {.tokens = 130, .hidden = 256, .intermediate = 512};

static char path[64];
static dev *device;
static dev_context *context;
static const cuda_functions *cuda;
static mlpbwd_library *library;
static mlpbwd_plan *plan;
static test_inputs inputs;
static mlp_message failure;

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if (call)                                                                                                      \
            fail_msg("%s: %s", #call, failure.text);                                                                   \
    } while (0)
#define CUDA(call) assert_int_equal(cuda->call, 0)

/* ---- a database with the pipeline's machine code ---- */

/* Compiles every module once (several slots may share a source) and writes the code's hash into the stored plan. */
static void compile_modules(db *database, json_t *stored, const json_t *sources) {
    json_t *codes = json_object(), *module;
    size_t index;
    json_array_foreach(json_object_get(stored, "modules"), index, module) {
        const char *source = json_string_value(json_object_get(module, "source"));
        json_t *done = json_object_get(codes, source);
        if (!done) {
            const dev_compile_request request = {.compiler = "nvrtc",
                                                 .target = json_string_value(json_object_get(module, "target")),
                                                 .source = json_string_value(json_object_get(sources, source)),
                                                 .name = json_string_value(json_object_get(module, "slot"))};
            dev_image image = {0};
            char code[DB_HASH_CAPACITY];
            CHECK(dev_compile(&request, &image, &failure));
            CHECK(db_put_blob(database, image.format, image.bytes, image.size, code, &failure));
            done = json_pack("{s:s, s:s}", "code", code, "code_format", image.format);
            dev_image_free(&image);
            json_object_set_new(codes, source, done);
        }
        json_object_update(module, done);
    }
    json_decref(codes);
}

static void put_pipeline(db *database, gen *generator, const char *pipeline, int accuracy) {
    const gen_target target = {.arch = dev_get_info(device)->arch, .accuracy = accuracy};
    json_t *stored = NULL, *sources = NULL, *text;
    const char *hash;
    char put[DB_HASH_CAPACITY];
    CHECK(gen_build_plan(generator, pipeline, &target, NULL, &stored, &sources, &failure));
    json_object_foreach(sources, hash, text) {
        CHECK(db_put_blob(database, "source", json_string_value(text), json_string_length(text), put, &failure));
        assert_string_equal(put, hash);
    }
    compile_modules(database, stored, sources);
    char *json = json_dumps(stored, JSON_COMPACT);
    char *parameters = json_dumps(json_object_get(stored, "parameters"), JSON_COMPACT);
    const db_plan_row row = {.arch = target.arch,
                             .device_name = "",
                             .accuracy = accuracy,
                             .min_tokens = 1,
                             .max_tokens = 2147483647,
                             .pipeline = pipeline,
                             .parameters = parameters,
                             .plan = json,
                             .median_us = -1,
                             .measurement = "",
                             .origin = "build",
                             .date = "2026-01-02"};
    CHECK(db_put_plan(database, &row, &failure));
    free(json);
    free(parameters);
    json_decref(stored);
    json_decref(sources);
}

static void make_database(void) {
    const char *const folders[] = {SOURCE_DIR "/templates"};
    gen *generator = NULL;
    db *database = NULL;
    snprintf(path, sizeof path, "/tmp/mlpbwd-api-cuda-%ld.sqlite", (long)getpid());
    unlink(path);
    CHECK(gen_open(folders, 1, NULL, &generator, &failure));
    CHECK(db_open(path, DB_READ_WRITE, &database, &failure));
    put_pipeline(database, generator, "mma_overlap", MLPBWD_ACCURACY_TF32);
    db_close(database);
    gen_close(generator);
}

static int set_up(void **state) {
    (void)state;
    char version[64];
    if (dev_open("cuda:0", &device, &failure) || dev_compiler_version("nvrtc", version, sizeof version, &failure)) {
        print_message("%s\n", failure.text);
        return 0;
    }
    cuda = cuda_driver(&failure);
    CHECK(dev_context_get(device, &context, &failure));
    make_database();
    if (mlpbwd_open(path, "cuda:0", &library) || mlpbwd_plan_create(library, &problem, &plan))
        fail_msg("%s", mlpbwd_last_error());
    test_inputs_make(&inputs, sizes, INPUT_NORMAL, 7);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    if (plan) {
        mlpbwd_plan_destroy(plan);
        mlpbwd_close(library);
        test_inputs_free(&inputs);
        unlink(path);
    }
    dev_context_release(context);
    dev_release(device);
    return 0;
}

#define NEED_PLAN()                                                                                                    \
    (void)state;                                                                                                       \
    if (!plan)                                                                                                         \
    skip()

/* ---- one set of device memory ---- */

typedef struct memory {
    mlpbwd_tensors tensors;
    void *pointers[TENSOR_COUNT], *workspace;
    size_t bytes[TENSOR_COUNT], workspace_size;
} memory;

/* Inputs may be shared between sets (from != NULL). */
static void memory_make(memory *m, const mlpbwd_plan *for_plan, const memory *from) {
    static const int inputs_of[TENSOR_INPUTS] = {IN_GRAD_OUTPUT, IN_HIDDEN, IN_WEIGHT1,      -1,
                                                 IN_WEIGHT2,     -1,        IN_INTERMEDIATE, IN_ACTIVATED};
    CHECK(plan_tensor_sizes(&problem, m->bytes, &failure));
    for (size_t k = 0; k < TENSOR_COUNT; k++) {
        m->pointers[k] = NULL;
        if (k < TENSOR_INPUTS && (from || inputs_of[k] < 0)) {
            m->pointers[k] = from ? from->pointers[k] : NULL;
            continue;
        }
        CHECK(dev_alloc(context, m->bytes[k], &m->pointers[k], &failure));
        if (k < TENSOR_INPUTS)
            CHECK(dev_copy_in(context, m->pointers[k], inputs.tensor[inputs_of[k]], m->bytes[k], &failure));
        else
            CHECK(dev_fill(context, m->pointers[k], 0xff, m->bytes[k], NULL, &failure));
    }
    m->workspace_size = mlpbwd_plan_workspace_size(for_plan);
    CHECK(dev_alloc(context, m->workspace_size, &m->workspace, &failure));
    CHECK(dev_fill(context, m->workspace, 0xff, m->workspace_size, NULL, &failure));
    CHECK(dev_synchronize(context, &failure));
    memcpy(&m->tensors, m->pointers, sizeof m->tensors);
}

static void memory_free(memory *m, const memory *from) {
    for (size_t k = from ? TENSOR_INPUTS : 0; k < TENSOR_COUNT; k++)
        dev_free(context, m->pointers[k]);
    dev_free(context, m->workspace);
}

/* Waits for the device. malloc'ed. */
static float *read_output(const memory *m, int output) {
    float *values = test_alloc(m->bytes[TENSOR_INPUTS + output]);
    CHECK(dev_synchronize(context, &failure));
    CHECK(
        dev_copy_out(context, values, m->pointers[TENSOR_INPUTS + output], m->bytes[TENSOR_INPUTS + output], &failure));
    return values;
}

static bool same_outputs(const memory *a, const memory *b) {
    bool same = true;
    for (int k = 0; k < TENSOR_OUTPUTS; k++) {
        float *left = read_output(a, k), *right = read_output(b, k);
        same = same && memcmp(left, right, a->bytes[TENSOR_INPUTS + k]) == 0;
        free(left);
        free(right);
    }
    return same;
}

static void poison(const memory *m, dev_stream stream) {
    for (size_t k = TENSOR_INPUTS; k < TENSOR_COUNT; k++)
        CHECK(dev_fill(context, m->pointers[k], 0xff, m->bytes[k], stream, &failure));
    CHECK(dev_fill(context, m->workspace, 0xa5, m->workspace_size, stream, &failure));
}

static void execute(const mlpbwd_plan *which, const memory *m, dev_stream stream) {
    if (mlpbwd_execute(which, &m->tensors, m->workspace, m->workspace_size, stream) != MLPBWD_OK)
        fail_msg("%s", mlpbwd_last_error());
}

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
        cmocka_unit_test(test_capture_and_replay),
        cmocka_unit_test(test_exhausted_pool),
        cmocka_unit_test(test_contexts),
        cmocka_unit_test(test_destroyed_while_running),
        cmocka_unit_test(test_fork),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
