/* The rules of mlpbwd.h on the host device, with the small plan of support/tiny.c in a database of its own. */
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

#include "mlpbwd.h"
#include "tiny.h"

static char path[64];
static mlpbwd_library *library;

static const mlpbwd_problem small = {.batch_size = 7, .seq_len = 1, .hidden_size = 64, .intermediate_size = 128};

static int open_library(void **state) {
    (void)state;
    snprintf(path, sizeof path, "/tmp/mlpbwd-api-%ld.sqlite", (long)getpid());
    unlink(path);
    tiny_default_database(path, true, true);
    return mlpbwd_open(path, "host", &library) == MLPBWD_OK ? 0 : -1;
}

static int close_library(void **state) {
    (void)state;
    mlpbwd_close(library);
    return unlink(path);
}

static mlpbwd_plan *plan_for(const mlpbwd_problem *problem) {
    mlpbwd_plan *plan = NULL;
    if (mlpbwd_plan_create(library, problem, &plan) != MLPBWD_OK)
        fail_msg("%s", mlpbwd_last_error());
    assert_non_null(plan);
    assert_string_equal(mlpbwd_last_error(), "");
    return plan;
}

static void expect_execute(const mlpbwd_plan *plan, const mlpbwd_tensors *tensors, void *workspace, size_t size,
                           mlpbwd_status expected, const char *part) {
    mlpbwd_status status = mlpbwd_execute(plan, tensors, workspace, size, NULL);
    if (status != expected || !strstr(mlpbwd_last_error(), part))
        fail_msg("status %d (%s), \"%s\" lacks \"%s\"", (int)status, mlpbwd_status_string(status), mlpbwd_last_error(),
                 part);
    if (status == MLPBWD_OK)
        assert_string_equal(mlpbwd_last_error(), "");
}

/* ---- texts ---- */

static void test_texts(void **state) {
    (void)state;
    assert_string_equal(mlpbwd_version(), "0.1.0");
    for (int status = MLPBWD_OK; status <= MLPBWD_WORKSPACE_TOO_SMALL; status++) {
        assert_string_not_equal(mlpbwd_status_string((mlpbwd_status)status), "unknown status");
        for (int other = MLPBWD_OK; other < status; other++)
            assert_string_not_equal(mlpbwd_status_string((mlpbwd_status)status),
                                    mlpbwd_status_string((mlpbwd_status)other));
    }
    assert_string_equal(mlpbwd_status_string((mlpbwd_status)(MLPBWD_WORKSPACE_TOO_SMALL + 1)), "unknown status");
    assert_string_equal(mlpbwd_status_string((mlpbwd_status)-1), "unknown status");
    assert_string_equal(mlpbwd_library_device(library), "host");
}

static void test_null_handles(void **state) {
    (void)state;
    mlpbwd_plan *plan = (mlpbwd_plan *)&plan;
    mlpbwd_library *opened = NULL;
    char text[8];
    mlpbwd_close(NULL);
    mlpbwd_plan_destroy(NULL);
    assert_null(mlpbwd_library_device(NULL));
    assert_int_equal(mlpbwd_plan_workspace_size(NULL), 0);
    assert_int_equal(mlpbwd_open(path, "host", NULL), MLPBWD_INVALID_ARGUMENT);
    assert_int_equal(mlpbwd_plan_create(NULL, &small, &plan), MLPBWD_INVALID_ARGUMENT);
    assert_null(plan);
    assert_int_equal(mlpbwd_plan_create(library, NULL, &plan), MLPBWD_INVALID_ARGUMENT);
    assert_int_equal(mlpbwd_plan_create(library, &small, NULL), MLPBWD_INVALID_ARGUMENT);
    assert_non_null(strstr(mlpbwd_last_error(), "out"));
    assert_int_equal(mlpbwd_plan_describe(NULL, text, sizeof text, NULL), MLPBWD_INVALID_ARGUMENT);
    plan = plan_for(&small);
    mlpbwd_tensors tensors = {0};
    assert_int_equal(mlpbwd_execute(NULL, &tensors, NULL, 0, NULL), MLPBWD_INVALID_ARGUMENT);
    assert_int_equal(mlpbwd_execute(plan, NULL, NULL, 0, NULL), MLPBWD_INVALID_ARGUMENT);
    mlpbwd_plan_destroy(plan);
    opened = library;
    assert_int_equal(mlpbwd_open(path, "nothing", &opened), MLPBWD_NO_DEVICE);
    assert_null(opened);
    assert_int_equal(mlpbwd_open(path, "cuda:99", &opened), MLPBWD_NO_DEVICE);
    assert_string_not_equal(mlpbwd_last_error(), "");
}

