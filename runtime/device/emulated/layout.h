/* Where the tensor-core instructions of sm_80, sm_90 and sm_100 find and put their elements: pure functions, no state.
 * Every table of tests/vectors holds for them. Section numbers are those of the PTX ISA 9.0/9.1.
 *
 * Words. K-major: the index that a product sums over is contiguous in memory; MN-major: the row (of A) or column (of B)
 * index is. Shared addresses are byte addresses in the block's own window. A function that can refuse returns false and
 * leaves its reason, one sentence, in reason[LAYOUT_REASON]; out is undefined then. Arguments documented as a range are
 * the caller's duty. */
#ifndef MLPBWD_EMULATED_LAYOUT_H
#define MLPBWD_EMULATED_LAYOUT_H

#include "api.h"
#include <stdbool.h>
#include <stdint.h>

enum { LAYOUT_REASON = 240, LAYOUT_CHUNK = 16 /* bytes that every layout keeps together */, LAYOUT_MOST_CHUNKS = 512 };

enum layout_swizzle {
    LAYOUT_SWIZZLE_NONE,
    LAYOUT_SWIZZLE_32B,
    LAYOUT_SWIZZLE_64B,
    LAYOUT_SWIZZLE_128B,
    LAYOUT_SWIZZLE_128B_ATOM_32B /* moves 32-byte pieces; sm_100 only */
};
enum layout_major { LAYOUT_K_MAJOR, LAYOUT_MN_MAJOR };

/* ---- swizzles: 5.5.7 */

/* Bytes in one row of the pattern: 32, 64, 128; without a swizzle the 16 of its core matrices' rows. */
unsigned layout_swizzle_width(enum layout_swizzle swizzle);
/* Bytes after which the pattern repeats, which is the alignment a tile needs: 256, 512, 1024; 512 with 32-byte atoms;
 * 16 without a swizzle. */
unsigned layout_swizzle_repeat(enum layout_swizzle swizzle);
/* Where the byte lies that an unswizzled tile would have at this absolute address. Its own inverse. */
uint32_t layout_swizzle_address(enum layout_swizzle swizzle, uint32_t address);
/* "128B" and so on, for messages. */
const char *layout_swizzle_name(enum layout_swizzle swizzle);

/* ---- tensor copies: 5.5.7, 9.7.9.25.5; CUtensorMapSwizzle of cuda.h */

/* The swizzle of a CUtensorMapSwizzle value: 0 none, 1 32B, 2 64B, 3 128B, 4 128B_ATOM_32B. Refused: others. */
bool layout_tensor_map_swizzle(unsigned value, enum layout_swizzle *out, char *reason);
/* Bytes from one row of a box to the next in shared memory: the swizzle's width, whatever the box holds of it; without
 * a swizzle the row's own bytes. */
unsigned layout_box_pitch(enum layout_swizzle swizzle, unsigned row_bytes);
/* Absolute address of byte `byte` of row `row` of a box that begins at `base`; rows count through all outer dimensions
 * of the box, innermost of these first. The 16 bytes of an aligned chunk stay together. */
uint32_t layout_box_address(enum layout_swizzle swizzle, uint32_t base, unsigned row_bytes, unsigned row,
                            unsigned byte);
/* Whether a box may begin there: 128 bytes' alignment (9.7.9.25.5.2), and the pattern's repeat, as every reader of this
 * project's tiles assumes. Refused also: rows that are not a multiple of 16 bytes or are wider than the swizzle. */
bool layout_check_box(enum layout_swizzle swizzle, uint32_t base, unsigned row_bytes, char *reason);

/* ---- shared-memory operands: 9.7.15.5.1 (wgmma), 9.7.16.3 and 9.7.16.4.1 (tcgen05) */

struct layout_descriptor {
    uint32_t start;           /* byte address, 18 bits */
    uint32_t leading, stride; /* byte offsets, 18 bits */
    unsigned base_offset;     /* 0-7: bits 7-9 of the address where the pattern starts */
    enum layout_swizzle swizzle;
};

/* wgmma's 64-bit descriptor (9.7.15.5.1.2.2). Refused: bits that must be 0; bit 46 set (tcgen05's form). */
bool layout_decode_sm90(uint64_t bits, struct layout_descriptor *out, char *reason);
/* tcgen05's 64-bit descriptor (table 40). Refused: bits 46-48 not 0b001, bits that must be 0, absolute leading offset
 * (bit 52), swizzles 3, 5, 7. */
bool layout_decode_sm100(uint64_t bits, struct layout_descriptor *out, char *reason);

/* What one instruction reads as A or B. */
struct layout_operand {
    struct layout_descriptor at;
    enum layout_major major;
    unsigned element_bytes; /* 2: f16, bf16; 4: tf32 */
    unsigned mn, k;         /* elements: k is 32 bytes' worth; mn a multiple of 8 (wgmma: A 64, B N) up to 256 */
};

/* Whether the instruction set allows it. Refused: 16-bit MN-major with 32-byte atoms; tf32 MN-major with any other
 * swizzle (none on wgmma, so all there); an operand that does not start in the first row of its swizzle pattern (start
 * or base offset wrong); a leading or stride offset, where one is used, that is not a multiple of the pattern's repeat.
 */
