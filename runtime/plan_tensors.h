/* The thirteen pointers of mlpbwd_tensors as a table: names, sizes, which are outputs. */
#ifndef MLP_PLAN_TENSORS_H
#define MLP_PLAN_TENSORS_H

#include <stddef.h>

#include "message.h"
#include "mlpbwd.h"

enum { TENSOR_INPUTS = 8, TENSOR_OUTPUTS = 5, TENSOR_COUNT = TENSOR_INPUTS + TENSOR_OUTPUTS };

/* Name of the i-th field of mlpbwd_tensors. */
const char *plan_tensor_name(size_t tensor);

/* Index of the field with this name, or TENSOR_COUNT. */
size_t plan_tensor_find(const char *name);

/* Bytes of every tensor, in the order of mlpbwd_tensors; sizes of the problem must be valid. UNSUPPORTED when one does
 * not fit in memory's address range. */
mlpbwd_status plan_tensor_sizes(const mlpbwd_problem *problem, size_t bytes[TENSOR_COUNT], mlp_message *why);

/* The struct's fields as an array, in their order. */
void plan_tensor_pointers(const mlpbwd_tensors *tensors, void *pointers[TENSOR_COUNT]);

#endif