/* ---- problems ---- */

static void expect_problem(mlpbwd_problem problem, mlpbwd_status expected, const char *part) {
    mlpbwd_plan *plan = (mlpbwd_plan *)&problem;
    mlpbwd_status status = mlpbwd_plan_create(library, &problem, &plan);
    if (status != expected || !strstr(mlpbwd_last_error(), part))
        fail_msg("status %d, \"%s\" lacks \"%s\"", (int)status, mlpbwd_last_error(), part);
    assert_null(plan);
}

static void test_invalid_problems(void **state) {
    (void)state;
    mlpbwd_problem p;
    expect_problem((p = small, p.batch_size = -1, p), MLPBWD_INVALID_ARGUMENT, "batch_size is -1");
    expect_problem((p = small, p.seq_len = -5, p), MLPBWD_INVALID_ARGUMENT, "seq_len is -5");
    expect_problem((p = small, p.hidden_size = 0, p), MLPBWD_INVALID_ARGUMENT, "hidden_size is 0");
    expect_problem((p = small, p.hidden_size = -64, p), MLPBWD_INVALID_ARGUMENT, "hidden_size");
    expect_problem((p = small, p.intermediate_size = 0, p), MLPBWD_INVALID_ARGUMENT, "intermediate_size is 0");
    expect_problem((p = small, p.activation = 2, p), MLPBWD_INVALID_ARGUMENT, "activation is 2");
    expect_problem((p = small, p.activation = -1, p), MLPBWD_INVALID_ARGUMENT, "activation");
    expect_problem((p = small, p.accuracy = 3, p), MLPBWD_INVALID_ARGUMENT, "accuracy is 3");
    expect_problem((p = small, p.accuracy = -1, p), MLPBWD_INVALID_ARGUMENT, "accuracy");
    expect_problem((p = small, p.flags = 8, p), MLPBWD_INVALID_ARGUMENT, "0x8");
    expect_problem((p = small, p.flags = 0x80000001U, p), MLPBWD_INVALID_ARGUMENT, "0x80000000");
    expect_problem((p = small, p.reserved = 1, p), MLPBWD_INVALID_ARGUMENT, "reserved is 1");
}

static void test_unsupported_problems(void **state) {
    (void)state;
    mlpbwd_problem p;
    expect_problem((p = small, p.hidden_size = 96, p), MLPBWD_UNSUPPORTED, "hidden_size is 96");
    expect_problem((p = small, p.intermediate_size = 65, p), MLPBWD_UNSUPPORTED, "intermediate_size is 65");
    expect_problem((p = small, p.batch_size = INT64_C(1) << 31, p), MLPBWD_UNSUPPORTED, "2147483648");
    expect_problem((p = small, p.batch_size = INT64_C(1) << 32, p.seq_len = INT64_C(1) << 32, p), MLPBWD_UNSUPPORTED,
                   "4294967296");
    expect_problem((p = small, p.batch_size = INT64_MAX, p.seq_len = 2, p), MLPBWD_UNSUPPORTED, "tokens");
    expect_problem((p = small, p.hidden_size = INT64_C(1) << 62, p), MLPBWD_UNSUPPORTED, "2^63");
    expect_problem((p = small, p.hidden_size = INT64_MAX / 64 * 64, p.batch_size = 0, p), MLPBWD_UNSUPPORTED, "2^63");
    /* The grid of a kernel does not fit: found out now, not at execute. */
    expect_problem((p = small, p.batch_size = INT32_MAX, p), MLPBWD_UNSUPPORTED, "grid");
    p = small;
    p.flags = MLPBWD_FLAG_NONDETERMINISTIC | MLPBWD_FLAG_ACCUMULATE | MLPBWD_FLAG_ALLOW_COMPILE;
    p.accuracy = MLPBWD_ACCURACY_BF16;
    p.activation = MLPBWD_GELU_ERF;
    mlpbwd_plan_destroy(plan_for(&p));
}

