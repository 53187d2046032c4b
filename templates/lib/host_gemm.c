
/* C[M][N] = A * B with B[K][N] in rows; A is [M][K], or [K][M] where A_TRANSPOSED. One call computes tiles of C until
 * none is left: blocks of BLOCK_K of both operands are packed into this grid point's panels, then micro tiles of
 * MICRO_ROWS x MICRO_COLUMNS are summed in registers. Sums of one block are added to C, so that a long K loses no
 * more than its blocks. Padding of a panel is zero and its results are never stored. */
#define MICRO_ROWS ${micro_rows}
#define MICRO_VECTORS ${micro_vectors}
#define MICRO_COLUMNS (MICRO_VECTORS * LANES)
#define TILE_M ${tile_m}
#define TILE_N ${tile_n}
#define BLOCK_K ${block_k}
#define PANEL_FLOATS ${panel_floats} /* both panels and, at the end, TILE_N doubles */
#define A_TRANSPOSED ${a_transposed}

typedef struct problem {
    const float *a, *b, *input; /* input: of gelu, or NULL */
    float *c, *column_sums;
    i64 m, n, k, tile_n; /* tile_n <= TILE_N: smaller where there would be fewer tasks than processors */
    i32 add, activation;
} problem;

typedef float four __attribute__((vector_size(16), may_alias));
typedef float four_any __attribute__((vector_size(16), aligned(4), may_alias));

/* rows x columns of the block at `from` to panels of MICRO_ROWS rows, k-major. */
static __attribute__((noinline)) void pack_a(float *to, const float *from, i64 stride, i64 rows, i64 columns) {
#if A_TRANSPOSED
    for (i64 k = 0; k < columns; k++) {
        for (i64 i = 0; i < rows; i += MICRO_ROWS) {
            float *panel = to + i * columns + k * MICRO_ROWS;
            const float *line = from + k * stride + i;
            if (rows - i >= MICRO_ROWS) {
                __builtin_memcpy(panel, line, sizeof(float) * MICRO_ROWS);
            } else {
                for (i64 r = 0; r < MICRO_ROWS; r++) {
                    panel[r] = r < rows - i ? line[r] : 0.0F;
                }
            }
        }
    }
#else
    static const float zeros[BLOCK_K];
    for (i64 i = 0; i < rows; i += MICRO_ROWS, to += MICRO_ROWS * columns) {
        for (i64 group = 0; group < MICRO_ROWS; group += 4) {
            i64 first = least(group, MICRO_ROWS - 4); /* the last group may repeat rows of the one before */
            const float *line[4];
            for (i64 r = 0; r < 4; r++) {
                line[r] = i + first + r < rows ? from + (i + first + r) * stride : zeros;
            }
            i64 k = 0;
            for (; k + 4 <= columns; k += 4) {
                four r0 = *(const four_any *)(line[0] + k), r1 = *(const four_any *)(line[1] + k);
                four r2 = *(const four_any *)(line[2] + k), r3 = *(const four_any *)(line[3] + k);
                four low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
                four low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
                four high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
                four high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
                float *panel = to + k * MICRO_ROWS + first;
                *(four_any *)panel = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
                *(four_any *)(panel + MICRO_ROWS) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
                *(four_any *)(panel + 2 * MICRO_ROWS) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
                *(four_any *)(panel + 3 * MICRO_ROWS) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
            }
            for (; k < columns; k++) {
                for (i64 r = 0; r < 4; r++) {
                    to[k * MICRO_ROWS + first + r] = line[r][k];
                }
            }
        }
    }
#endif
}

