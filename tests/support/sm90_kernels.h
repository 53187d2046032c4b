/* Kernels of tests/emulated/kernels/sm90_*.cu, their inputs, and one run of each. What fails for another reason than
 * the kernel's ends the test with a message. */
#ifndef SM90_KERNELS_H
#define SM90_KERNELS_H

#include "emulated_kernel.h"

enum sm90_kernel { SM90_RING, SM90_FRAGMENTS, SM90_COPIES, SM90_CLUSTER };

/* Of a product: N (64, 128, 256), blocks of the grid with 64 rows each, blocks of 64 along K. */
typedef struct sm90_shape {
    int n, blocks, blocks_k;
    bool a_k_major, bf16;
} sm90_shape;

/* The kernel's text for that shape; malloc'ed. */
char *sm90_source(enum sm90_kernel kernel, const sm90_shape *shape);
/* The text, which is freed, with the first occurrence of find replaced. */
char *sm90_planted(char *text, const char *find, const char *put);

/* Of a 16-bit type, as double. */
double sm90_value(uint16_t bits, bool bf16);
/* Index of element (row, column) of a block of 64 x 64 in the 128-byte swizzle (PTX ISA 5.5.7): chunks of 8 elements
 * move by row & 7. */
int sm90_swizzled(int row, int column);

/* Random finite operands; for fp16 some are subnormal. */
typedef struct sm90_operands {
    int m, n, k;
    uint16_t *a, *b;               /* [m][k], [k][n] */
    uint16_t *a_blocks, *b_blocks; /* the same in swizzled blocks, as sm90_ring.cu reads them */
} sm90_operands;
sm90_operands sm90_operands_make(const sm90_shape *shape);
void sm90_operands_free(sm90_operands *operands);

enum {
    SM90_CHUNK = 512,
    SM90_CHUNKS = 3,
    SM90_ELEMENTS = 2 * SM90_CHUNKS * SM90_CHUNK, /* of two blocks */
    SM90_ROUND = 512,
    SM90_ROUNDS = 3,
    SM90_SENT = SM90_ROUNDS * SM90_ROUND,
    SM90_RECEIVED = 2 * SM90_SENT + 2 * SM90_ROUND
};

/* Each runs the kernel of that text on the device; status and *why as kernel_run, NO_DEVICE also where it is not one of
 * compute capability 9.0. Results (NULL: not wanted) are written on success. */
mlpbwd_status sm90_run_ring(const char *device, const char *text, const sm90_shape *shape,
                            const sm90_operands *operands, float *d, mlp_message *why); /* d: [m][n] */
mlpbwd_status sm90_run_fragments(const char *device, const char *text, const sm90_operands *operands, float *d,
                                 mlp_message *why);
/* to, from: SM90_ELEMENTS; sum: SM90_CHUNK. */
mlpbwd_status sm90_run_copies(const char *device, const char *text, const float *from, float *to, float *sum,
                              mlp_message *why);
/* from: SM90_SENT; to: SM90_RECEIVED. */
mlpbwd_status sm90_run_cluster(const char *device, const char *text, const uint32_t *from, uint32_t *to,
                               mlp_message *why);

#endif
