#include "plan_tensors.h"

#include <string.h>

_Static_assert(sizeof(mlpbwd_tensors) == TENSOR_COUNT * sizeof(void *), "mlpbwd_tensors holds thirteen pointers");

/* Extents: 'T' tokens, 'H' hidden_size, 'I' intermediate_size, '1' one. */
static const struct {
    const char *name;
    char rows, columns;
} table[TENSOR_COUNT] = {
    {"grad_output", 'T', 'H'},
    {"hidden_states", 'T', 'H'},
    {"weight1", 'I', 'H'},
    {"bias1", 'I', '1'},
    {"weight2", 'H', 'I'},
    {"bias2", 'H', '1'},
    {"intermediate", 'T', 'I'},
    {"intermediate_activated", 'T', 'I'},
    {"grad_hidden_states", 'T', 'H'},
    {"grad_weight1", 'I', 'H'},
    {"grad_bias1", 'I', '1'},
    {"grad_weight2", 'H', 'I'},
    {"grad_bias2", 'H', '1'},
};

const char *tensor_name(size_t tensor) {
    return table[tensor].name;
}

size_t plan_tensor_find(const char *name) {
    size_t i = 0;
    while (i < TENSOR_COUNT && strcmp(table[i].name, name) != 0)
        i++;
    return i;
}

static int64_t extent(char which, const tensor_sizes *sizes) {
    switch (which) {
    case 'T':
        return sizes->tokens;
    case 'H':
        return sizes->hidden_size;
    case 'I':
        return sizes->intermediate_size;
    default:
        return 1;
    }
}

int64_t tensor_rows(size_t tensor, const tensor_sizes *sizes) {
    return extent(table[tensor].rows, sizes);
}

int64_t tensor_columns(size_t tensor, const tensor_sizes *sizes) {
    return extent(table[tensor].columns, sizes);
}

mlpbwd_status plan_tensor_sizes(const mlpbwd_problem *problem, size_t bytes[TENSOR_COUNT], mlp_message *why) {
    const tensor_sizes sizes = {problem->batch_size * problem->seq_len, problem->hidden_size,
                                problem->intermediate_size};
    for (size_t i = 0; i < TENSOR_COUNT; i++) {
        int64_t size = 0;
        if (__builtin_mul_overflow(tensor_rows(i, &sizes), tensor_columns(i, &sizes), &size) ||
            __builtin_mul_overflow(size, (int64_t)sizeof(float), &size))
            return mlp_fail(why, MLPBWD_UNSUPPORTED,
                            "%s would have more than 2^63 bytes with hidden_size %lld and intermediate_size %lld",
                            table[i].name, (long long)problem->hidden_size, (long long)problem->intermediate_size);
        bytes[i] = (size_t)size;
    }
    return MLPBWD_OK;
}

void plan_tensor_pointers(const mlpbwd_tensors *tensors, void *pointers[TENSOR_COUNT]) {
    memcpy(pointers, tensors, sizeof *tensors);
}
