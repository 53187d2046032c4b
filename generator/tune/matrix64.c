#include "matrix64.h"

#include <string.h>

#include "parallel.h"

/* One task computes a block of BLOCK_M x BLOCK_N elements from operands packed into panels (PANEL_M rows of a, PANEL_N
 * columns of b, k fastest-but-one) by register tiles. */
enum { BLOCK_M = 32, BLOCK_N = 64, BLOCK_K = 128, PANEL_M = 4, PANEL_N = 8 };

typedef struct product {
    int64_t m, n, k, blocks_n;
    const matrix64 *a, *b;
    double *out;
    void (*tile)(int64_t k, const double *a, const double *b, double *c);
} product;

double matrix64_at(const matrix64 *m, int64_t row, int64_t column) {
    int64_t at =
        (m->rows ? m->rows[row] : row) * m->row_stride + (m->columns ? m->columns[column] : column) * m->column_stride;
    if (m->single)
        return (double)m->single[at];
    return m->real ? m->real[at] : 0;
}

static inline __attribute__((always_inline)) void tile_body(int64_t k, const double *a, const double *b, double *c) {
    double sum[PANEL_M][PANEL_N] = {{0}};
    for (int64_t p = 0; p < k; p++)
        for (int i = 0; i < PANEL_M; i++)
            for (int j = 0; j < PANEL_N; j++)
                sum[i][j] += a[p * PANEL_M + i] * b[p * PANEL_N + j];
    for (int i = 0; i < PANEL_M; i++)
        for (int j = 0; j < PANEL_N; j++)
            c[i * BLOCK_N + j] += sum[i][j];
}

static void tile_portable(int64_t k, const double *a, const double *b, double *c) {
    tile_body(k, a, b, c);
}

#if defined(__x86_64__)
typedef double quad __attribute__((vector_size(32), aligned(8)));

/* The same tile with vectors spelled out, since the build targets any x86-64. */
__attribute__((target("avx2,fma"))) static void tile_avx2(int64_t k, const double *a, const double *b, double *c) {
    quad sum[PANEL_M][2] = {{{0}}};
    for (int64_t p = 0; p < k; p++) {
        quad low = *(const quad *)(b + p * PANEL_N), high = *(const quad *)(b + p * PANEL_N + 4);
        for (int i = 0; i < PANEL_M; i++) {
            double x = a[p * PANEL_M + i];
            sum[i][0] += x * low;
            sum[i][1] += x * high;
        }
    }
    for (int i = 0; i < PANEL_M; i++) {
        *(quad *)(c + (int64_t)i * BLOCK_N) += sum[i][0];
        *(quad *)(c + (int64_t)i * BLOCK_N + 4) += sum[i][1];
    }
}
#endif

/* panels[panel][k][width] of `vectors` rows (along_k: columns) of the operand starting at (row, column); missing ones
 * are zero. */
static void pack(const matrix64 *m, bool vectors_are_rows, int64_t vector, int64_t vectors, int64_t first_k, int64_t k,
                 int width, double *panels) {
    int64_t padded = (vectors + width - 1) / width * width;
    for (int64_t v = 0; v < padded; v++) {
        double *to = panels + v / width * k * width + v % width;
        for (int64_t p = 0; p < k; p++)
            to[p * width] = v >= vectors       ? 0
                            : vectors_are_rows ? matrix64_at(m, vector + v, first_k + p)
                                               : matrix64_at(m, first_k + p, vector + v);
    }
}

/* The common case, rows of b contiguous in memory, read row by row. */
static void pack_rows(const matrix64 *m, int64_t column, int64_t columns, int64_t first_k, int64_t k, double *panels) {
    for (int64_t p = 0; p < k; p++) {
        int64_t at = (m->rows ? m->rows[first_k + p] : first_k + p) * m->row_stride + column;
        const float *from = m->single + at;
        for (int64_t v = 0; v < BLOCK_N; v += PANEL_N)
            for (int j = 0; j < PANEL_N; j++)
                panels[(v * k) + p * PANEL_N + j] = v + j < columns ? (double)from[v + j] : 0;
    }
}

static void block(void *user, int64_t index) {
    const product *job = user;
    int64_t row = index / job->blocks_n * BLOCK_M, column = index % job->blocks_n * BLOCK_N;
    int64_t rows = job->m - row < BLOCK_M ? job->m - row : BLOCK_M;
    int64_t columns = job->n - column < BLOCK_N ? job->n - column : BLOCK_N;
    double a[BLOCK_M * BLOCK_K], b[BLOCK_N * BLOCK_K], c[BLOCK_M * BLOCK_N];
    memset(c, 0, sizeof c);
    for (int64_t first = 0; first < job->k; first += BLOCK_K) {
        int64_t k = job->k - first < BLOCK_K ? job->k - first : BLOCK_K;
        pack(job->a, true, row, rows, first, k, PANEL_M, a);
        if (job->b->single && job->b->column_stride == 1 && !job->b->columns)
            pack_rows(job->b, column, columns, first, k, b);
        else
            pack(job->b, false, column, columns, first, k, PANEL_N, b);
        for (int64_t j = 0; j < columns; j += PANEL_N)
            for (int64_t i = 0; i < rows; i += PANEL_M)
                job->tile(k, a + i * k, b + j * k, c + i * BLOCK_N + j);
    }
    for (int64_t i = 0; i < rows; i++)
        memcpy(job->out + (row + i) * job->n + column, c + i * BLOCK_N, (size_t)columns * sizeof(double));
}

void matrix64_multiply(int64_t m, int64_t n, int64_t k, const matrix64 *a, const matrix64 *b, double *out) {
    product job = {m, n, k, (n + BLOCK_N - 1) / BLOCK_N, a, b, out, tile_portable};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        job.tile = tile_avx2;
#endif
    parallel_for((m + BLOCK_M - 1) / BLOCK_M * job.blocks_n, block, &job);
}
