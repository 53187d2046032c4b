/* The backward pass of the header in float64, written as plainly as it can be and independent of everything that it
 * checks (also of the tuner's gate). */
#ifndef REFERENCE64_H
#define REFERENCE64_H

#include "test_inputs.h"

/* In the order of mlpbwd_tensors. */
enum { OUT_GRAD_HIDDEN, OUT_GRAD_WEIGHT1, OUT_GRAD_BIAS1, OUT_GRAD_WEIGHT2, OUT_GRAD_BIAS2, OUT_COUNT };

typedef struct reference64 {
    test_sizes sizes;
    int activation;                              /* mlpbwd_activation */
    int64_t rows[OUT_COUNT], columns[OUT_COUNT]; /* biases: 1 row */
    double *output[OUT_COUNT];
    /* Root of the sum of squares of each element's terms, with the same in place of grad_intermediate: how large the
     * element would be if its terms did not happen to cancel. */
    double *scale[OUT_COUNT];
    double *magnitude[OUT_COUNT]; /* biases: sum of |x| of each element; else NULL */
    double product[OUT_COUNT];    /* K * max|A| * max|B| of the output's product A*B, of finite values; biases: 0 */
} reference64;

/* The inputs are only read. */
void reference64_make(reference64 *reference, const test_inputs *inputs, int activation);
void reference64_free(reference64 *reference);

/* gelu and its derivative by their formulas, activation as in mlpbwd_activation. The derivative keeps its relative
 * accuracy where 1 + tanh(u) would cancel, and is 0 or 1 at huge finite x. */
double reference64_gelu(double x, int activation);
double reference64_dgelu(double x, int activation);

const char *reference64_output_name(int output);

#endif