/* ---- execute ---- */

static void test_results(void **state) {
    (void)state;
    const int64_t tokens[] = {1, 2, 7, 63, 65};
    for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++)
        for (unsigned variant = 0; variant < 4; variant++) {
            mlpbwd_problem problem = small;
            problem.batch_size = tokens[t];
            problem.activation = variant & 1;
            problem.flags = variant & 2 ? MLPBWD_FLAG_ACCUMULATE : 0;
            mlpbwd_plan *plan = plan_for(&problem);
            size_t size = mlpbwd_plan_workspace_size(plan);
            void *workspace = tiny_aligned(size);
            tiny_case c;
            tiny_case_make(&c, &problem);
            tiny_case_fill(&c, 0.5F);
            expect_execute(plan, &c.tensors, workspace, size, MLPBWD_OK, "");
            for (int k = 0; k < 5; k++)
                assert_true(tiny_case_error(&c, k, problem.flags && k > 0 ? 0.5 : 0.0) < 1e-6);
            tiny_case_free(&c);
            free(workspace);
            mlpbwd_plan_destroy(plan);
        }
}

static void test_outputs_and_inputs_may_be_missing(void **state) {
    (void)state;
    mlpbwd_plan *plan = plan_for(&small);
    size_t size = mlpbwd_plan_workspace_size(plan);
    void *workspace = tiny_aligned(size);
    tiny_case c;
    tiny_case_make(&c, &small);
    mlpbwd_tensors tensors = c.tensors;
    tensors.bias1 = tensors.bias2 = NULL;
    expect_execute(plan, &tensors, workspace, size, MLPBWD_OK, "");
    tensors.hidden_states = NULL;
    expect_execute(plan, &tensors, workspace, size, MLPBWD_INVALID_ARGUMENT, "hidden_states is NULL");
    tensors.grad_weight1 = NULL;
    expect_execute(plan, &tensors, workspace, size, MLPBWD_OK, "");
    /* Only the bias of the second layer: nothing but grad_output is read. */
    tiny_case_fill(&c, 9.0F);
    tensors = (mlpbwd_tensors){.grad_output = c.tensors.grad_output, .grad_bias2 = c.tensors.grad_bias2};
    expect_execute(plan, &tensors, workspace, size, MLPBWD_OK, "");
    assert_true(tiny_case_error(&c, 4, 0) < 1e-6);
    assert_true(c.tensors.grad_weight2[0] == 9.0F);
    tensors.grad_output = NULL;
    expect_execute(plan, &tensors, workspace, size, MLPBWD_INVALID_ARGUMENT, "grad_output is NULL");
    /* No output at all: nothing to do, nothing needed. */
    tensors = (mlpbwd_tensors){0};
    expect_execute(plan, &tensors, NULL, 0, MLPBWD_OK, "");
    tiny_case_free(&c);
    free(workspace);
    mlpbwd_plan_destroy(plan);
}

static void test_alignment_and_workspace(void **state) {
    (void)state;
    mlpbwd_plan *plan = plan_for(&small);
    size_t size = mlpbwd_plan_workspace_size(plan);
    char *workspace = tiny_aligned(size + 256);
    tiny_case c;
    tiny_case_make(&c, &small);
    tiny_case_fill(&c, 9.0F);
    assert_true(size > 0);
    expect_execute(plan, &c.tensors, workspace, size - 1, MLPBWD_WORKSPACE_TOO_SMALL, "bytes");
    expect_execute(plan, &c.tensors, NULL, 0, MLPBWD_WORKSPACE_TOO_SMALL, "workspace_size is 0");
    expect_execute(plan, &c.tensors, NULL, size, MLPBWD_INVALID_ARGUMENT, "workspace is NULL");
    expect_execute(plan, &c.tensors, workspace + 128, size, MLPBWD_INVALID_ARGUMENT, "256");
    mlpbwd_tensors tensors = c.tensors;
    tensors.weight2 += 1;
    expect_execute(plan, &tensors, workspace, size, MLPBWD_INVALID_ARGUMENT, "weight2 is at");
    tensors = c.tensors;
    tensors.bias1 += 2; /* never read, and still a tensor */
    expect_execute(plan, &tensors, workspace, size, MLPBWD_INVALID_ARGUMENT, "bias1 is at");
    for (int k = 0; k < 5; k++)
        for (size_t e = 0; e < c.counts[8 + k]; e++)
            assert_true(tiny_output(&c, k)[e] == 9.0F);
    expect_execute(plan, &c.tensors, workspace, size + 256, MLPBWD_OK, "");
    tiny_case_free(&c);
    free(workspace);
    mlpbwd_plan_destroy(plan);
}

