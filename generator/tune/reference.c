#include "reference.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "matrix64.h"
#include "parallel.h"

double reference_gelu_derivative(double x, int activation) {
    if (activation == MLPBWD_GELU_ERF)
        return 0.5 * erfc(-x * M_SQRT1_2) + x * (exp(-0.5 * x * x) * (0.5 * M_2_SQRTPI * M_SQRT1_2));
    /* (1 + tanh u) / 2 as a quotient, which does not cancel where u is large and negative */
    double c = M_SQRT1_2 * M_2_SQRTPI, u = c * (x + 0.044715 * x * x * x);
    double half = 1 / (1 + exp(-2 * u)), rest = 1 / (1 + exp(2 * u));
    return half + 2 * x * half * rest * c * (1 + 3 * 0.044715 * x * x);
}

/* ---- which rows ---- */

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* One from each of `count` stripes of n, the first and the last always. */
static void choose(int64_t n, int64_t count, uint64_t *state, int64_t *index) {
    for (int64_t i = 0; i < count; i++) {
        int64_t first = n * i / count, end = n * (i + 1) / count;
        index[i] = first + (int64_t)(next_random(state) % (uint64_t)(end - first));
    }
    if (count > 0)
        index[count - 1] = n - 1;
    if (count > 1)
        index[0] = 0;
}

static mlpbwd_status part_create(reference_part *part, int output, bool transposed, const tensor_sizes *sizes,
                                 int64_t samples, uint64_t *state, mlp_message *why) {
    int64_t rows = tensor_rows(TENSOR_INPUTS + output, sizes), columns = tensor_columns(TENSOR_INPUTS + output, sizes);
    int64_t available = transposed ? columns : rows;
    *part = (reference_part){.output = output, .transposed = transposed, .rows = rows, .columns = columns};
    part->count = samples == 0 || samples > available ? available : samples;
    part->length = transposed ? rows : columns;
    size_t values = (size_t)part->count * (size_t)part->length;
    part->index = malloc((size_t)part->count * sizeof *part->index + 1);
    part->values = malloc(values * sizeof(double) + 1);
    if (columns == 1)
        part->absolute = malloc(values * sizeof(double) + 1);
    if (!part->index || !part->values || (columns == 1 && !part->absolute))
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for the float64 reference of %s (%lld of %lld %s)",
                        tensor_name(TENSOR_INPUTS + output), (long long)part->count, (long long)available,
                        transposed ? "columns" : "rows");
    choose(available, part->count, state, part->index);
    return MLPBWD_OK;
}

/* ---- the pieces ---- */

static matrix64 whole(const float *values, int64_t columns) {
    return (matrix64){.single = values, .row_stride = columns, .column_stride = 1};
}

static matrix64 dense(const double *values, int64_t columns) {
    return (matrix64){.real = values, .row_stride = columns, .column_stride = 1};
}

static matrix64 transposed(matrix64 m) {
    return (matrix64){m.single, m.real, m.column_stride, m.row_stride, m.columns, m.rows};
}

typedef struct derivative_job {
    const inputs *in;
    int activation;
    double *gradient; /* [rows][columns] of grad_act, becomes grad_intermediate */
    int64_t columns;
    const int64_t *row, *column; /* into intermediate; NULL: all */
} derivative_job;

static void derivative_row(void *user, int64_t r) {
    const derivative_job *job = user;
    int64_t token = job->row ? job->row[r] : r;
    const float *x = job->in->tensor[6] + token * job->in->sizes.intermediate_size;
    for (int64_t c = 0; c < job->columns; c++)
        job->gradient[r * job->columns + c] *=
            reference_gelu_derivative(x[job->column ? job->column[c] : c], job->activation);
}

typedef struct sum_job {
    matrix64 x; /* [rows][values] */
    int64_t rows;
    reference_part *part;
} sum_job;

static void column_sum(void *user, int64_t c) {
    const sum_job *job = user;
    double sum = 0, absolute = 0;
    for (int64_t r = 0; r < job->rows; r++) {
        double x = matrix64_at(&job->x, r, c);
        sum += x;
        absolute += fabs(x);
    }
    job->part->values[c] = sum;
    job->part->absolute[c] = absolute;
}

