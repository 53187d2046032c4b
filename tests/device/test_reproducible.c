/* 1000 runs of one plan give the same bits, also when two of them run at once on two streams with workspaces of their
 * own: for each class and number of tokens of the table the plan that the databases give on "cuda:0". Every run starts
 * from poisoned outputs; the device itself counts the words that differ from the first run's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "device/device.h"
#include "mlpbwd.h"
#include "plan_tensors.h"

enum { RUNS = 1000, STREAMS = 2, PATTERN = (1 << 22) + 13 /* words; no multiple of a row */, BLOCK = 256 };

static const struct {
    int accuracy;
    int64_t tokens;
} cases[] = {
    {MLPBWD_ACCURACY_TF32, 256},  {MLPBWD_ACCURACY_TF32, 512},  {MLPBWD_ACCURACY_TF32, 541},
    {MLPBWD_ACCURACY_TF32, 1024}, {MLPBWD_ACCURACY_TF32, 2164}, {MLPBWD_ACCURACY_TF32, 8192},
    {MLPBWD_ACCURACY_FP32, 256},  {MLPBWD_ACCURACY_FP32, 1024}, {MLPBWD_ACCURACY_FP32, 2164},
    {MLPBWD_ACCURACY_BF16, 256},  {MLPBWD_ACCURACY_BF16, 1024}, {MLPBWD_ACCURACY_BF16, 2164},
};

