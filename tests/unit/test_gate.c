/* The gate against stand-ins for kernels: right ones pass, and each way of being wrong is refused with its message.
 * What is right comes from the tests' own float64 reference, never from the gate's. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gate.h"
#include "reference64.h"

typedef struct bench {
    dev *device;
    dev_context *context;
    inputs in;
    reference expected; /* the gate's */
    reference64 right;  /* the tests' */
    gate_arena *arena;
    void *workspace;
} bench;

enum { WORKSPACE = 1000 };

static void require(mlpbwd_status status, const mlp_message *why) {
    if (status != MLPBWD_OK)
        fail_msg("%s: %s", mlpbwd_status_string(status), why->text);
}

static void bench_open(bench *b, const tensor_sizes *sizes, int activation, int64_t samples) {
    static const int tensor_of[IN_COUNT] = {0, 1, 2, 4, 6, 7};
    mlp_message why = {""};
    memset(b, 0, sizeof *b);
    require(dev_open("host", &b->device, &why), &why);
    require(dev_context_get(b->device, &b->context, &why), &why);
    require(inputs_create(sizes, 5, &b->in, &why), &why);
    require(reference_create(&b->in, activation, samples, 9, &b->expected, &why), &why);
    test_inputs same = {.sizes = {sizes->tokens, sizes->hidden_size, sizes->intermediate_size}, .kind = INPUT_NORMAL};
    for (int i = 0; i < IN_COUNT; i++) {
        same.tensor[i] = b->in.tensor[tensor_of[i]];
        same.count[i] = tensor_rows(tensor_of[i], sizes) * tensor_columns(tensor_of[i], sizes);
    }
    reference64_make(&b->right, &same, activation);
    require(gate_arena_create(b->context, &b->in, &b->arena, &why), &why);
    require(gate_arena_workspace(b->arena, WORKSPACE, &b->workspace, &why), &why);
}

static void bench_close(bench *b) {
    gate_arena_free(b->arena);
    reference64_free(&b->right);
    reference_free(&b->expected);
    inputs_free(&b->in);
    dev_context_release(b->context);
    dev_release(b->device);
}

static size_t elements(const bench *b, int output) {
    return (size_t)(tensor_rows(TENSOR_INPUTS + output, &b->in.sizes) *
                    tensor_columns(TENSOR_INPUTS + output, &b->in.sizes));
}

/* Device memory of "host" can be written from here: the outputs in the order of mlpbwd_tensors. */
static void outputs_of(const bench *b, float *outputs[TENSOR_OUTPUTS]) {
    const mlpbwd_tensors *t = gate_arena_tensors(b->arena);
    outputs[0] = t->grad_hidden_states;
    outputs[1] = t->grad_weight1;
    outputs[2] = t->grad_bias1;
    outputs[3] = t->grad_weight2;
    outputs[4] = t->grad_bias2;
}

/* A right kernel: float64 rounded, with a relative error of +-noise in every element but those of grad_bias2. */
static void write_right(const bench *b, double noise, const float *const *initial) {
    float *outputs[TENSOR_OUTPUTS];
    outputs_of(b, outputs);
    uint64_t state = 17;
    for (int o = 0; o < TENSOR_OUTPUTS; o++)
        for (size_t i = 0; i < elements(b, o); i++) {
            double error = o == 4 ? 0 : test_random(&state) & 1 ? noise : -noise;
            double start = initial && initial[o] ? (double)initial[o][i] : 0;
            outputs[o][i] = (float)(start + b->right.output[o][i] * (1 + error));
        }
}

static void prepare(const bench *b, const float *const *initial) {
    mlp_message why = {""};
    require(gate_arena_prepare(b->arena, initial, &why), &why);
}

static gate_errors verdict(const bench *b, int accuracy, const float *const *initial) {
    gate_errors errors;
    mlp_message why = {""};
    require(gate_check(b->arena, &b->expected, accuracy, true, initial, &errors, &why), &why);
    return errors;
}