typedef struct largest_job {
    const float *values;
    int64_t count, chunk;
    double *result; /* one a chunk */
} largest_job;

static void largest_chunk(void *user, int64_t index) {
    const largest_job *job = user;
    int64_t first = index * job->chunk, end = first + job->chunk < job->count ? first + job->chunk : job->count;
    float largest = 0;
    for (int64_t i = first; i < end; i++) {
        float x = fabsf(job->values[i]);
        if (x > largest && x <= FLT_MAX)
            largest = x;
    }
    job->result[index] = (double)largest;
}

static double largest_of(const inputs *in, int tensor) {
    enum { CHUNKS = 64 };
    double result[CHUNKS] = {0}, largest = 0;
    int64_t count = tensor_rows(tensor, &in->sizes) * tensor_columns(tensor, &in->sizes);
    largest_job job = {in->tensor[tensor], count, (count + CHUNKS - 1) / CHUNKS, result};
    parallel_for(CHUNKS, largest_chunk, &job);
    for (int i = 0; i < CHUNKS; i++)
        largest = fmax(largest, result[i]);
    return largest;
}

static double largest_finite(const double *values, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(values[i]))
            largest = fmax(largest, fabs(values[i]));
    return largest;
}

/* grad_intermediate[rows][I] of the sampled tokens, then grad_hidden_states of them. */
static mlpbwd_status token_rows(const inputs *in, reference *r, double *largest_gradient, mlp_message *why) {
    int64_t H = in->sizes.hidden_size, I = in->sizes.intermediate_size;
    reference_part *hidden = &r->part[0];
    double *gradient = malloc((size_t)hidden->count * (size_t)I * sizeof(double) + 1);
    if (!gradient)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for grad_intermediate in float64 (%lld rows of %lld)",
                        (long long)hidden->count, (long long)I);
    matrix64 picked = whole(in->tensor[0], H), weight2 = whole(in->tensor[4], I), weight1 = whole(in->tensor[2], H);
    picked.rows = hidden->index;
    matrix64_multiply(hidden->count, I, H, &picked, &weight2, gradient);
    derivative_job job = {in, r->activation, gradient, I, hidden->index, NULL};
    parallel_for(hidden->count, derivative_row, &job);
    matrix64 left = dense(gradient, I);
    matrix64_multiply(hidden->count, H, I, &left, &weight1, hidden->values);
    *largest_gradient = fmax(*largest_gradient, largest_finite(gradient, hidden->count * I));
    free(gradient);
    return MLPBWD_OK;
}

/* grad_intermediate[T][columns] of the sampled intermediate columns, then those rows of grad_weight1. */
static mlpbwd_status intermediate_columns(const inputs *in, reference *r, double *largest_gradient, mlp_message *why) {
    int64_t T = in->sizes.tokens, H = in->sizes.hidden_size, I = in->sizes.intermediate_size;
    reference_part *weight1 = &r->part[1];
    int64_t count = weight1->count;
    double *gradient = malloc((size_t)T * (size_t)count * sizeof(double) + 1);
    double *columns = malloc((size_t)H * (size_t)count * sizeof(double) + 1);
    mlpbwd_status status = MLPBWD_OK;
    if (gradient && columns) {
        for (int64_t h = 0; h < H; h++) /* gathered once: every block of the product reads it */
            for (int64_t c = 0; c < count; c++)
                columns[h * count + c] = (double)in->tensor[4][h * I + weight1->index[c]];
        matrix64 gradients = whole(in->tensor[0], H), right = dense(columns, count);
        matrix64_multiply(T, count, H, &gradients, &right, gradient);
        derivative_job job = {in, r->activation, gradient, count, NULL, weight1->index};
        parallel_for(T, derivative_row, &job);
        matrix64 left = transposed(dense(gradient, count)), hidden = whole(in->tensor[1], H);
        matrix64_multiply(count, H, T, &left, &hidden, weight1->values);
        *largest_gradient = fmax(*largest_gradient, largest_finite(gradient, T * count));
    } else {
        status =
            mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for grad_intermediate in float64 (%lld of %lld columns)",
                     (long long)count, (long long)I);
    }
    free(columns);
    free(gradient);
    return status;
}