/* Every output against every tensor and the workspace, by one element at either end. */
static void test_overlap(void **state) {
    (void)state;
    mlpbwd_plan *plan = plan_for(&small);
    size_t size = mlpbwd_plan_workspace_size(plan);
    float *workspace = tiny_aligned(size);
    tiny_case c;
    tiny_case_make(&c, &small);
    for (size_t output = 8; output < 13; output++)
        for (size_t other = 0; other <= 13; other++)
            for (int end = 0; end <= 1; end++) {
                float *pointers[13];
                memcpy(pointers, &c.tensors, sizeof pointers);
                float *start = other < 13 ? pointers[other] : workspace;
                size_t count = other < 13 ? c.counts[other] : size / 4;
                if (other == output)
                    continue;
                /* Last 16 bytes of the other, or its first 16 bytes at this one's end. */
                pointers[output] = end ? start + count - 4 : start - c.counts[output] + 4;
                mlpbwd_tensors tensors;
                memcpy(&tensors, pointers, sizeof tensors);
                expect_execute(plan, &tensors, workspace, size, MLPBWD_INVALID_ARGUMENT, "overlaps");
            }
    /* Inputs may be one and the same, and lie in one another. */
    mlpbwd_tensors tensors = c.tensors;
    tensors.hidden_states = tensors.grad_output;
    tensors.intermediate = tensors.intermediate_activated;
    tensors.bias1 = tensors.weight1;
    expect_execute(plan, &tensors, workspace, size, MLPBWD_OK, "");
    /* The workspace is written, so no input may lie in it. */
    tensors = c.tensors;
    tensors.weight1 = workspace;
    expect_execute(plan, &tensors, workspace, size, MLPBWD_INVALID_ARGUMENT, "workspace overlaps weight1");
    tensors = c.tensors;
    tensors.grad_bias1 = (float *)(UINTPTR_MAX - 15);
    expect_execute(plan, &tensors, workspace, size, MLPBWD_INVALID_ARGUMENT, "grad_bias1");
    /* Neighbours that touch are apart. */
    tensors = c.tensors;
    float *both = tiny_aligned((c.counts[10] + c.counts[12]) * sizeof(float));
    tensors.grad_bias1 = both;
    tensors.grad_bias2 = both + c.counts[10];
    expect_execute(plan, &tensors, workspace, size, MLPBWD_OK, "");
    free(both);
    tiny_case_free(&c);
    free(workspace);
    mlpbwd_plan_destroy(plan);
}

static void test_host_has_no_streams(void **state) {
    (void)state;
    mlpbwd_plan *plan = plan_for(&small);
    size_t size = mlpbwd_plan_workspace_size(plan);
    void *workspace = tiny_aligned(size);
    tiny_case c;
    tiny_case_make(&c, &small);
    tiny_case_fill(&c, 9.0F);
    assert_int_equal(mlpbwd_execute(plan, &c.tensors, workspace, size, &c), MLPBWD_INVALID_ARGUMENT);
    for (int k = 0; k < 5; k++)
        assert_true(tiny_output(&c, k)[0] == 9.0F);
    /* Also where nothing would be launched: no output is wanted, or there are no tokens and gradients are added to. */
    const mlpbwd_tensors none = {0};
    expect_execute(plan, &none, workspace, size, MLPBWD_OK, "");
    assert_int_equal(mlpbwd_execute(plan, &none, workspace, size, &c), MLPBWD_INVALID_ARGUMENT);
    assert_non_null(strstr(mlpbwd_last_error(), "stream"));
    mlpbwd_plan_destroy(plan);
    mlpbwd_problem empty = small;
    empty.seq_len = 0;
    empty.flags = MLPBWD_FLAG_ACCUMULATE;
    plan = plan_for(&empty);
    assert_int_equal(mlpbwd_execute(plan, &c.tensors, NULL, 0, &c), MLPBWD_INVALID_ARGUMENT);
    tiny_case_free(&c);
    free(workspace);
    mlpbwd_plan_destroy(plan);
}

