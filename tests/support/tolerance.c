#include "tolerance.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "mlpbwd.h"

double tolerance_frobenius(int accuracy, int output) {
    static const double table[3][OUT_COUNT] = {
        [MLPBWD_ACCURACY_TF32] = {5.5e-4, 5.5e-4, 3.8e-4, 3.8e-4, 0.0},
        [MLPBWD_ACCURACY_FP32] = {2e-6, 2e-6, 2e-6, 2e-6, 0.0},
        [MLPBWD_ACCURACY_BF16] = {5.3e-3, 5.3e-3, 3.8e-3, 3.8e-3, 0.0},
    };
    return table[accuracy][output];
}

static const double bias_bound = 0x1p-20, wide_bound = 0x1p-38, row_factor = 3.0;

/* Squares of one row's, one column's or the whole output's errors, values and allowed absolute errors. */
typedef struct norms {
    double error, value, scale, allowed, extra; /* allowed: also the absolute term; extra: without it */
} norms;

typedef struct comparison {
    const reference64 *reference;
    int accuracy, output;
    const float *values, *old;
    tolerance_errors errors;
    char *sentence;
    size_t capacity;
} comparison;

static bool beyond_float(double value) {
    return !isfinite(value) || fabs(value) > (double)FLT_MAX;
}

static int complain(const comparison *c, int64_t index, const char *what, double value, double limit) {
    int64_t columns = c->reference->columns[c->output];
    return snprintf(c->sentence, c->capacity, "%s: %s at [%lld,%lld] is %.9g; right would be %.9g.",
                    reference64_output_name(c->output), what, (long long)(index / columns),
                    (long long)(index % columns), value, limit);
}

/* Finite where it has to be, zero where it has to be, and grad_bias2's bound: what is asked of single elements. */
static bool check_elements(const comparison *c) {
    const reference64 *r = c->reference;
    int64_t count = r->rows[c->output] * r->columns[c->output];
    for (int64_t i = 0; i < count; i++) {
        double old = c->old ? (double)c->old[i] : 0.0, value = (double)c->values[i];
        double gradient = r->output[c->output][i], expected = gradient + old;
        if (beyond_float(expected) != !isfinite(value)) {
            /* within a rounding of the largest float either is right */
            if (isfinite(expected) && fabs(fabs(expected) / (double)FLT_MAX - 1.0) < 1e-2)
                continue;
            complain(c, i, "the value", value, expected);
            return false;
        }
        if (!isfinite(value))
            continue;
        if (gradient == 0.0 && value != expected) {
            complain(c, i, "an element that a factor of zero makes exact", value, expected);
            return false;
        }
        if (c->output == OUT_GRAD_BIAS2) {
            double limit = bias_bound * (r->magnitude[c->output][i] + fabs(old));
            if (!(fabs(value - expected) <= limit)) {
                (void)snprintf(
                    c->sentence, c->capacity,
                    "grad_bias2[%lld] is %.9g and should be %.9g: the error %.3g exceeds 2^-20 * sum|x| = %.3g.",
                    (long long)i, value, expected, fabs(value - expected), limit);
                return false;
            }
        }
    }
    return true;
}

static void add_element(const comparison *c, int64_t index, norms *to) {
    const reference64 *r = c->reference;
    double gradient = r->output[c->output][index], value = (double)c->values[index];
    if (beyond_float(gradient) || !isfinite(value))
        return;
    double old = c->old ? (double)c->old[index] : 0.0, error = value - old - gradient;
    double extra = (double)FLT_MIN; /* underflow is float32's own */
    if (c->output == OUT_GRAD_BIAS1)
        extra += bias_bound * r->magnitude[c->output][index];
    if (c->old)
        extra += 0x1p-22 * (fabs(old) + fabs(gradient));
    double absolute = c->accuracy == MLPBWD_ACCURACY_FP32 ? 0.0 : wide_bound * r->product[c->output];
    to->error += error * error;
    to->value += gradient * gradient;
    double scale = r->scale[c->output][index];
    to->scale += isfinite(scale) ? scale * scale : 0.0;
    to->allowed += (absolute + extra) * (absolute + extra);
    to->extra += extra * extra;
}

/* Rows (step 1) or columns (step = columns) one by one; line names them. *worst: largest relative error. */
static bool check_lines(const comparison *c, const char *line, int64_t lines, int64_t line_step, int64_t length,
                        int64_t step, double *worst) {
    double table = row_factor * tolerance_frobenius(c->accuracy, c->output);
    for (int64_t i = 0; i < lines; i++) {
        norms n = {0};
        for (int64_t j = 0; j < length; j++)
            add_element(c, i * line_step + j * step, &n);
        double error = sqrt(n.error), value = sqrt(fmax(n.value, n.scale)), limit = table * value + sqrt(n.allowed);
        if (!(error <= limit)) {
            (void)snprintf(
                c->sentence, c->capacity,
                "%s: %s %lld has relative error %.3g (norm of the error %.3g); the limit is %.3g (norm %.3g).",
                reference64_output_name(c->output), line, (long long)i, value > 0 ? error / value : INFINITY, error,
                value > 0 ? limit / value : 0.0, limit);
            return false;
        }
        double beyond = error - sqrt(n.allowed);
        if (value > 0 && beyond > 0 && beyond / value > *worst)
            *worst = beyond / value;
    }
    return true;
}

static bool check_norms(comparison *c) {
    int64_t rows = c->reference->rows[c->output], columns = c->reference->columns[c->output];
    norms all = {0};
    for (int64_t i = 0; i < rows * columns; i++)
        add_element(c, i, &all);
    double error = sqrt(all.error), value = sqrt(all.value);
    double limit = tolerance_frobenius(c->accuracy, c->output) * value + sqrt(all.extra);
    c->errors.frobenius = value > 0 ? error / value : 0.0;
    if (!(error <= limit)) {
        (void)snprintf(c->sentence, c->capacity, "%s: the Frobenius relative error is %.4g; the limit is %.4g.",
                       reference64_output_name(c->output), value > 0 ? error / value : INFINITY,
                       value > 0 ? limit / value : 0.0);
        return false;
    }
    if (!check_lines(c, "row", rows, columns, columns, 1, &c->errors.worst_row))
        return false;
    return rows == 1 || check_lines(c, "column", columns, 1, rows, columns, &c->errors.worst_column);
}

bool tolerance_check(const reference64 *reference, int accuracy, int output, const float *values, const float *old,
                     tolerance_errors *errors, char *sentence, size_t capacity) {
    comparison c = {.reference = reference,
                    .accuracy = accuracy,
                    .output = output,
                    .values = values,
                    .old = old,
                    .sentence = sentence,
                    .capacity = capacity};
    bool good = check_elements(&c) && (output == OUT_GRAD_BIAS2 || check_norms(&c));
    if (errors)
        *errors = c.errors;
    return good;
}