/* grad_bias1, every element: its relative error is one number for the whole vector, and a few dozen of its elements
 * would estimate that too badly to judge by. Takes grad_intermediate a stripe of columns at a time. */
static mlpbwd_status bias1(const inputs *in, reference *r, mlp_message *why) {
    enum { STRIPE = 256 };
    int64_t T = in->sizes.tokens, H = in->sizes.hidden_size, I = in->sizes.intermediate_size;
    double *gradient = malloc((size_t)T * STRIPE * sizeof(double) + 1);
    if (!gradient)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for %d columns of grad_intermediate in float64", STRIPE);
    int64_t column[STRIPE];
    matrix64 gradients = whole(in->tensor[0], H);
    for (int64_t first = 0; first < I; first += STRIPE) {
        int64_t count = I - first < STRIPE ? I - first : STRIPE;
        for (int64_t c = 0; c < count; c++)
            column[c] = first + c;
        matrix64 weight2 = whole(in->tensor[4] + first, I);
        matrix64_multiply(T, count, H, &gradients, &weight2, gradient);
        derivative_job job = {in, r->activation, gradient, count, NULL, column};
        parallel_for(T, derivative_row, &job);
        reference_part stripe = {.values = r->part[2].values + first, .absolute = r->part[2].absolute + first};
        sum_job sums = {dense(gradient, count), T, &stripe};
        parallel_for(count, column_sum, &sums);
    }
    free(gradient);
    return MLPBWD_OK;
}

static void weight2_and_bias2(const inputs *in, reference *r) {
    int64_t T = in->sizes.tokens, H = in->sizes.hidden_size, I = in->sizes.intermediate_size;
    reference_part *rows = &r->part[3], *columns = &r->part[5];
    matrix64 gradients = whole(in->tensor[0], H), activated = whole(in->tensor[7], I);
    matrix64 left = gradients;
    left.columns = rows->index;
    left = transposed(left);
    matrix64_multiply(rows->count, I, T, &left, &activated, rows->values);
    if (columns->count > 0) {
        left = activated;
        left.columns = columns->index;
        left = transposed(left);
        matrix64_multiply(columns->count, H, T, &left, &gradients, columns->values);
    }
    sum_job sums = {gradients, T, &r->part[4]};
    parallel_for(H, column_sum, &sums);
}

static bool all_finite(const reference_part *part) {
    for (int64_t i = 0; i < part->count * part->length; i++)
        if (!(fabs(part->values[i]) <= FLT_MAX))
            return false;
    return true;
}

static mlpbwd_status compute(const inputs *in, reference *r, mlp_message *why) {
    double largest_gradient = 0;
    mlpbwd_status status = token_rows(in, r, &largest_gradient, why);
    if (status == MLPBWD_OK)
        status = intermediate_columns(in, r, &largest_gradient, why);
    if (status == MLPBWD_OK)
        status = bias1(in, r, why);
    if (status != MLPBWD_OK)
        return status;
    weight2_and_bias2(in, r);
    r->finite = true;
    for (int p = 0; p < REFERENCE_PARTS; p++)
        r->finite = r->finite && all_finite(&r->part[p]);
    double T = (double)in->sizes.tokens, H = (double)in->sizes.hidden_size, I = (double)in->sizes.intermediate_size;
    double gradients = largest_of(in, 0);
    r->magnitude[0] = I * largest_gradient * largest_of(in, 2);
    r->magnitude[1] = T * largest_gradient * largest_of(in, 1);
    r->magnitude[2] = T * H * gradients * largest_of(in, 4);
    r->magnitude[3] = T * gradients * largest_of(in, 7);
    r->magnitude[4] = 0;
    return MLPBWD_OK;
}

