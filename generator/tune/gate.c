#include "gate.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "parallel.h"

/* Frobenius limits by accuracy class and output: grad_hidden_states, grad_weight1, grad_bias1, grad_weight2. */
static const double limits[3][TENSOR_OUTPUTS] = {[MLPBWD_ACCURACY_TF32] = {5.5e-4, 5.5e-4, 3.8e-4, 3.8e-4, 0},
                                                 [MLPBWD_ACCURACY_FP32] = {2e-6, 2e-6, 2e-6, 2e-6, 0},
                                                 [MLPBWD_ACCURACY_BF16] = {5.3e-3, 5.3e-3, 3.8e-3, 3.8e-3, 0}};
static const double VECTOR_FACTOR = 3, ELEMENT_FACTOR = 10;
static const double BIAS_TERM = 0x1p-20, SCALE_TERM = 0x1p-38;

double gate_limit(int accuracy, int output) {
    return limits[accuracy][output];
}

typedef struct comparison {
    const reference_part *part;
    const float *output, *initial;
    double limit, absolute; /* (a), and the absolute term for one element */
    bool short_sums;        /* fewer than GATE_SHORTEST tokens */
    gate_errors *errors;
} comparison;

static void fail(gate_errors *errors, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(gate_errors *errors, const char *format, ...) {
    if (errors->failed) /* the first is the most telling */
        return;
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(errors->failed_text, sizeof errors->failed_text, format, arguments) < 0)
        errors->failed_text[0] = '\0';
    va_end(arguments);
    errors->failed = errors->failed_text;
}

static int64_t row_of(const reference_part *part, int64_t vector, int64_t element) {
    return part->transposed ? element : part->index[vector];
}

static int64_t column_of(const reference_part *part, int64_t vector, int64_t element) {
    return part->transposed ? part->index[vector] : element;
}

static const char *name_of(const comparison *c) {
    return tensor_name(TENSOR_INPUTS + c->part->output);
}

static bool counts(double expected) { /* values beyond float32 may come out as Inf and are in no norm */
    return fabs(expected) <= FLT_MAX;
}

static double difference(const comparison *c, int64_t vector, int64_t element) {
    const reference_part *part = c->part;
    int64_t at = row_of(part, vector, element) * part->columns + column_of(part, vector, element);
    double got = (double)c->output[at] - (c->initial ? (double)c->initial[at] : 0);
    return got - part->values[vector * part->length + element];
}

/* ---- rules for every element: (c) is in check_vectors, (e) here ---- */
static void check_finite(const comparison *c) {
    const reference_part *part = c->part;
    for (int64_t v = 0; v < part->count && !c->errors->failed; v++)
        for (int64_t e = 0; e < part->length; e++) {
            double expected = part->values[v * part->length + e];
            int64_t row = row_of(part, v, e), column = column_of(part, v, e);
            float got = c->output[row * part->columns + column];
            if (isfinite(expected) && !isfinite(got) && counts(expected))
                fail(c->errors, "%s[%lld,%lld] is %g, expected %.6g (never written, or not finite where float64 is)",
                     name_of(c), (long long)row, (long long)column, (double)got, expected);
            else if (!isfinite(expected) && isfinite(got))
                fail(c->errors, "%s[%lld,%lld] is %.6g, expected a value that is not finite", name_of(c),
                     (long long)row, (long long)column, (double)got);
        }
}

typedef struct norms {
    double *error, *expected,
        *largest; /* sums of squares by row (or column) of what was compared; largest |expected| */
} norms;

static bool norms_create(norms *n, int64_t count) {
    n->error = calloc(3 * (size_t)count + 1, sizeof(double));
    if (!n->error)
        return false;
    n->expected = n->error + count;
    n->largest = n->expected + count;
    return true;
}

static void add(norms *n, int64_t at, double error, double expected) {
    n->error[at] += error * error;
    n->expected[at] += expected * expected;
    n->largest[at] = fmax(n->largest[at], fabs(expected));
}