bool layout_check_operand(const struct layout_operand *operand, char *reason);
/* Absolute byte address of element (mn, k), 0 <= mn < operand->mn, 0 <= k < operand->k. May lie past the end of shared
 * memory when the descriptor is wrong: the caller compares it with what the block has. */
uint32_t layout_element_address(const struct layout_operand *operand, unsigned mn, unsigned k);
/* Addresses of all 16-byte chunks, E = 16 / element_bytes elements each. K-major: chunk [mn][k / E] has E values of k;
 * MN-major: chunk [mn / E][k] has E values of mn. Returns how many, at most LAYOUT_MOST_CHUNKS. */
unsigned layout_operand_chunks(const struct layout_operand *operand, uint32_t *addresses);

/* ---- tcgen05 instruction descriptor: 9.7.16.4.2 table 42, 9.7.16.2.1 table 39 */

struct layout_instruction {
    unsigned m, n, k;             /* of the whole instruction: of the pair with cta_group::2 */
    enum emu_type a_type, b_type; /* kind::tf32: both EMU_TF32 */
    bool d_f16;                   /* else f32 */
    bool negate_a, negate_b;
    enum layout_major a_major, b_major;
};

/* kind::tf32 where tf32, else kind::f16; cta_group::2 where pair. Refused: sparsity, saturation, reserved bits, a shift
 * (of .ws only), a type that the kind lacks, M or N that the group lacks. */
bool layout_decode_instruction(uint32_t bits, bool tf32, bool pair, struct layout_instruction *out, char *reason);

/* ---- pairs: 9.7.16.5, 9.7.16.10 */

/* What the block of rank 0 or 1 in its pair holds of an M x N x K instruction; alone (rank 0 of no pair): everything.
 */
struct layout_share {
    unsigned a_row, a_rows;       /* of A, in the block's own shared memory */
    unsigned b_column, b_columns; /* of B, likewise */
    unsigned d_row, d_rows;       /* of D, in the block's own tensor memory; all columns */
};
struct layout_share layout_pair_share(unsigned m, unsigned n, bool pair, unsigned rank);

/* ---- tensor memory: 9.7.16.1, 9.7.16.2.3, 9.7.16.8, 9.7.16.10.5 */

struct layout_cell {
    unsigned lane, column;
};

/* Cell of element (row, column) of D, relative to D's address: row counts within this block's share, m and n are the
 * whole instruction's. One element a cell: a 16-bit result is the lower half. */
struct layout_cell layout_accumulator_cell(unsigned m, unsigned n, bool pair, unsigned row, unsigned column);
/* Cell of A in tensor memory, likewise; 16-bit types: k even, the cell holds k and k + 1. No table confirms it for the
 * M = 128 pair form. */
struct layout_cell layout_tmem_a_cell(unsigned m, bool pair, unsigned element_bytes, unsigned row, unsigned k);
/* Columns of tensor memory that D takes: n, or n / 2 in the M = 128 pair form. */
unsigned layout_accumulator_columns(unsigned m, unsigned n, bool pair);

/* tcgen05.ld and .st. Cell of register `reg` of thread `thread` (0-31), relative to the address; split is the immediate
 * of 16x32bx2, in columns, else 0. That shape rests on the text of 9.7.16.8 and on CuTe's traits, not on a table. */
struct layout_cell layout_tmem_cell(enum emu_shape shape, unsigned thread, unsigned reg, unsigned split);
/* The same with .pack::16b or .unpack::16b: the cell whose lower 16 bits are half 0 or 1 of the register. */
struct layout_cell layout_tmem_packed_cell(enum emu_shape shape, unsigned thread, unsigned reg, unsigned half,
                                           unsigned split);
/* Whether the shape exists with so many registers a thread (.num times 1, 2, 4). */
bool layout_tmem_registers(enum emu_shape shape, unsigned registers);
/* Lanes that one access touches from its address on: 32, or 16. */
unsigned layout_tmem_lanes(enum emu_shape shape);

/* ---- register fragments */

struct layout_element {
    unsigned row, column;
};

/* wgmma D, 64 x N (9.7.15.5.1.1): thread 0-127 of the warpgroup, reg 0 to N / 2 - 1; and back. */
struct layout_element layout_wgmma_d(unsigned thread, unsigned reg);
void layout_wgmma_d_register(unsigned row, unsigned column, unsigned *thread, unsigned *reg);
/* wgmma A from registers, 64 x 16 (16 bit; half 0 or 1 of the register) or 64 x 8 (tf32; half 0): reg 0-3; column is k.
 */
struct layout_element layout_wgmma_a(unsigned element_bytes, unsigned thread, unsigned reg, unsigned half);
/* mma.m16n8k16, 16-bit operands (9.7.14.5.8), lane 0-31, half 0-1. A: reg 0-3, (m, k). B: reg 0-1, (k, n). D: reg 0-3,
 * (m, n). */
struct layout_element layout_mma_a(unsigned lane, unsigned reg, unsigned half);
struct layout_element layout_mma_b(unsigned lane, unsigned reg, unsigned half);
struct layout_element layout_mma_d(unsigned lane, unsigned reg);
/* ldmatrix and stmatrix, 8 x 8 of 16 bit (9.7.14.5.15, .16): element of matrix i that half `half` of register i of a
 * lane has; row r of matrix i stands at the address that lane 8 * i + r gave. */
struct layout_element layout_matrix_element(unsigned lane, unsigned half, bool transpose);

#endif
