/* Products of tcgen05.mma: private to tcgen05.c and tcgen05_product.c. */
#ifndef EMULATED_TCGEN05_H
#define EMULATED_TCGEN05_H

#include "tmem.h"

/* What one block holds of a product. */
typedef struct umma_part {
    emu_block *block;
    struct layout_share share;
    struct layout_operand a, b; /* in shared memory; a: unless A is in tensor memory */
    emu_effect *read_a, *read_b;
    tmem_access *write, *tmem_a;
} umma_part;

typedef struct umma_product {
    emu_async async;
    struct layout_instruction shape;
    bool pair, accumulate, a_in_tmem;
    uint32_t d, a_address; /* in tensor memory */
    uint32_t slot, clock;  /* the epoch of its end */
    unsigned parts;        /* 1, or 2 of a pair, by rank */
    umma_part part[2];
} umma_product;

/* D = A * B (+ D) in the tensor memory of its blocks, with fp32 sums. */
void umma_multiply(const umma_product *product);

#endif
