#include "test_inputs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void *test_alloc(size_t size) {
    void *memory = calloc(size ? size : 1, 1);
    if (!memory) {
        (void)fprintf(stderr, "The test needs %zu more bytes of memory.\n", size);
        abort();
    }
    return memory;
}

uint64_t test_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

double test_normal(uint64_t *state) { /* Box and Muller; one of the pair is enough here */
    double u = ((double)(test_random(state) >> 11) + 1.0) * 0x1p-53;
    double v = (double)(test_random(state) >> 11) * 0x1p-53;
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

const char *test_input_name(test_input_kind kind) {
    static const char *const names[INPUT_KINDS] = {
        [INPUT_NORMAL] = "normal",
        [INPUT_POSITIVE] = "all positive",
        [INPUT_TINY_GRADIENT] = "gradients of 1e-8",
        [INPUT_LARGE_ACTIVATION] = "activations of 1e5",
        [INPUT_OUTLIERS] = "outliers of 1e6",
        [INPUT_TAIL] = "tails of gelu'",
        [INPUT_ZERO_ROWS] = "zero rows and columns",
        [INPUT_ZERO_GRADIENT] = "zero grad_output",
        [INPUT_ZERO_WEIGHT] = "zero weight2",
        [INPUT_INFINITE_TOKEN] = "Inf and NaN in a token of grad_output",
        [INPUT_INFINITE_ACTIVATION] = "Inf and NaN in the activations",
        [INPUT_INFINITE_INTERMEDIATE] = "Inf, NaN and huge values in intermediate",
        [INPUT_INFINITE_WEIGHT] = "Inf in the weights",
    };
    return (unsigned)kind < INPUT_KINDS ? names[kind] : "unknown";
}

static void scale(test_inputs *in, int tensor, double factor) {
    for (int64_t i = 0; i < in->count[tensor]; i++)
        in->tensor[tensor][i] = (float)(in->tensor[tensor][i] * factor);
}

static void zero_row(float *matrix, int64_t columns, int64_t row) {
    for (int64_t j = 0; j < columns; j++)
        matrix[row * columns + j] = 0.0F;
}

static void zero_column(float *matrix, int64_t rows, int64_t columns, int64_t column) {
    for (int64_t i = 0; i < rows; i++)
        matrix[i * columns + column] = 0.0F;
}

static void zero_rows(test_inputs *in) {
    int64_t t = in->sizes.tokens, h = in->sizes.hidden, i = in->sizes.intermediate;
    if (t > 0) {
        zero_row(in->tensor[IN_GRAD_OUTPUT], h, t / 2);
        zero_row(in->tensor[IN_HIDDEN], h, t - 1);
    }
    zero_column(in->tensor[IN_GRAD_OUTPUT], t, h, 5);
    zero_column(in->tensor[IN_HIDDEN], t, h, h - 1);
    zero_column(in->tensor[IN_ACTIVATED], t, i, i / 3);
    zero_column(in->tensor[IN_WEIGHT2], h, i, 7);
    zero_column(in->tensor[IN_WEIGHT1], i, h, h / 2);
}

static void outliers(test_inputs *in, uint64_t *state) {
    static const int tensors[] = {IN_GRAD_OUTPUT, IN_HIDDEN, IN_INTERMEDIATE, IN_ACTIVATED};
    for (size_t k = 0; k < sizeof tensors / sizeof *tensors; k++)
        for (int n = 0; n < 3 && in->count[tensors[k]] > 0; n++)
            in->tensor[tensors[k]][test_random(state) % (uint64_t)in->count[tensors[k]]] = n == 1 ? -1e6F : 1e6F;
}

static void place(test_inputs *in, int tensor, int64_t index, float value) {
    if (index < in->count[tensor])
        in->tensor[tensor][index] = value;
}

static void shape(test_inputs *in, uint64_t *state) {
    int64_t h = in->sizes.hidden, i = in->sizes.intermediate, middle = in->sizes.tokens / 2;
    switch (in->kind) {
    case INPUT_POSITIVE:
        for (int k = 0; k < IN_COUNT; k++)
            for (int64_t n = 0; n < in->count[k]; n++)
                in->tensor[k][n] = fabsf(in->tensor[k][n]);
        break;
    case INPUT_TINY_GRADIENT:
        scale(in, IN_GRAD_OUTPUT, 1e-8);
        break;
    case INPUT_LARGE_ACTIVATION:
        scale(in, IN_HIDDEN, 1e5);
        scale(in, IN_INTERMEDIATE, 1e5);
        scale(in, IN_ACTIVATED, 1e5);
        break;
    case INPUT_OUTLIERS:
        outliers(in, state);
        break;
    case INPUT_TAIL: /* row by row -2, -3.5, -5 and a positive row */
        for (int64_t n = 0; n < in->count[IN_INTERMEDIATE]; n++) {
            int64_t row = n / i % 4;
            in->tensor[IN_INTERMEDIATE][n] += row == 3 ? 4.0F : -2.0F - 1.5F * (float)row;
        }
        break;
    case INPUT_ZERO_ROWS:
        zero_rows(in);
        break;
    case INPUT_ZERO_GRADIENT:
        scale(in, IN_GRAD_OUTPUT, 0.0);
        break;
    case INPUT_ZERO_WEIGHT:
        scale(in, IN_WEIGHT2, 0.0);
        break;
    case INPUT_INFINITE_TOKEN:
        place(in, IN_GRAD_OUTPUT, middle * h + 3, INFINITY);
        place(in, IN_GRAD_OUTPUT, middle * h + h - 1, NAN);
        break;
    case INPUT_INFINITE_ACTIVATION:
        place(in, IN_HIDDEN, middle * h + 9, -INFINITY);
        place(in, IN_HIDDEN, 17, NAN);
        place(in, IN_ACTIVATED, middle * i + 2, INFINITY);
        place(in, IN_ACTIVATED, i - 1, NAN);
        break;
    case INPUT_INFINITE_INTERMEDIATE: /* one token each, so that other rows of grad_hidden_states stay finite */
        place(in, IN_INTERMEDIATE, 4, INFINITY);
        place(in, IN_INTERMEDIATE, middle * i + 11, -INFINITY);
        place(in, IN_INTERMEDIATE, middle * i + 30, NAN);
        place(in, IN_INTERMEDIATE, (middle + 1) * i + 20, 3e38F);
        place(in, IN_INTERMEDIATE, (middle + 1) * i + 21, -3e38F);
        break;
    case INPUT_INFINITE_WEIGHT:
        place(in, IN_WEIGHT1, 3 * h + 6, INFINITY);
        place(in, IN_WEIGHT2, 5 * i + 40, -INFINITY);
        break;
    default:
        break;
    }
}

void test_inputs_make(test_inputs *inputs, test_sizes sizes, test_input_kind kind, uint64_t seed) {
    int64_t th = sizes.tokens * sizes.hidden, ti = sizes.tokens * sizes.intermediate;
    int64_t hi = sizes.hidden * sizes.intermediate;
    const int64_t count[IN_COUNT] = {th, th, hi, hi, ti, ti};
    *inputs = (test_inputs){.sizes = sizes, .kind = kind};
    uint64_t state = seed * 1000003 + (uint64_t)kind;
    for (int k = 0; k < IN_COUNT; k++) {
        inputs->count[k] = count[k];
        inputs->tensor[k] = test_alloc(sizeof(float) * (size_t)count[k]);
        double factor = k == IN_WEIGHT1   ? 1.0 / sqrt((double)sizes.hidden)
                        : k == IN_WEIGHT2 ? 1.0 / sqrt((double)sizes.intermediate)
                                          : 1.0;
        for (int64_t n = 0; n < count[k]; n++)
            inputs->tensor[k][n] = (float)(test_normal(&state) * factor);
    }
    shape(inputs, &state);
}

void test_inputs_free(test_inputs *inputs) {
    for (int k = 0; k < IN_COUNT; k++)
        free(inputs->tensor[k]);
    *inputs = (test_inputs){0};
}