static void test_no_tokens(void **state) {
    (void)state;
    for (unsigned variant = 0; variant < 4; variant++) {
        mlpbwd_problem problem = small;
        problem.batch_size = variant & 1 ? 0 : 5;
        problem.seq_len = variant & 1 ? 5 : 0;
        problem.flags = variant & 2 ? MLPBWD_FLAG_ACCUMULATE : 0;
        mlpbwd_plan *plan = plan_for(&problem);
        tiny_case c;
        tiny_case_make(&c, &problem);
        tiny_case_fill(&c, 9.0F);
        assert_int_equal(mlpbwd_plan_workspace_size(plan), 0);
        mlpbwd_tensors tensors = {.grad_weight1 = c.tensors.grad_weight1,
                                  .grad_bias1 = c.tensors.grad_bias1,
                                  .grad_weight2 = c.tensors.grad_weight2,
                                  .grad_bias2 = c.tensors.grad_bias2};
        expect_execute(plan, &tensors, NULL, 0, MLPBWD_OK, "");
        for (int k = 1; k < 5; k++)
            for (size_t e = 0; e < c.counts[8 + k]; e++)
                assert_true(tiny_output(&c, k)[e] == (problem.flags ? 9.0F : 0.0F));
        /* Empty tensors overlap nothing, wherever they point. */
        tensors.grad_output = tensors.grad_weight1 + 4;
        tensors.grad_hidden_states = tensors.grad_weight2 + 8;
        expect_execute(plan, &tensors, NULL, 0, MLPBWD_OK, "");
        char text[2048];
        assert_int_equal(mlpbwd_plan_describe(plan, text, sizeof text, NULL), MLPBWD_OK);
        json_t *answer = json_loads(text, 0, NULL);
        assert_string_equal(json_string_value(json_object_get(answer, "match")), "default");
        assert_string_equal(json_string_value(json_object_get(answer, "pipeline")), "none");
        assert_int_equal(json_integer_value(json_object_get(answer, "tokens")), 0);
        assert_int_equal(json_array_size(json_object_get(answer, "launches")), 0);
        json_decref(answer);
        tiny_case_free(&c);
        mlpbwd_plan_destroy(plan);
    }
}

/* ---- plans ---- */

static void test_describe(void **state) {
    (void)state;
    mlpbwd_plan *plan = plan_for(&small);
    size_t needed = 0, again = 0;
    assert_int_equal(mlpbwd_plan_describe(plan, NULL, 0, &needed), MLPBWD_OK);
    assert_int_equal(mlpbwd_plan_describe(plan, NULL, 0, NULL), MLPBWD_OK);
    assert_true(needed > 100);
    char *text = malloc(needed);
    assert_non_null(text);
    memset(text, 'x', needed);
    assert_int_equal(mlpbwd_plan_describe(plan, text, needed - 1, &again), MLPBWD_INVALID_ARGUMENT);
    assert_int_equal(again, needed);
    assert_string_equal(text, "");
    assert_int_equal(mlpbwd_plan_describe(plan, NULL, 10, NULL), MLPBWD_INVALID_ARGUMENT);
    assert_int_equal(mlpbwd_plan_describe(plan, text, needed, &again), MLPBWD_OK);
    assert_int_equal(strlen(text) + 1, needed);
    json_t *answer = json_loads(text, 0, NULL);
    assert_non_null(answer);
    assert_int_equal(json_integer_value(json_object_get(answer, "tokens")), 7);
    assert_string_equal(json_string_value(json_object_get(answer, "device")), "host");
    assert_string_equal(json_string_value(json_object_get(answer, "match")), "default");
    assert_true(json_is_null(json_object_get(answer, "median_us")));
    assert_int_equal(json_integer_value(json_object_get(answer, "measured_tokens")), 0);
    assert_string_equal(json_string_value(json_object_get(answer, "database")), path);
    assert_string_equal(json_string_value(json_object_get(answer, "pipeline")), "tiny");
    assert_true(json_is_object(json_object_get(answer, "parameters")));
    assert_int_equal(json_array_size(json_object_get(answer, "launches")), 6);
    assert_int_equal(json_integer_value(json_object_get(answer, "workspace_bytes")), mlpbwd_plan_workspace_size(plan));
    json_decref(answer);
    free(text);
    mlpbwd_plan_destroy(plan);
}