/* Rules (b) and (c) for vectors along one direction; floor: the least square sum a vector is measured by. Returns the
 * worst relative error. */
static double check_vectors(const comparison *c, const norms *n, int64_t count, int64_t length, bool columns,
                            double floor) {
    const reference_part *part = c->part;
    double worst = 0;
    for (int64_t v = 0; v < count; v++) {
        bool along_index = columns == part->transposed;
        long long shown = along_index ? part->index[v] : v;
        if (n->largest[v] == 0) {
            if (n->error[v] != 0)
                fail(c->errors, "%s: %s %lld is not zero, though float64 gives exactly zero there", name_of(c),
                     columns ? "column" : "row", shown);
            continue;
        }
        if (length < GATE_SHORTEST)
            continue;
        double error = sqrt(n->error[v]), expected = sqrt(fmax(n->expected[v], floor));
        double allowed = VECTOR_FACTOR * c->limit * expected + c->absolute * sqrt((double)length);
        worst = fmax(worst, error / expected);
        if (!(error <= allowed))
            fail(c->errors, "%s: %s %lld has relative error %.3g, more than %.3g", name_of(c),
                 columns ? "column" : "row", shown, error / expected, allowed / expected);
    }
    return worst;
}

/* Rule (d), and the absolute rule of the biases. */
static void check_elements(const comparison *c, const norms *vectors, const norms *across, double tensor_square) {
    const reference_part *part = c->part;
    double all = tensor_square / ((double)part->count * (double)part->length);
    for (int64_t v = 0; v < part->count && !c->errors->failed; v++)
        for (int64_t e = 0; e < part->length; e++) {
            double expected = part->values[v * part->length + e];
            if (!counts(expected))
                continue;
            double square =
                fmax(vectors->expected[v] / (double)part->length, across->expected[e] / (double)part->count);
            if (c->short_sums || part->absolute)
                square = fmax(square, all);
            double allowed = ELEMENT_FACTOR * c->limit * sqrt(square) + c->absolute;
            if (part->absolute)
                allowed += BIAS_TERM * part->absolute[v * part->length + e];
            double error = fabs(difference(c, v, e));
            if (error <= allowed)
                continue;
            fail(c->errors, "%s[%lld,%lld] is off by %.3g (expected %.6g), more than %.3g", name_of(c),
                 (long long)row_of(part, v, e), (long long)column_of(part, v, e), error, expected, allowed);
            return;
        }
}

static void compare_part(const comparison *c, bool whole_columns) {
    const reference_part *part = c->part;
    if (part->count == 0 || part->length == 0)
        return;
    norms vectors, across;
    bool first = norms_create(&vectors, part->count), second = norms_create(&across, part->length);
    if (!first || !second) {
        fail(c->errors, "%s could not be compared: no memory", name_of(c));
    } else {
        check_finite(c);
        double error = 0, expected = 0, bias = 0;
        for (int64_t v = 0; v < part->count; v++)
            for (int64_t e = 0; e < part->length; e++) {
                double x = part->values[v * part->length + e];
                if (!counts(x))
                    continue;
                double d = difference(c, v, e);
                add(&vectors, v, d, x);
                add(&across, e, d, x);
                error += d * d;
                expected += x * x;
                if (part->absolute)
                    bias += part->absolute[v * part->length + e] * part->absolute[v * part->length + e];
            }
        double relative = expected > 0 ? sqrt(error / expected) : error > 0 ? INFINITY : 0;
        double number = (double)part->count * (double)part->length;
        double allowed = c->limit * sqrt(expected) + c->absolute * sqrt(number) + BIAS_TERM * sqrt(bias);
        if (c->limit > 0 && !(sqrt(error) <= allowed)) /* grad_bias2 has a rule for each element only */
            fail(c->errors, "%s has relative error %.3g, more than %.3g", name_of(c), relative,
                 expected > 0 ? allowed / sqrt(expected) : 0);
        double floor = c->short_sums ? expected / (double)part->count : 0;
        double along = 0, crossing = 0;
        if (part->columns > 1)
            along = check_vectors(c, &vectors, part->count, part->length, part->transposed, floor);
        if (whole_columns && part->columns > 1)
            crossing = check_vectors(c, &across, part->length, part->count, !part->transposed,
                                     c->short_sums ? expected / (double)part->length : 0);
        check_elements(c, &vectors, &across, expected);
        gate_errors *errors = c->errors;
        if (!part->transposed)
            errors->frobenius[part->output] = relative;
        double *rows = &errors->worst_row[part->output], *columns = &errors->worst_column[part->output];
        *rows = fmax(*rows, part->transposed ? crossing : along);
        *columns = fmax(*columns, part->transposed ? along : crossing);
    }
    if (first)
        free(vectors.error);
    if (second)
        free(across.error);
}

