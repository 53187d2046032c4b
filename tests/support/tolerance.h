/* What an output may differ from float64 by: the table of design section 3, in this place only for all tests. */
#ifndef TOLERANCE_H
#define TOLERANCE_H

#include <stdbool.h>
#include <stddef.h>

#include "reference64.h"

/* Frobenius relative error of an output (OUT_...) in an accuracy class (mlpbwd_accuracy). grad_bias2 has none: 0. */
double tolerance_frobenius(int accuracy, int output);

typedef struct tolerance_errors {
    double frobenius, worst_row, worst_column; /* relative; rows and columns beyond their absolute term */
} tolerance_errors;

/* Compares one output with the reference:
 * (a) Frobenius relative error within the table (grad_bias1: plus 2^-20 of the norm of its sums of |x|);
 * (b) each row and each column within three times that, relative to its norm or, where its sums cancel by chance (one
 *     token, say, and an element of grad_intermediate near zero), to the norm that it would have without, plus 2^-38 *
 * K * max|A| * max|B| an element in the classes tf32 and bf16; (c) zero where the reference is exactly zero;
 * grad_bias2: 2^-20 * sum of |x| an element. Non-finite exactly where the reference is, or exceeds float32.
 * old: what the output held before, if the call was to add to it (each element then gains one rounding of the sum to
 * float32), else NULL. False: sentence names the output, the index, the value and the limit. errors may be NULL. */
bool tolerance_check(const reference64 *reference, int accuracy, int output, const float *values, const float *old,
                     tolerance_errors *errors, char *sentence, size_t capacity);

#endif
