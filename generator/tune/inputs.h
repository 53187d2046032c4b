/* The tensors of one problem: their shapes, and inputs as the suite has them (standard normal, weights divided by the
 * square root of their last dimension), made from a seed, equal for any number of threads. */
#ifndef MLP_INPUTS_H
#define MLP_INPUTS_H

#include <stddef.h>
#include <stdint.h>

#include "message.h"
#include "mlpbwd.h"
#include "plan_tensors.h"

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
