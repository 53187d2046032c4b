#include "verify_inputs.h"

const char *const verify_input_names[VERIFY_INPUT_KINDS] = {"suite", "small", "large", "outliers"};

/* In the order of mlpbwd_tensors. */
enum { GRAD_OUTPUT = 0, HIDDEN_STATES = 1, INTERMEDIATE = 6, INTERMEDIATE_ACTIVATED = 7 };

static size_t length_of(const inputs *in, int tensor) {
    return (size_t)(tensor_rows(tensor, &in->sizes) * tensor_columns(tensor, &in->sizes));
}

static void multiply(inputs *in, int tensor, float factor) {
    size_t count = length_of(in, tensor);
    for (size_t i = 0; i < count; i++) {
        in->tensor[tensor][i] *= factor;
    }
}

void verify_inputs_shape(inputs *in, int kind) {
    static const int outliers[] = {INTERMEDIATE, INTERMEDIATE_ACTIVATED};
    if (kind == 1) {
        multiply(in, GRAD_OUTPUT, 1e-8F);
    } else if (kind == 2) {
        multiply(in, HIDDEN_STATES, 1e5F);
        multiply(in, INTERMEDIATE_ACTIVATED, 1e5F);
    } else if (kind == 3) {
        for (size_t i = 0; i < sizeof outliers / sizeof outliers[0]; i++) {
            size_t count = length_of(in, outliers[i]);
            if (count > 0) {
                in->tensor[outliers[i]][(count / 3) * (i + 1) % count] = 1e6F;
            }
        }
    }
}
