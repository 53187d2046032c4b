/* The tensors of one problem: their shapes, and inputs as the suite has them (standard normal, weights divided by the
 * square root of their last dimension), made from a seed, equal for any number of threads. */
#ifndef MLP_INPUTS_H
#define MLP_INPUTS_H

#include <stddef.h>
#include <stdint.h>

#include "message.h"
#include "mlpbwd.h"

/* Tensors are numbered in the order of mlpbwd_tensors. */
enum { TENSOR_INPUTS = 8, TENSOR_OUTPUTS = 5, TENSOR_COUNT = 13, TENSOR_BIAS1 = 3, TENSOR_BIAS2 = 5 };

typedef struct tensor_sizes {
    int64_t tokens, hidden_size, intermediate_size;
} tensor_sizes;

/* Name of the field of mlpbwd_tensors (static), and the tensor's extents. */
const char *tensor_name(int tensor);
int64_t tensor_rows(int tensor, const tensor_sizes *sizes);
int64_t tensor_columns(int tensor, const tensor_sizes *sizes); /* 1 for the biases */

/* out[i] = scale * standard normal, a function of (seed, i) alone: 65536 quantiles with linear interpolation. */
void inputs_normal(float *out, size_t count, double scale, uint64_t seed);

/* Eight host arrays, owned by the inputs. bias1 and bias2 are NaN, since no kernel may read them. */
typedef struct inputs {
    tensor_sizes sizes;
    float *tensor[TENSOR_INPUTS];
} inputs;

/* The suite's inputs: standard normal, weights divided by the root of their last dimension. OUT_OF_MEMORY. */
mlpbwd_status inputs_create(const tensor_sizes *sizes, uint64_t seed, inputs *out, mlp_message *why);
void inputs_free(inputs *in); /* {0} is harmless */

#endif
