#include "bench_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 22 };

/* Round to nearest even; the values here are normal numbers of both formats or small enough to become zero. */
static uint16_t to_half(float value) {
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000U);
    int exponent = (int)(bits >> 23 & 0xFFU) - 127;
    uint32_t fraction = bits & 0x7FFFFFU;
    if (exponent < -14) {
        return sign;
    }
    if (exponent > 15) {
        return sign | 0x7BFFU;
    }
    uint32_t half = (uint32_t)(exponent + 15) << 10 | fraction >> 13;
    uint32_t rest = fraction & 0x1FFFU;
    half += rest > 0x1000U || (rest == 0x1000U && (half & 1U) != 0) ? 1U : 0U;
    return half >= 0x7C00U ? sign | 0x7BFFU : (uint16_t)(sign | half);
}

mlpbwd_status bench_fill(dev_context *context, void *memory, size_t count, double scale, uint64_t seed, bool half,
                         mlp_message *why) {
    float *values = malloc(CHUNK * sizeof *values);
    uint16_t *halves = malloc(CHUNK * sizeof *halves);
    mlpbwd_status status = MLPBWD_OK;
    if (values == NULL || halves == NULL) {
        status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    }
    size_t size = half ? sizeof *halves : sizeof *values;
    for (size_t at = 0; status == MLPBWD_OK && at < count; at += CHUNK) {
        size_t part = count - at < CHUNK ? count - at : CHUNK;
        inputs_normal(values, part, scale, seed + at / CHUNK);
        for (size_t i = 0; half && i < part; i++) {
            halves[i] = to_half(values[i]);
        }
        status =
            dev_copy_in(context, (char *)memory + at * size, half ? (const void *)halves : values, part * size, why);
    }
    free(values);
    free(halves);
    return status;
}

mlpbwd_status bench_data_create(dev_context *context, const tensor_sizes *sizes, bench_data *data, mlp_message *why) {
    *data = (bench_data){.context = context, .sizes = *sizes};
    for (int tensor = 0; tensor < TENSOR_COUNT; tensor++) {
        if (tensor == TENSOR_BIAS1 || tensor == TENSOR_BIAS2) {
            continue; /* never read */
        }
        int64_t rows = tensor_rows(tensor, sizes);
        int64_t columns = tensor_columns(tensor, sizes);
        size_t count = (size_t)(rows * columns);
        mlpbwd_status status = dev_alloc(context, count * sizeof(float), &data->tensor[tensor], why);
        if (status == MLPBWD_OK && tensor < TENSOR_INPUTS) {
            bool weight = strncmp(tensor_name(tensor), "weight", 6) == 0;
            status = bench_fill(context, data->tensor[tensor], count, weight ? 1.0 / sqrt((double)columns) : 1.0,
                                1000 * (uint64_t)(tensor + 1), false, why);
        }
        if (status != MLPBWD_OK) {
            mlp_prefix(why, "%s", tensor_name(tensor));
            return status;
        }
    }
    return MLPBWD_OK;
}

void bench_data_free(bench_data *data) {
    for (int tensor = 0; tensor < TENSOR_COUNT; tensor++) {
        if (data->tensor[tensor] != NULL) {
            dev_free(data->context, data->tensor[tensor]);
        }
    }
    if (data->workspace != NULL) {
        dev_free(data->context, data->workspace);
    }
    *data = (bench_data){0};
}

mlpbwd_tensors bench_data_tensors(const bench_data *data) {
    void *const *tensor = data->tensor;
    return (mlpbwd_tensors){.grad_output = tensor[0],
                            .hidden_states = tensor[1],
                            .weight1 = tensor[2],
                            .weight2 = tensor[4],
                            .intermediate = tensor[6],
                            .intermediate_activated = tensor[7],
                            .grad_hidden_states = tensor[8],
                            .grad_weight1 = tensor[9],
                            .grad_bias1 = tensor[10],
                            .grad_weight2 = tensor[11],
                            .grad_bias2 = tensor[12]};
}

mlpbwd_status bench_data_workspace(bench_data *data, size_t size, mlp_message *why) {
    if (size <= data->workspace_size) {
        return MLPBWD_OK;
    }
    if (data->workspace != NULL) {
        dev_free(data->context, data->workspace);
    }
    data->workspace = NULL;
    data->workspace_size = 0;
    mlpbwd_status status = dev_alloc(data->context, size, &data->workspace, why);
    if (status == MLPBWD_OK) {
        data->workspace_size = size;
    }
    return status;
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

double bench_median(double *values, size_t count, double *spread) {
    if (count == 0) {
        return NAN;
    }
    qsort(values, count, sizeof *values, ascending);
    if (spread != NULL) {
        *spread = values[count * 3 / 4] - values[count / 4];
    }
    return count % 2 == 1 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}
