/* What wgmma and setmaxnreg share: a warpgroup's four warps execute the same instructions (PTX ISA 9.7.15, 9.7.19.5).
 * Private to warpgroup.c, wgmma.c, wgmma_product.c and registers.c. */
#ifndef EMULATED_WARPGROUP_H
#define EMULATED_WARPGROUP_H

#include "emulator.h"
#include "layout.h"

enum { EMU_GROUP_WARPS = 4, EMU_GROUP_THREADS = 128, EMU_WARP_ROWS = 16 /* of D's 64 */, EMU_PRODUCT_K = 16 };

/* ---- warpgroup.c ---- */

/* One instruction of a warpgroup, for comparison between its warps. */
typedef struct emu_step {
    const char *name; /* "wgmma.mma_async", static */
    uint64_t a, b;    /* what must agree: descriptors */
    uint32_t number;  /* and everything else */
    emu_site site;
} emu_step;

typedef struct emu_steps emu_steps;             /* the instructions that not all warps of a warpgroup have executed */
typedef struct emu_warp_matrix emu_warp_matrix; /* wgmma's operations of one warp (wgmma.c) */

struct emu_wgmma {
    emu_steps *steps;        /* of each warpgroup */
    emu_warp_matrix **warps; /* of each warp; NULL: it has used no wgmma */
    uint32_t *registers;     /* of a thread, by warp (registers.c) */
    uint32_t free_registers; /* of the block: released by setmaxnreg.dec and not taken yet */
};

/* The block's state, made at its first use. */
struct emu_wgmma *emu_wgmma_of(emu_block *block);
/* The warp of that first lane executes an instruction: compares it with what the other warps of the warpgroup have
 * executed there. Faults: it differs, the warpgroup is not whole, another warp has exited without it. */
void emu_warpgroup_step(emu_thread *first, const emu_step *step);

/* wgmma.c: checks at a warp's exit, by its first lane; frees a warp's operations. */
void emu_matrix_exit(emu_warp_matrix *warp);
void emu_matrix_free(emu_warp_matrix *warp);

/* ---- wgmma_product.c ---- */

/* Where an operand lies, in offsets of the block's shared memory. */
typedef struct emu_chunks {
    uint32_t count, range_count;
    uint32_t at[LAYOUT_MOST_CHUNKS]; /* in the order of layout_operand_chunks */
    struct emu_range {
        uint32_t first, bytes;
    } ranges[LAYOUT_MOST_CHUNKS]; /* the same memory, ascending */
} emu_chunks;

/* Chunks of the whole operand, or where warp < 4 of the 16 rows of A that are that warp's. Kept for the next call with
 * the same operand; valid until another call. */
const emu_chunks *emu_operand_chunks(const struct layout_operand *operand, uint32_t warp);

/* 16 rows: D = A * B (+ D), K = 16. values: [16][n]. Products are exact; a sum is rounded to fp32 once. */
typedef struct emu_product {
    const unsigned char *shared;
    enum emu_type type; /* EMU_F16 or EMU_BF16 */
    uint32_t n;
    struct layout_operand a, b;     /* of the whole instruction */
    uint32_t warp;                  /* in the warpgroup */
    const uint32_t (*fragments)[4]; /* [lane]: A in registers; NULL: a is used */
    bool accumulate;
    float *values;
} emu_product;
void emu_product_run(const emu_product *product);

#endif
