#include "reference64.h"

#include <math.h>
#include <stdlib.h>

#include "mlpbwd.h"

static const double root_2_over_pi = 0.79788456080286535588, cubic = 0.044715;

double reference64_gelu(double x, int activation) {
    if (activation == MLPBWD_GELU_ERF)
        return 0.5 * x * erfc(-x / sqrt(2.0));
    return 0.5 * x * (1.0 + tanh(root_2_over_pi * (x + cubic * x * x * x)));
}

double reference64_dgelu(double x, int activation) {
    if (activation == MLPBWD_GELU_ERF)
        return 0.5 * erfc(-x / sqrt(2.0)) + x * exp(-0.5 * x * x) / sqrt(2.0 * acos(-1.0));
    double u = root_2_over_pi * (x + cubic * x * x * x);
    double low = 1.0 / (1.0 + exp(-2.0 * u)),
           high = 1.0 / (1.0 + exp(2.0 * u)); /* (1 + tanh u) / 2, (1 - tanh u) / 2 */
    return low + 2.0 * x * (low * high) * root_2_over_pi * (1.0 + 3.0 * cubic * x * x);
}

const char *reference64_output_name(int output) {
    static const char *const names[OUT_COUNT] = {"grad_hidden_states", "grad_weight1", "grad_bias1", "grad_weight2",
                                                 "grad_bias2"};
    return names[output];
}

static double largest(const float *values, int64_t count) {
    double most = 0.0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(values[i]) && fabs((double)values[i]) > most)
            most = fabs((double)values[i]);
    return most;
}

static double largest64(const double *values, int64_t count) {
    double most = 0.0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(values[i]) && fabs(values[i]) > most)
            most = fabs(values[i]);
    return most;
}

/* c[m][n] = sum over k of a(m,k) * b[k][n]; a has the strides given, so that it can be read transposed. scale: the
 * same with squares of a_scale and b, and the root. */
static void product(double *c, double *scale, int64_t rows, int64_t columns, int64_t depth, const double *a,
                    const double *a_scale, int64_t row_stride, int64_t depth_stride, const float *b) {
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t k = 0; k < depth; k++) {
            int64_t at = i * row_stride + k * depth_stride;
            double factor = a[at], square = a_scale[at] * a_scale[at];
            for (int64_t j = 0; j < columns; j++) {
                double other = (double)b[k * columns + j];
                c[i * columns + j] += factor * other;
                scale[i * columns + j] += square * (other * other);
            }
        }
        for (int64_t j = 0; j < columns; j++)
            scale[i * columns + j] = sqrt(scale[i * columns + j]);
    }
}

static double *widen(const float *values, int64_t count) {
    double *wide = test_alloc(sizeof(double) * (size_t)count);
    for (int64_t i = 0; i < count; i++)
        wide[i] = (double)values[i];
    return wide;
}

static void column_sums(const double *values, const double *value_scale, int64_t rows, int64_t columns, double *sums,
                        double *scale, double *magnitudes) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            int64_t at = i * columns + j;
            sums[j] += values[at];
            scale[j] = sqrt(scale[j] * scale[j] + value_scale[at] * value_scale[at]);
            magnitudes[j] += fabs(values[at]);
        }
}

void reference64_make(reference64 *reference, const test_inputs *in, int activation) {
    int64_t t = in->sizes.tokens, h = in->sizes.hidden, i = in->sizes.intermediate;
    *reference = (reference64){
        .sizes = in->sizes, .activation = activation, .rows = {t, i, 1, h, 1}, .columns = {h, h, i, i, h}};
    double **out = reference->output, **scale = reference->scale, **magnitude = reference->magnitude;
    for (int k = 0; k < OUT_COUNT; k++) {
        size_t count = (size_t)(reference->rows[k] * reference->columns[k]);
        out[k] = test_alloc(sizeof(double) * count);
        scale[k] = test_alloc(sizeof(double) * count);
    }
    magnitude[OUT_GRAD_BIAS1] = test_alloc(sizeof(double) * (size_t)i);
    magnitude[OUT_GRAD_BIAS2] = test_alloc(sizeof(double) * (size_t)h);

    double *grad_output = widen(in->tensor[IN_GRAD_OUTPUT], t * h);
    double *gradient = test_alloc(sizeof(double) * (size_t)(t * i)); /* grad_intermediate */
    double *gradient_scale = test_alloc(sizeof(double) * (size_t)(t * i));
    product(gradient, gradient_scale, t, i, h, grad_output, grad_output, h, 1, in->tensor[IN_WEIGHT2]);
    for (int64_t n = 0; n < t * i; n++) {
        double slope = reference64_dgelu((double)in->tensor[IN_INTERMEDIATE][n], activation);
        gradient[n] *= slope;
        gradient_scale[n] *= fabs(slope);
    }

    product(out[OUT_GRAD_HIDDEN], scale[OUT_GRAD_HIDDEN], t, h, i, gradient, gradient_scale, i, 1,
            in->tensor[IN_WEIGHT1]);
    product(out[OUT_GRAD_WEIGHT1], scale[OUT_GRAD_WEIGHT1], i, h, t, gradient, gradient_scale, 1, i,
            in->tensor[IN_HIDDEN]);
    product(out[OUT_GRAD_WEIGHT2], scale[OUT_GRAD_WEIGHT2], h, i, t, grad_output, grad_output, 1, h,
            in->tensor[IN_ACTIVATED]);
    column_sums(gradient, gradient_scale, t, i, out[OUT_GRAD_BIAS1], scale[OUT_GRAD_BIAS1], magnitude[OUT_GRAD_BIAS1]);
    column_sums(grad_output, grad_output, t, h, out[OUT_GRAD_BIAS2], scale[OUT_GRAD_BIAS2], magnitude[OUT_GRAD_BIAS2]);

    double most = largest64(gradient, t * i);
    reference->product[OUT_GRAD_HIDDEN] = (double)i * most * largest(in->tensor[IN_WEIGHT1], i * h);
    reference->product[OUT_GRAD_WEIGHT1] = (double)t * most * largest(in->tensor[IN_HIDDEN], t * h);
    reference->product[OUT_GRAD_WEIGHT2] =
        (double)t * largest(in->tensor[IN_GRAD_OUTPUT], t * h) * largest(in->tensor[IN_ACTIVATED], t * i);
    free(grad_output);
    free(gradient);
    free(gradient_scale);
}

void reference64_free(reference64 *reference) {
    for (int k = 0; k < OUT_COUNT; k++) {
        free(reference->output[k]);
        free(reference->scale[k]);
        free(reference->magnitude[k]);
    }
    *reference = (reference64){0};
}