/* ---- elements that were not sampled: at least written ---- */
enum { SCAN_CHUNK = 1 << 18 };
typedef struct scan_job {
    const float *values;
    int64_t count;
    atomic_llong bad; /* smallest index that is not finite, or count */
} scan_job;

static void scan_chunk(void *user, int64_t chunk) {
    scan_job *job = user;
    int64_t end = (chunk + 1) * SCAN_CHUNK < job->count ? (chunk + 1) * SCAN_CHUNK : job->count;
    for (int64_t i = chunk * SCAN_CHUNK; i < end; i++)
        if (!isfinite(job->values[i])) {
            long long seen = atomic_load(&job->bad);
            while (i < seen && !atomic_compare_exchange_weak(&job->bad, &seen, i))
                continue;
            return;
        }
}

static void scan(const reference_part *part, const float *values, gate_errors *errors) {
    scan_job job = {.values = values, .count = part->rows * part->columns};
    atomic_init(&job.bad, job.count);
    parallel_for((job.count + SCAN_CHUNK - 1) / SCAN_CHUNK, scan_chunk, &job);
    long long bad = atomic_load(&job.bad);
    if (bad < job.count)
        fail(errors, "%s[%lld,%lld] is %g (never written, or not finite where float64 is)",
             tensor_name(TENSOR_INPUTS + part->output), bad / (long long)part->columns, bad % (long long)part->columns,
             (double)values[bad]);
}

void gate_compare(const reference *r, int accuracy, const float *const outputs[TENSOR_OUTPUTS],
                  const float *const initial[TENSOR_OUTPUTS], gate_errors *errors) {
    *errors = (gate_errors){.failed = NULL};
    for (int p = 0; p < REFERENCE_PARTS; p++) {
        const reference_part *part = &r->part[p];
        const float *output = outputs[part->output];
        if (!output)
            continue;
        double absolute = accuracy == MLPBWD_ACCURACY_FP32 ? 0 : SCALE_TERM * r->magnitude[part->output];
        comparison c = {part,
                        output,
                        initial ? initial[part->output] : NULL,
                        gate_limit(accuracy, part->output),
                        absolute,
                        r->sizes.tokens < GATE_SHORTEST,
                        errors};
        compare_part(&c, r->complete);
        if (!r->complete && r->finite && !part->transposed)
            scan(part, output, errors);
    }
}

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *gate_errors_json(const gate_errors *errors) {
    json_t *result = json_object();
    for (int o = 0; o < TENSOR_OUTPUTS; o++) {
        json_t *entry = json_object();
        json_object_set_new(entry, "frobenius", number(errors->frobenius[o]));
        json_object_set_new(entry, "row", number(errors->worst_row[o]));
        json_object_set_new(entry, "column", number(errors->worst_column[o]));
        json_object_set_new(result, tensor_name(TENSOR_INPUTS + o), entry);
    }
    return result;
}