/* Everything but the results. */
static mlpbwd_status lay_out(const inputs *in, int activation, int64_t samples, uint64_t seed, reference *out,
                             mlp_message *why) {
    *out = (reference){.sizes = in->sizes, .activation = activation, .complete = samples == 0};
    uint64_t state = seed;
    mlpbwd_status status = MLPBWD_OK;
    for (int output = 0; output < TENSOR_OUTPUTS && status == MLPBWD_OK; output++)
        status = part_create(&out->part[output], output, false, &in->sizes,
                             tensor_columns(TENSOR_INPUTS + output, &in->sizes) == 1 ? 0 : samples, &state, why);
    if (status == MLPBWD_OK && !out->complete)
        status = part_create(&out->part[5], 3, true, &in->sizes, samples, &state, why);
    if (status != MLPBWD_OK)
        reference_free(out);
    return status;
}

mlpbwd_status reference_create(const inputs *in, int activation, int64_t samples, uint64_t seed, reference *out,
                               mlp_message *why) {
    mlpbwd_status status = lay_out(in, activation, samples, seed, out, why);
    if (status != MLPBWD_OK)
        return status;
    status = compute(in, out, why);
    if (status != MLPBWD_OK)
        reference_free(out);
    return status;
}

/* ---- results on their way between processes ---- */

/* The head of the bytes; then, part by part, values and absolute. */
typedef struct results_head {
    tensor_sizes sizes;
    int activation;
    bool complete, finite;
    double magnitude[TENSOR_OUTPUTS];
} results_head;

enum { RESULT_PIECES = 2 * REFERENCE_PARTS };
typedef struct piece {
    double *values;
    size_t size; /* in bytes */
} piece;

/* The arrays behind the head, in order; returns the size of all with the head. */
static size_t list_pieces(const reference *r, piece pieces[RESULT_PIECES]) {
    size_t total = sizeof(results_head);
    piece *next = pieces;
    for (int p = 0; p < REFERENCE_PARTS; p++) {
        const reference_part *part = &r->part[p];
        size_t size = (size_t)(part->count * part->length) * sizeof(double);
        *next++ = (piece){part->values, part->values ? size : 0};
        *next++ = (piece){part->absolute, part->absolute ? size : 0};
    }
    for (int i = 0; i < RESULT_PIECES; i++)
        total += pieces[i].size;
    return total;
}

void *reference_results(const reference *r, size_t *size) {
    piece pieces[RESULT_PIECES];
    *size = list_pieces(r, pieces);
    char *bytes = malloc(*size), *at = bytes;
    if (!bytes)
        return NULL;
    results_head head;
    memset(&head, 0, sizeof head); /* no stray bytes between the fields */
    head.sizes = r->sizes;
    head.activation = r->activation;
    head.complete = r->complete;
    head.finite = r->finite;
    memcpy(head.magnitude, r->magnitude, sizeof head.magnitude);
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    for (int i = 0; i < RESULT_PIECES; at += pieces[i++].size)
        if (pieces[i].size > 0)
            memcpy(at, pieces[i].values, pieces[i].size);
    return bytes;
}

mlpbwd_status reference_restore(const inputs *in, int activation, int64_t samples, uint64_t seed, const void *results,
                                size_t size, reference *out, mlp_message *why) {
    mlpbwd_status status = lay_out(in, activation, samples, seed, out, why);
    if (status != MLPBWD_OK)
        return status;
    piece pieces[RESULT_PIECES];
    results_head head = {.activation = -1};
    if (size == list_pieces(out, pieces))
        memcpy(&head, results, sizeof head);
    if (head.activation != activation || head.complete != out->complete || head.sizes.tokens != in->sizes.tokens ||
        head.sizes.hidden_size != in->sizes.hidden_size ||
        head.sizes.intermediate_size != in->sizes.intermediate_size) {
        reference_free(out);
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%zu bytes are not the float64 results of this problem", size);
    }
    out->finite = head.finite;
    memcpy(out->magnitude, head.magnitude, sizeof out->magnitude);
    const char *at = (const char *)results + sizeof head;
    for (int i = 0; i < RESULT_PIECES; at += pieces[i++].size)
        if (pieces[i].size > 0)
            memcpy(pieces[i].values, at, pieces[i].size);
    return MLPBWD_OK;
}

void reference_free(reference *r) {
    for (int p = 0; p < REFERENCE_PARTS; p++) {
        free(r->part[p].index);
        free(r->part[p].values);
        free(r->part[p].absolute);
        r->part[p] = (reference_part){0};
    }
}
