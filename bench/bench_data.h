/* Tensors on the device for `bench`: standard normal inputs of the suite's kind, one allocation for the largest T that
 * every smaller T uses the front of. */
#ifndef MLP_BENCH_DATA_H
#define MLP_BENCH_DATA_H

#include <stdbool.h>

#include "device/device.h"
#include "inputs.h"

typedef struct bench_data {
    dev_context *context;
    tensor_sizes sizes; /* the largest */
    void *tensor[TENSOR_COUNT];
    void *workspace;
    size_t workspace_size;
} bench_data;

/* Device memory for every tensor at these sizes, inputs filled; *data is the caller's to free, also after a failure. */
mlpbwd_status bench_data_create(dev_context *context, const tensor_sizes *sizes, bench_data *data, mlp_message *why);
void bench_data_free(bench_data *data); /* {0} is harmless */
mlpbwd_tensors bench_data_tensors(const bench_data *data);
/* At least this much workspace; never shrinks. */
mlpbwd_status bench_data_workspace(bench_data *data, size_t size, mlp_message *why);

/* Fills device memory with scale * standard normal, as float or (half) IEEE binary16. */
mlpbwd_status bench_fill(dev_context *context, void *memory, size_t count, double scale, uint64_t seed, bool half,
                         mlp_message *why);

/* Median of `count` values, which are sorted in place; *spread: their interquartile range (may be NULL). */
double bench_median(double *values, size_t count, double *spread);

#endif