static void assert_passes(const gate_errors *errors) {
    if (errors->failed)
        fail_msg("refused: %s", errors->failed_text);
}

/* failed is copied with the structure it points into, so the text is what counts. */
static void assert_refused(const gate_errors *errors, const char *part) {
    if (!errors->failed)
        fail_msg("accepted, though it should be refused with \"%s\"", part);
    if (!strstr(errors->failed_text, part))
        fail_msg("refused with \"%s\", expected \"%s\"", errors->failed_text, part);
}

static const tensor_sizes small = {77, 192, 320}, middle = {300, 256, 512};

static void right_results_pass(void **state) {
    (void)state;
    static const struct {
        tensor_sizes sizes;
        int64_t samples;
    } cases[] = {{{77, 192, 320}, 0}, {{1, 192, 320}, 0}, {{2, 64, 64}, 0}, {{300, 256, 512}, 16}, {{31, 128, 64}, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int activation = 0; activation < 2; activation++) {
            bench b;
            bench_open(&b, &cases[i].sizes, activation, cases[i].samples);
            prepare(&b, NULL);
            write_right(&b, 0, NULL);
            gate_errors errors = verdict(&b, MLPBWD_ACCURACY_FP32, NULL);
            assert_passes(&errors);
            assert_true(errors.frobenius[0] > 0 && errors.frobenius[0] < 1e-7);
            bench_close(&b);
        }
}

static void each_class_has_its_limit(void **state) {
    (void)state;
    static const double within[3] = {3.6e-4, 1.8e-6, 3.6e-3}, beyond[3] = {6e-4, 3e-6, 6e-3};
    bench b;
    bench_open(&b, &middle, MLPBWD_GELU_TANH, 32);
    for (int accuracy = 0; accuracy < 3; accuracy++) {
        prepare(&b, NULL);
        write_right(&b, within[accuracy], NULL);
        gate_errors errors = verdict(&b, accuracy, NULL);
        assert_passes(&errors);
        assert_in_range((int)(errors.frobenius[1] / within[accuracy] * 100), 95, 105);
        prepare(&b, NULL);
        write_right(&b, beyond[accuracy], NULL);
        errors = verdict(&b, accuracy, NULL);
        assert_refused(&errors, "has relative error");
    }
    bench_close(&b);
}

static void accumulation_is_subtracted(void **state) {
    (void)state;
    bench b;
    bench_open(&b, &small, MLPBWD_GELU_TANH, 0);
    float *initial[TENSOR_OUTPUTS] = {NULL};
    for (int o = 1; o < TENSOR_OUTPUTS; o++) {
        initial[o] = test_alloc(elements(&b, o) * sizeof(float));
        inputs_normal(initial[o], elements(&b, o), 1, 40 + (uint64_t)o);
    }
    prepare(&b, (const float *const *)initial);
    write_right(&b, 0, (const float *const *)initial);
    gate_errors errors = verdict(&b, MLPBWD_ACCURACY_FP32, (const float *const *)initial);
    assert_passes(&errors);
    prepare(&b, (const float *const *)initial);
    write_right(&b, 0, NULL); /* overwrites instead of adding */
    errors = verdict(&b, MLPBWD_ACCURACY_FP32, (const float *const *)initial);
    assert_refused(&errors, "grad_weight1");
    for (int o = 1; o < TENSOR_OUTPUTS; o++)
        free(initial[o]);
    bench_close(&b);
}

/* ---- negative controls: each changes what a right kernel wrote ---- */

static void skip_last_tile(float *output, int64_t rows, int64_t columns) {
    for (int64_t r = (rows - 1) / 64 * 64; r < rows; r++)
        for (int64_t c = (columns - 1) / 64 * 64; c < columns; c++)
            memset(&output[r * columns + c], 0xff, sizeof(float)); /* as the poison was */
}

static void run_control(int64_t samples, const tensor_sizes *sizes, void (*break_it)(const bench *b, float **outputs),
                        const char *message) {
    bench b;
    bench_open(&b, sizes, MLPBWD_GELU_TANH, samples);
    float *outputs[TENSOR_OUTPUTS];
    outputs_of(&b, outputs);
    for (int accuracy = 0; accuracy < 3; accuracy++) {
        prepare(&b, NULL);
        write_right(&b, 0, NULL);
        break_it(&b, outputs);
        gate_errors errors = verdict(&b, accuracy, NULL);
        assert_refused(&errors, message);
        /* and the next candidate is not blamed for it */
        prepare(&b, NULL);
        write_right(&b, 0, NULL);
        errors = verdict(&b, accuracy, NULL);
        assert_passes(&errors);
    }
    bench_close(&b);
}

static void control(void (*break_it)(const bench *b, float **outputs), const char *message) {
    run_control(0, &small, break_it, message);
    run_control(16, &middle, break_it, message);
}

static void undo_everything(const bench *b, float **outputs) {
    for (int o = 0; o < TENSOR_OUTPUTS; o++)
        memset(outputs[o], 0xff, elements(b, o) * sizeof(float));
}

static void writes_nothing(void **state) {
    (void)state;
    control(undo_everything, "grad_hidden_states[0,0] is");
}

static void unwrite_tile_of_weight1(const bench *b, float **outputs) {
    skip_last_tile(outputs[1], b->in.sizes.intermediate_size, b->in.sizes.hidden_size);
}

static void unwrite_tile_of_weight2(const bench *b, float **outputs) {
    skip_last_tile(outputs[3], b->in.sizes.hidden_size, b->in.sizes.intermediate_size);
}

static void unwrite_tile_of_hidden(const bench *b, float **outputs) {
    skip_last_tile(outputs[0], b->in.sizes.tokens, b->in.sizes.hidden_size);
}

static void skips_the_last_tile(void **state) {
    (void)state;
    control(unwrite_tile_of_hidden, "grad_hidden_states[");
    control(unwrite_tile_of_weight1, "grad_weight1[");
    control(unwrite_tile_of_weight2, "grad_weight2[");
}

/* grad_weight2 without the last eight tokens. */
static void drop_slice_of_weight2(const bench *b, float **outputs) {
    int64_t H = b->in.sizes.hidden_size, I = b->in.sizes.intermediate_size, T = b->in.sizes.tokens;
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 0; i < I; i++)
            for (int64_t t = T - 8; t < T; t++)
                outputs[3][h * I + i] -= b->in.tensor[0][t * H + h] * b->in.tensor[7][t * I + i];
}

