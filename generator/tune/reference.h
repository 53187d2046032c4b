/* The formulas of the header in float64 on given fp32 inputs: every element for small problems, rows (and columns,
 * where one needs no more than a row) of every output for large ones. */
#ifndef MLP_REFERENCE_H
#define MLP_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "inputs.h"

/* Rows of one output, or columns of it (transposed). Biases are [n,1]. */
typedef struct reference_part {
    int output;            /* 0..4, in the order of mlpbwd_tensors */
    bool transposed;       /* index names columns, values are [count][rows of the output] */
    int64_t rows, columns; /* of the whole output */
    int64_t count, length; /* index[count], values[count][length] */
    int64_t *index;        /* ascending */
    double *values;
    double *absolute; /* grad_bias1, grad_bias2: sum of |x| for each value; else NULL */
} reference_part;

enum { REFERENCE_PARTS = 6 }; /* the five outputs, then columns of grad_weight2 (count 0 when complete) */

typedef struct reference {
    tensor_sizes sizes;
    int activation;
    bool complete;                    /* every row of every output */
    bool finite;                      /* every value is finite and within float32 */
    double magnitude[TENSOR_OUTPUTS]; /* K * max|A| * max|B| of the output's product A*B (largest finite magnitudes) */
    reference_part part[REFERENCE_PARTS];
} reference;

/* samples: how many rows (or columns) of each matrix at most, one at random from each of that many equal stripes, the
 * first and the last row among them; 0: all. The biases are always complete. The cost is about T*H*I +
 * samples * 2 * (H*I + 2*T*H + T*I) multiply-adds on all processors. The inputs are only read. On failure
 * (OUT_OF_MEMORY) *out needs no freeing. */
mlpbwd_status reference_create(const inputs *in, int activation, int64_t samples, uint64_t seed, reference *out,
                               mlp_message *why);
/* What reference_create computed, as bytes for another process of this program (malloc'ed); NULL: no memory. */
void *reference_results(const reference *r, size_t *size);
/* The reference that reference_create would make of these inputs, from its results instead. INVALID_ARGUMENT: they are
 * another problem's; on failure *out needs no freeing. */
mlpbwd_status reference_restore(const inputs *in, int activation, int64_t samples, uint64_t seed, const void *results,
                                size_t size, reference *out, mlp_message *why);
void reference_free(reference *r); /* {0} is harmless */

/* The derivative of GELU in float64 (mlpbwd_activation). */
double reference_gelu_derivative(double x, int activation);

#endif