static void test_a_plan_is_made_once(void **state) {
    (void)state;
    mlpbwd_problem other = small;
    other.activation = MLPBWD_GELU_ERF;
    mlpbwd_plan *first = plan_for(&small), *second = plan_for(&small), *third = plan_for(&other);
    assert_ptr_equal(first, second);
    assert_ptr_not_equal(first, third);
    mlpbwd_plan_destroy(first);
    assert_true(mlpbwd_plan_workspace_size(second) > 0);
    mlpbwd_plan_destroy(second);
    mlpbwd_plan_destroy(third);
    /* More problems than are kept ready: the oldest go. */
    for (int64_t batch = 1; batch <= 100; batch++) {
        other.batch_size = batch;
        mlpbwd_plan_destroy(plan_for(&other));
    }
}

static void test_a_plan_outlives_its_library(void **state) {
    (void)state;
    mlpbwd_library *own = NULL;
    mlpbwd_plan *plan = NULL;
    assert_int_equal(mlpbwd_open(path, "host", &own), MLPBWD_OK);
    assert_int_equal(mlpbwd_plan_create(own, &small, &plan), MLPBWD_OK);
    mlpbwd_close(own);
    size_t size = mlpbwd_plan_workspace_size(plan);
    void *workspace = tiny_aligned(size);
    tiny_case c;
    tiny_case_make(&c, &small);
    expect_execute(plan, &c.tensors, workspace, size, MLPBWD_OK, "");
    assert_true(tiny_case_error(&c, 1, 0) < 1e-6);
    tiny_case_free(&c);
    free(workspace);
    mlpbwd_plan_destroy(plan);
}

/* ---- messages ---- */

static void count_message(void *user, const char *message) {
    assert_null(strchr(message, '\n'));
    snprintf((char *)user + 1, 1023, "%s", message);
    ++*(char *)user;
}

static void test_log(void **state) {
    (void)state;
    char log[1024] = {0};
    mlpbwd_problem problem = small;
    problem.batch_size = 333;
    mlpbwd_set_log(count_message, log);
    mlpbwd_plan_destroy(plan_for(&problem));
    assert_int_equal(log[0], 1); /* a default answers: one line */
    assert_non_null(strstr(log + 1, "default"));
    assert_non_null(strstr(log + 1, "T = 333"));
    mlpbwd_plan_destroy(plan_for(&problem)); /* nothing new was decided */
    assert_int_equal(log[0], 1);
    mlpbwd_set_log(NULL, NULL);
    problem.batch_size = 334;
    mlpbwd_plan_destroy(plan_for(&problem));
    assert_int_equal(log[0], 1);
}

static void test_nothing_without_a_compiler(void **state) {
    (void)state;
    skip();
}

int main(void) {
    mlp_message why = {0};
    const dev_image *image = NULL;
    const struct CMUnitTest none[] = {cmocka_unit_test(test_nothing_without_a_compiler)};
    if (!tiny_compile(&image, &why)) {
        print_message("%s\n", why.text);
        return cmocka_run_group_tests(none, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_null_handles),
        cmocka_unit_test(test_invalid_problems),
        cmocka_unit_test(test_unsupported_problems),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_outputs_and_inputs_may_be_missing),
        cmocka_unit_test(test_alignment_and_workspace),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_host_has_no_streams),
        cmocka_unit_test(test_no_tokens),
        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_a_plan_is_made_once),
        cmocka_unit_test(test_a_plan_outlives_its_library),
        cmocka_unit_test(test_log),
    };
    return cmocka_run_group_tests(tests, open_library, close_library);
}