/* grad_bias2 without the last token. */
static void drop_token_of_bias2(const bench *b, float **outputs) {
    int64_t H = b->in.sizes.hidden_size;
    for (int64_t h = 0; h < H; h++)
        outputs[4][h] -= b->in.tensor[0][(b->in.sizes.tokens - 1) * H + h];
}

static void drops_one_slice(void **state) {
    (void)state;
    control(drop_slice_of_weight2, "grad_weight2 has relative error");
    control(drop_token_of_bias2, "grad_bias2[");
}

/* By a tenth of the tensor's root mean square or so, in the last element: a complete reference, or a sampled row. */
static void change_last_of_hidden(const bench *b, float **outputs) {
    outputs[0][elements(b, 0) - 1] += 0.2F;
}

static void change_one_of_weight1(const bench *b, float **outputs) {
    outputs[1][(b->in.sizes.intermediate_size - 1) * b->in.sizes.hidden_size + 70] += 2;
}

static void change_one_of_bias1(const bench *b, float **outputs) {
    outputs[2][b->in.sizes.intermediate_size - 1] += 2;
}

static void change_one_of_weight2(const bench *b, float **outputs) {
    (void)b;
    outputs[3][130] += 3;
}

static void change_one_of_bias2(const bench *b, float **outputs) {
    (void)b;
    outputs[4][33] += 0.01F;
}