/* Adds to *count the number of i < n with a[i] != b[i]; words, one a thread. */
static const char differ_ptx[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry differ(.param .u64 a, .param .u64 b, .param .u64 count, .param .u32 n)\n"
    "{\n"
    "    .reg .pred %p, %q; .reg .u32 %i, %t, %c, %s, %n, %x, %y; .reg .u64 %a, %b, %k, %o;\n"
    "    ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %k, [count]; ld.param.u32 %n, [n];\n"
    "    mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %s, %ntid.x; mad.lo.u32 %i, %c, %s, %t;\n"
    "    setp.ge.u32 %p, %i, %n; @%p ret;\n"
    "    cvta.to.global.u64 %a, %a; cvta.to.global.u64 %b, %b; cvta.to.global.u64 %k, %k;\n"
    "    mul.wide.u32 %o, %i, 4; add.u64 %a, %a, %o; add.u64 %b, %b, %o;\n"
    "    ld.global.u32 %x, [%a]; ld.global.u32 %y, [%b]; setp.ne.u32 %q, %x, %y;\n"
    "    @%q red.global.add.u32 [%k], 1;\n"
    "    ret;\n"
    "}\n";

typedef struct bench_device {
    dev *device;
    dev_context *context;
    dev_module *module;
    dev_function *differ;
    mlpbwd_library *library;
    uint32_t *pattern;
} bench_device;

/* What one stream writes. */
typedef struct lane {
    void *outputs[TENSOR_COUNT]; /* from TENSOR_INPUTS on */
    void *workspace;
    dev_stream stream;
} lane;

static mlp_message failure;

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if (call)                                                                                                      \
            fail_msg("%s: %s", #call, failure.text);                                                                   \
    } while (0)

static int set_up(void **state) {
    static bench_device d;
    if (dev_open("cuda:0", &d.device, &failure)) {
        print_message("%s\n", failure.text);
        return 0;
    }
    CHECK(dev_context_get(d.device, &d.context, &failure));
    CHECK(dev_module_load(d.context, differ_ptx, strlen(differ_ptx), "ptx", &d.module, &failure));
    CHECK(dev_function_get(d.module, "differ", 0, &d.differ, NULL, &failure));
    if (mlpbwd_open(NULL, "cuda:0", &d.library))
        fail_msg("%s", mlpbwd_last_error());
    d.pattern = malloc(PATTERN * sizeof *d.pattern);
    assert_non_null(d.pattern);
    uint64_t random = 12345;
    for (size_t i = 0; i < PATTERN; i++) { /* sums of four uniform numbers: close to normal, variance 1/3 */
        float sum = -2;
        for (int k = 0; k < 4; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            sum += (float)(random >> 40) * 0x1p-24F;
        }
        memcpy(&d.pattern[i], &sum, sizeof sum);
    }
    *state = &d;
    return 0;
}

static int tear_down(void **state) {
    bench_device *d = *state;
    if (!d)
        return 0;
    free(d->pattern);
    mlpbwd_close(d->library);
    dev_module_unload(d->module);
    dev_context_release(d->context);
    dev_release(d->device);
    return 0;
}

static void *random_memory(const bench_device *d, size_t bytes) {
    void *memory = NULL;
    CHECK(dev_alloc(d->context, bytes, &memory, &failure));
    const size_t piece = PATTERN * sizeof *d->pattern;
    for (size_t at = 0; at < bytes; at += piece) {
        const size_t rest = bytes - at;
        CHECK(dev_copy_in(d->context, (char *)memory + at, d->pattern, rest < piece ? rest : piece, &failure));
    }
    return memory;
}

static void poison(const bench_device *d, const lane *l, const size_t *bytes) {
    for (size_t k = TENSOR_INPUTS; k < TENSOR_COUNT; k++)
        CHECK(dev_fill(d->context, l->outputs[k], 0xff, bytes[k], l->stream, &failure));
}

static void execute(const mlpbwd_plan *plan, void *const *inputs, const lane *l, size_t workspace_size) {
    void *pointers[TENSOR_COUNT];
    mlpbwd_tensors tensors;
    for (size_t k = 0; k < TENSOR_COUNT; k++)
        pointers[k] = k < TENSOR_INPUTS ? inputs[k] : l->outputs[k];
    memcpy(&tensors, pointers, sizeof tensors);
    if (mlpbwd_execute(plan, &tensors, l->workspace, workspace_size, l->stream) != MLPBWD_OK)
        fail_msg("%s", mlpbwd_last_error());
}

static void count_differences(const bench_device *d, const lane *l, const lane *wanted, const size_t *bytes,
                              void *counter) {
    for (size_t k = TENSOR_INPUTS; k < TENSOR_COUNT; k++) {
        void *a = l->outputs[k], *b = wanted->outputs[k];
        uint32_t n = (uint32_t)(bytes[k] / 4);
        void *arguments[] = {&a, &b, &counter, &n};
        const uint32_t grid[3] = {(n + BLOCK - 1) / BLOCK, 1, 1}, block[3] = {BLOCK, 1, 1};
        CHECK(dev_launch(d->differ, grid, block, 0, arguments, l->stream, &failure));
    }
}

/* Also says which plan it was. */
static size_t launches_of(const mlpbwd_plan *plan, char *pipeline, size_t capacity) {
    static char text[1 << 16];
    assert_int_equal(mlpbwd_plan_describe(plan, text, sizeof text, NULL), MLPBWD_OK);
    json_t *answer = json_loads(text, 0, NULL);
    assert_non_null(answer);
    (void)snprintf(pipeline, capacity, "%s", json_string_value(json_object_get(answer, "pipeline")));
    size_t count = json_array_size(json_object_get(answer, "launches"));
    json_decref(answer);
    return count;
}

static uint32_t run_case(const bench_device *d, const mlpbwd_problem *problem, const mlpbwd_plan *plan) {
    size_t bytes[TENSOR_COUNT], workspace_size = mlpbwd_plan_workspace_size(plan);
    void *inputs[TENSOR_INPUTS], *counter = NULL;
    lane lanes[STREAMS + 1]; /* the last holds the first run */
    const lane *wanted = &lanes[STREAMS];
    CHECK(plan_tensor_sizes(problem, bytes, &failure));
    for (size_t k = 0; k < TENSOR_INPUTS; k++)
        inputs[k] = random_memory(d, bytes[k]);
    for (int i = 0; i <= STREAMS; i++) {
        for (size_t k = TENSOR_INPUTS; k < TENSOR_COUNT; k++)
            CHECK(dev_alloc(d->context, bytes[k], &lanes[i].outputs[k], &failure));
        CHECK(dev_alloc(d->context, workspace_size, &lanes[i].workspace, &failure));
        CHECK(dev_stream_create(d->context, &lanes[i].stream, &failure));
        CHECK(dev_fill(d->context, lanes[i].workspace, 0xff - i, workspace_size, lanes[i].stream, &failure));
    }
    CHECK(dev_alloc(d->context, sizeof(uint32_t), &counter, &failure));
    CHECK(dev_fill(d->context, counter, 0, sizeof(uint32_t), NULL, &failure));
    poison(d, wanted, bytes);
    execute(plan, inputs, wanted, workspace_size);
    CHECK(dev_synchronize(d->context, &failure));
    for (int run = 1; run < RUNS; run++) {
        const lane *l = &lanes[run % STREAMS];
        poison(d, l, bytes);
        execute(plan, inputs, l, workspace_size);
        count_differences(d, l, wanted, bytes, counter);
    }
    uint32_t differing = 0;
    CHECK(dev_synchronize(d->context, &failure));
    CHECK(dev_copy_out(d->context, &differing, counter, sizeof differing, &failure));
    for (size_t k = 0; k < TENSOR_INPUTS; k++)
        dev_free(d->context, inputs[k]);
    for (int i = 0; i <= STREAMS; i++) {
        for (size_t k = TENSOR_INPUTS; k < TENSOR_COUNT; k++)
            dev_free(d->context, lanes[i].outputs[k]);
        dev_free(d->context, lanes[i].workspace);
        dev_stream_destroy(d->context, lanes[i].stream);
    }
    dev_free(d->context, counter);
    return differing;
}

static void test_same_bits(void **state) {
    const bench_device *d = *state;
    if (!d) {
        skip();
        return;
    }
    int failures = 0;
    size_t plans = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mlpbwd_problem problem = {.batch_size = 1,
                                        .seq_len = cases[i].tokens,
                                        .hidden_size = 2048,
                                        .intermediate_size = 8192,
                                        .accuracy = cases[i].accuracy};
        mlpbwd_plan *plan = NULL;
        char pipeline[64] = "";
        mlpbwd_status status = mlpbwd_plan_create(d->library, &problem, &plan);
        if (status == MLPBWD_UNSUPPORTED) { /* a build without a shipped database */
            print_message("class %d, T = %lld: %s\n", problem.accuracy, (long long)problem.seq_len,
                          mlpbwd_last_error());
            continue;
        }
        if (status != MLPBWD_OK)
            fail_msg("%s", mlpbwd_last_error());
        plans++;
        size_t launches = launches_of(plan, pipeline, sizeof pipeline);
        uint32_t differing = run_case(d, &problem, plan);
        failures += differing != 0;
        print_message("class %d, T = %lld, %s (%zu launches): %u words of %d runs differ from the first\n",
                      problem.accuracy, (long long)problem.seq_len, pipeline, launches, differing, RUNS - 1);
        mlpbwd_plan_destroy(plan);
    }
    if (plans == 0)
        skip();
    assert_int_equal(failures, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
