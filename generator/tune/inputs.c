#include "inputs.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "parallel.h"

/* ---- random numbers ---- */

enum { QUANTILES = 65536, CHUNK = 1 << 16 };
static float quantile[QUANTILES + 1];
static pthread_once_t quantiles_made = PTHREAD_ONCE_INIT;

/* Solves Phi(x) = p by Newton's method; the two ends stop at the middle of the outermost bin. */
static void make_quantiles(void) {
    double x = -4.5;
    for (int i = 0; i <= QUANTILES; i++) {
        double p = i == 0 ? 0.25 / QUANTILES : i == QUANTILES ? 1 - 0.25 / QUANTILES : (double)i / QUANTILES;
        for (int step = 0; step < 20; step++) {
            double move = (0.5 * erfc(-x * M_SQRT1_2) - p) / (exp(-0.5 * x * x) * 0.39894228040143268);
            if (fabs(move) > 0.5)
                move = copysign(0.5, move);
            x -= move;
            if (fabs(move) < 1e-9)
                break;
        }
        quantile[i] = (float)x;
    }
}

static uint64_t mix(uint64_t x) { /* the output function of SplitMix64 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static float normal_from(uint32_t bits) {
    uint32_t bin = bits >> 16;
    float fraction = (float)(bits & 0xffff) * (1.0F / 65536);
    return quantile[bin] + fraction * (quantile[bin + 1] - quantile[bin]);
}

typedef struct fill_job {
    float *out;
    size_t count;
    float scale;
    uint64_t seed;
} fill_job;

static void fill_chunk(void *user, int64_t chunk) {
    const fill_job *job = user;
    size_t first = (size_t)chunk * CHUNK, end = first + CHUNK < job->count ? first + CHUNK : job->count;
    for (size_t i = first; i < end; i += 2) {
        uint64_t bits = mix(job->seed + (i / 2 + 1) * 0x9e3779b97f4a7c15u);
        job->out[i] = job->scale * normal_from((uint32_t)bits);
        if (i + 1 < end)
            job->out[i + 1] = job->scale * normal_from((uint32_t)(bits >> 32));
    }
}

void inputs_normal(float *out, size_t count, double scale, uint64_t seed) {
    pthread_once(&quantiles_made, make_quantiles);
    fill_job job = {out, count, (float)scale, mix(seed + 0x9e3779b97f4a7c15u)};
    parallel_for((int64_t)((count + CHUNK - 1) / CHUNK), fill_chunk, &job);
}

/* ---- the eight inputs ---- */

mlpbwd_status inputs_create(const tensor_sizes *sizes, uint64_t seed, inputs *out, mlp_message *why) {
    *out = (inputs){.sizes = *sizes};
    for (int t = 0; t < TENSOR_INPUTS; t++) {
        int64_t rows = tensor_rows(t, sizes), columns = tensor_columns(t, sizes);
        size_t count = (size_t)rows * (size_t)columns;
        out->tensor[t] = malloc(count ? count * sizeof(float) : 1);
        if (!out->tensor[t]) {
            inputs_free(out);
            return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for %s [%lld,%lld] on the host", tensor_name(t),
                            (long long)rows, (long long)columns);
        }
        if (t == TENSOR_BIAS1 || t == TENSOR_BIAS2) {
            for (size_t i = 0; i < count; i++)
                out->tensor[t][i] = NAN;
            continue;
        }
        bool weight = t == TENSOR_WEIGHT1 || t == TENSOR_WEIGHT2;
        inputs_normal(out->tensor[t], count, weight ? 1 / sqrt((double)columns) : 1, seed * TENSOR_COUNT + (uint64_t)t);
    }
    return MLPBWD_OK;
}

void inputs_free(inputs *in) {
    for (int t = 0; t < TENSOR_INPUTS; t++) {
        free(in->tensor[t]);
        in->tensor[t] = NULL;
    }
}