static void is_off_in_one_element(void **state) {
    (void)state;
    control(change_last_of_hidden, "grad_hidden_states");
    control(change_one_of_weight1, "grad_weight1");
    control(change_one_of_bias1, "grad_bias1");
    control(change_one_of_weight2, "grad_weight2");
    control(change_one_of_bias2, "grad_bias2[33,0] is off by 0.01");
}

static void write_behind_weight2(const bench *b, float **outputs) {
    outputs[3][elements(b, 3)] = 0;
}

static void write_before_bias1(const bench *b, float **outputs) {
    (void)b;
    outputs[2][-1] = 0;
}

static void write_behind_workspace(const bench *b, float **outputs) {
    (void)outputs;
    ((unsigned char *)b->workspace)[WORKSPACE] = 0;
}

static void write_behind_input(const bench *b, float **outputs) {
    (void)outputs;
    const float *input = gate_arena_tensors(b->arena)->weight1;
    ((float *)(uintptr_t)input)[b->in.sizes.intermediate_size * b->in.sizes.hidden_size + 3] = 0;
}

static void writes_outside(void **state) {
    (void)state;
    control(write_behind_weight2, "memory was written beyond the end of grad_weight2, distance in bytes: 0");
    control(write_before_bias1, "memory was written before the start of grad_bias1, distance in bytes: 1");
    control(write_behind_workspace, "memory was written beyond the end of workspace");
    control(write_behind_input, "memory was written beyond the end of weight1, distance in bytes: 12");
}

static void change_input(const bench *b, float **outputs) {
    (void)outputs;
    const float *input = gate_arena_tensors(b->arena)->intermediate;
    ((float *)(uintptr_t)input)[5] += 1;
}

static void modifies_an_input(void **state) {
    (void)state;
    control(change_input, "a kernel wrote into the input intermediate, first at element 5");
}

/* ---- the limits' edges ---- */

static void zero_stays_zero(void **state) {
    (void)state;
    tensor_sizes sizes = {64, 64, 64};
    inputs in;
    reference expected;
    mlp_message why = {""};
    require(inputs_create(&sizes, 3, &in, &why), &why);
    for (int64_t t = 0; t < 64; t++)
        in.tensor[0][t * 64 + 7] = 0; /* grad_weight2's row 7 has a factor of zeros */
    require(reference_create(&in, 0, 0, 1, &expected, &why), &why);
    float *weight2 = test_alloc(sizeof(float) * 64 * 64);
    const float *outputs[TENSOR_OUTPUTS] = {NULL, NULL, NULL, weight2, NULL};
    for (int i = 0; i < 64 * 64; i++)
        weight2[i] = (float)expected.part[3].values[i];
    gate_errors errors;
    gate_compare(&expected, MLPBWD_ACCURACY_BF16, outputs, NULL, &errors);
    assert_passes(&errors);
    weight2[451] = 1e-30F;
    gate_compare(&expected, MLPBWD_ACCURACY_BF16, outputs, NULL, &errors);
    assert_refused(&errors, "row 7 is not zero");
    free(weight2);
    reference_free(&expected);
    inputs_free(&in);
}

