/* What the programs about the public interface on a CUDA device share: a database with a pipeline that uses side
 * streams, its plan, and sets of device memory. The plan is made here from the templates, so NVRTC is needed; skipped
 * where that or a device is missing. */
#ifndef TESTS_API_CUDA_FIXTURE_H
#define TESTS_API_CUDA_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "db.h"
#include "device/cuda_api.h"
#include "device/device.h"
#include "generator.h"
#include "mlpbwd.h"
#include "plan_tensors.h"
#include "reference64.h"
#include "test_inputs.h"

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

/* ---- a database with the pipeline's machine code ---- */

/* Compiles every module once (several slots may share a source) and writes the code's hash into the stored plan. */
static inline void compile_modules(db *database, json_t *stored, const json_t *sources) {
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

static inline void put_pipeline(db *database, gen *generator, const char *pipeline, int accuracy) {
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

static inline void make_database(void) {
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

static inline int set_up(void **state) {
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

static inline int tear_down(void **state) {
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
static inline void memory_make(memory *m, const mlpbwd_plan *for_plan, const memory *from) {
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

static inline void memory_free(memory *m, const memory *from) {
    for (size_t k = from ? TENSOR_INPUTS : 0; k < TENSOR_COUNT; k++)
        dev_free(context, m->pointers[k]);
    dev_free(context, m->workspace);
}

/* Waits for the device. malloc'ed. */
static inline float *read_output(const memory *m, int output) {
    float *values = test_alloc(m->bytes[TENSOR_INPUTS + output]);
    CHECK(dev_synchronize(context, &failure));
    CHECK(
        dev_copy_out(context, values, m->pointers[TENSOR_INPUTS + output], m->bytes[TENSOR_INPUTS + output], &failure));
    return values;
}

static inline bool same_outputs(const memory *a, const memory *b) {
    bool same = true;
    for (int k = 0; k < TENSOR_OUTPUTS; k++) {
        float *left = read_output(a, k), *right = read_output(b, k);
        same = same && memcmp(left, right, a->bytes[TENSOR_INPUTS + k]) == 0;
        free(left);
        free(right);
    }
    return same;
}

static inline void poison(const memory *m, dev_stream stream) {
    for (size_t k = TENSOR_INPUTS; k < TENSOR_COUNT; k++)
        CHECK(dev_fill(context, m->pointers[k], 0xff, m->bytes[k], stream, &failure));
    CHECK(dev_fill(context, m->workspace, 0xa5, m->workspace_size, stream, &failure));
}

static inline void execute(const mlpbwd_plan *which, const memory *m, dev_stream stream) {
    if (mlpbwd_execute(which, &m->tensors, m->workspace, m->workspace_size, stream) != MLPBWD_OK)
        fail_msg("%s", mlpbwd_last_error());
}

#endif
