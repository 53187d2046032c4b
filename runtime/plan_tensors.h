/* The thirteen pointers of mlpbwd_tensors as a table: names, shapes, which are outputs. Tensors are numbered in the
 * order of the struct's fields. */
#ifndef MLP_PLAN_TENSORS_H
#define MLP_PLAN_TENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "message.h"
#include "mlpbwd.h"

enum { TENSOR_INPUTS = 8, TENSOR_OUTPUTS = 5, TENSOR_COUNT = TENSOR_INPUTS + TENSOR_OUTPUTS };
enum { TENSOR_WEIGHT1 = 2, TENSOR_BIAS1 = 3, TENSOR_WEIGHT2 = 4, TENSOR_BIAS2 = 5 };

typedef struct tensor_sizes {
    int64_t tokens, hidden_size, intermediate_size;
} tensor_sizes;

/* Name of the field of mlpbwd_tensors (static), and the tensor's extents. */
const char *tensor_name(size_t tensor);
int64_t tensor_rows(size_t tensor, const tensor_sizes *sizes);
int64_t tensor_columns(size_t tensor, const tensor_sizes *sizes); /* 1 for the biases */

/* Index of the field with this name, or TENSOR_COUNT. */
size_t plan_tensor_find(const char *name);

/* Bytes of every tensor, in the order of mlpbwd_tensors; sizes of the problem must be valid. UNSUPPORTED when one does
 * not fit in memory's address range. */
mlpbwd_status plan_tensor_sizes(const mlpbwd_problem *problem, size_t bytes[TENSOR_COUNT], mlp_message *why);

/* The struct's fields as an array, in their order. */
void plan_tensor_pointers(const mlpbwd_tensors *tensors, void *pointers[TENSOR_COUNT]);

#endif