static void not_finite_where_float64_is_not(void **state) {
    (void)state;
    tensor_sizes sizes = {64, 64, 64};
    inputs in;
    reference expected;
    mlp_message why = {""};
    require(inputs_create(&sizes, 3, &in, &why), &why);
    in.tensor[0][320] = INFINITY; /* token 5 */
    require(reference_create(&in, 0, 0, 1, &expected, &why), &why);
    float *hidden = test_alloc(sizeof(float) * 64 * 64);
    const float *outputs[TENSOR_OUTPUTS] = {hidden, NULL, NULL, NULL, NULL};
    for (int i = 0; i < 64 * 64; i++)
        hidden[i] = (float)expected.part[0].values[i];
    gate_errors errors;
    gate_compare(&expected, MLPBWD_ACCURACY_TF32, outputs, NULL, &errors);
    assert_passes(&errors);
    hidden[321] = 1;
    gate_compare(&expected, MLPBWD_ACCURACY_TF32, outputs, NULL, &errors);
    assert_refused(&errors, "grad_hidden_states[5,1] is 1, expected a value that is not finite");
    hidden[321] = -INFINITY;
    hidden[385] = NAN;
    gate_compare(&expected, MLPBWD_ACCURACY_TF32, outputs, NULL, &errors);
    assert_refused(&errors, "grad_hidden_states[6,1] is");
    free(hidden);
    reference_free(&expected);
    inputs_free(&in);
}

/* What one worker computed serves the next as if that had computed it. */
static void results_are_handed_on(void **state) {
    (void)state;
    tensor_sizes sizes = {77, 128, 192}, others = {78, 128, 192};
    for (int64_t samples = 0; samples <= 16; samples += 16) {
        inputs in, other;
        reference computed, restored;
        size_t size = 0;
        mlp_message why = {""};
        require(inputs_create(&sizes, 3, &in, &why), &why);
        require(inputs_create(&others, 3, &other, &why), &why);
        require(reference_create(&in, 1, samples, 7, &computed, &why), &why);
        void *results = reference_results(&computed, &size);
        assert_non_null(results);
        require(reference_restore(&in, 1, samples, 7, results, size, &restored, &why), &why);
        assert_memory_equal(restored.magnitude, computed.magnitude, sizeof computed.magnitude);
        assert_true(restored.finite == computed.finite && restored.complete == computed.complete);
        for (int p = 0; p < REFERENCE_PARTS; p++) {
            const reference_part *a = &computed.part[p], *b = &restored.part[p];
            size_t values = (size_t)(a->count * a->length) * sizeof(double);
            assert_true(a->count == b->count && a->length == b->length && a->output == b->output);
            assert_memory_equal(a->index, b->index, (size_t)a->count * sizeof *a->index);
            assert_memory_equal(a->values, b->values, values);
            if (a->absolute)
                assert_memory_equal(a->absolute, b->absolute, values);
        }
        reference_free(&restored);
        assert_int_equal(reference_restore(&other, 1, samples, 7, results, size, &restored, &why),
                         MLPBWD_INVALID_ARGUMENT);
        assert_int_equal(reference_restore(&in, 0, samples, 7, results, size, &restored, &why),
                         MLPBWD_INVALID_ARGUMENT);
        free(results);
        reference_free(&computed);
        inputs_free(&in);
        inputs_free(&other);
    }
}

static void errors_become_json(void **state) {
    (void)state;
    gate_errors errors = {.frobenius = {1e-4, NAN, 0, 0, 0}};
    json_t *json = gate_errors_json(&errors);
    assert_true(json_number_value(json_object_get(json_object_get(json, "grad_hidden_states"), "frobenius")) == 1e-4);
    assert_true(json_is_null(json_object_get(json_object_get(json, "grad_weight1"), "frobenius")));
    json_decref(json);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(right_results_pass),
                                       cmocka_unit_test(each_class_has_its_limit),
                                       cmocka_unit_test(accumulation_is_subtracted),
                                       cmocka_unit_test(writes_nothing),
                                       cmocka_unit_test(skips_the_last_tile),
                                       cmocka_unit_test(drops_one_slice),
                                       cmocka_unit_test(is_off_in_one_element),
                                       cmocka_unit_test(writes_outside),
                                       cmocka_unit_test(modifies_an_input),
                                       cmocka_unit_test(zero_stays_zero),
                                       cmocka_unit_test(not_finite_where_float64_is_not),
                                       cmocka_unit_test(results_are_handed_on),
                                       cmocka_unit_test(errors_become_json)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