/* rows x columns of the block at `from` to panels of MICRO_COLUMNS columns; columns is a multiple of LANES. */
static __attribute__((noinline)) void pack_b(float *to, const float *from, i64 stride, i64 rows, i64 columns) {
    for (i64 k = 0; k < rows; k++) {
        const float *line = from + k * stride;
        float *panel = to + k * MICRO_COLUMNS;
        i64 j = 0;
        for (; j + MICRO_COLUMNS <= columns; j += MICRO_COLUMNS, panel += rows * MICRO_COLUMNS) {
            for (int v = 0; v < MICRO_VECTORS; v++) {
                *(vector *)(panel + v * LANES) = *(const vector_any *)(line + j + v * LANES);
            }
        }
        for (int v = 0; j < columns && v < MICRO_VECTORS; v++) {
            i64 column = j + v * LANES;
            vector value = {0};
            if (column < columns) {
                value = *(const vector_any *)(line + column);
            }
            *(vector *)(panel + v * LANES) = value;
        }
    }
}

/* One micro tile: c (+)= packed a * packed b over `depth`; stores `rows` rows and `vectors` vectors of it. */
static __attribute__((noinline)) void micro_tile(const float *a, const float *b, i64 depth, float *c, i64 stride,
                                                 i64 rows, i64 vectors, int add) {
${micro_declare}
    i64 k = 0;
    for (; k + ${unroll} <= depth; k += ${unroll}) {
${micro_steps}
    }
    for (; k < depth; k++) {
${micro_step}
    }
${micro_store}
}

static void compute_tile(const problem *p, float *panel, i64 m0, i64 n0, i64 k0, i64 k1, float *c, int add) {
    i64 rows = least(TILE_M, p->m - m0), columns = least(p->tile_n, p->n - n0);
${tile_begin}
    float *panel_a = panel, *panel_b = panel + ${panel_a_floats};
    for (i64 k = k0; k < k1; k += BLOCK_K, add = 1) {
        i64 depth = least(BLOCK_K, k1 - k);
        const float *a = A_TRANSPOSED ? p->a + k * p->m + m0 : p->a + m0 * p->k + k;
        pack_a(panel_a, a, A_TRANSPOSED ? p->m : p->k, rows, depth);
        pack_b(panel_b, p->b + k * p->n + n0, p->n, depth, columns);
        for (i64 j = 0; j < columns; j += MICRO_COLUMNS) {
            for (i64 i = 0; i < rows; i += MICRO_ROWS) {
                i64 offset = (m0 + i) * p->n + n0 + j;
                micro_tile(panel_a + i * depth, panel_b + j * depth, depth, c + offset, p->n,
                           least(MICRO_ROWS, rows - i), least(MICRO_COLUMNS, columns - j) / LANES, add);
${tile_epilogue}
            }
        }
    }
${tile_end}
}

/* Sets the number of the next tile to 0 for the launch that follows. */
void host_gemm_start(void *const *args, unsigned x, unsigned y, unsigned z) {
    (void)x, (void)y, (void)z;
    **(i64 *const *)args[0] = 0;
}

/* The part of K that one split sums: whole blocks, so that fewer splits than asked for may have work. */
static i64 split_length(i64 k, i64 splits) {
    return ((k + splits - 1) / splits + BLOCK_K - 1) / BLOCK_K * BLOCK_K;
}

/* Tiles are handed out one by one, so that a processor that others disturb does not hold up the rest; which of them
 * computes a tile changes no bit of it. */
static void compute_tiles(const problem *p, float *panel, i64 *next, i64 splits) {
    i64 tiles_m = (p->m + TILE_M - 1) / TILE_M, tiles_n = (p->n + p->tile_n - 1) / p->tile_n;
    i64 chunk = split_length(p->k, splits);
    splits = (p->k + chunk - 1) / chunk;
    for (;;) {
        i64 tile = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED);
        if (tile >= tiles_m * tiles_n * splits) {
            return;
        }
        i64 split = tile / (tiles_m * tiles_n), m0 = tile % tiles_m * TILE_M, n0 = tile / tiles_m % tiles_n * p->tile_n;
        i64 k0 = least(split * chunk, p->k), k1 = least(k0 + chunk, p->k);
        compute_tile(p, panel, m0, n0, k0, k1, p->c + split * p->m * p->n, p->add);
    }
}
