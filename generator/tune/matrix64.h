/* Matrix products in float64 of fp32 or float64 operands with picked rows or columns: what the reference is made of. */
#ifndef MLP_MATRIX64_H
#define MLP_MATRIX64_H

#include <stdbool.h>
#include <stdint.h>

/* Element (r,c) is single or real [row(r) * row_stride + column(c) * column_stride]; row(r) = rows ? rows[r] : r. */
typedef struct matrix64 {
    const float *single; /* exactly one of the two */
    const double *real;
    int64_t row_stride, column_stride;
    const int64_t *rows, *columns;
} matrix64;

/* Element (row, column); nothing is checked. */
double matrix64_at(const matrix64 *m, int64_t row, int64_t column);

/* out[m][n] (dense, row-major) = a[m][k] * b[k][n], on all processors. */
void matrix64_multiply(int64_t m, int64_t n, int64_t k, const matrix64 *a, const matrix64 *b, double *out);

#endif
