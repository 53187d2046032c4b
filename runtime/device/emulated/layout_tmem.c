/* tcgen05: instruction descriptors, what each block of a pair holds, and the cells of tensor memory. */
#include "layout.h"

#include <stdio.h>

/* ---- instruction descriptor */

static unsigned field(uint32_t bits, unsigned first, unsigned count) {
    return bits >> first & ((1U << count) - 1);
}

static bool refuse(uint32_t bits, const char *what, unsigned value, const char *right, char *reason) {
    snprintf(reason, LAYOUT_REASON, "the instruction descriptor 0x%08x has %s %u; %s", (unsigned)bits, what, value,
             right);
    return false;
}

static bool check_fixed_bits(uint32_t bits, char *reason) {
    if (field(bits, 0, 2))
        return refuse(bits, "sparsity selector (bits 0-1)", field(bits, 0, 2), "dense products need 0", reason);
    if (field(bits, 2, 1))
        return refuse(bits, "sparsity (bit 2)", 1, "dense products need 0", reason);
    if (field(bits, 3, 1))
        return refuse(bits, "saturation (bit 3)", 1, "only integer products have it", reason);
    static const unsigned reserved[] = {6, 23, 29};
    for (unsigned i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (field(bits, reserved[i], 1)) {
            snprintf(reason, LAYOUT_REASON, "the instruction descriptor 0x%08x has reserved bit %u set; it must be 0",
                     (unsigned)bits, reserved[i]);
            return false;
        }
    if (field(bits, 30, 2))
        return refuse(bits, "maximum shift (bits 30-31)", field(bits, 30, 2), "only .ws products have one", reason);
    return true;
}

static bool decode_types(uint32_t bits, bool tf32, struct layout_instruction *out, char *reason) {
    unsigned d = field(bits, 4, 2), a = field(bits, 7, 3), b = field(bits, 10, 3);
    if (d > 1 || (tf32 && d != 1))
        return refuse(bits, "D type (bits 4-5)", d,
                      tf32 ? "kind::tf32 has 1 (f32)" : "kind::f16 has 0 (f16) and 1 (f32)", reason);
    const char *right = tf32 ? "kind::tf32 has 2 (tf32)" : "kind::f16 has 0 (f16) and 1 (bf16)";
    if (tf32 ? a != 2 : a > 1)
        return refuse(bits, "A type (bits 7-9)", a, right, reason);
    if (tf32 ? b != 2 : b > 1)
        return refuse(bits, "B type (bits 10-12)", b, right, reason);
    if (d == 0 && (a != 0 || b != 0))
        return refuse(bits, "D type f16 with bf16 operands: A, B types", a != 0 ? a : b, "a 16-bit D needs f16 (0)",
                      reason);
    static const enum emu_type types[] = {EMU_F16, EMU_BF16, EMU_TF32};
    out->a_type = types[a];
    out->b_type = types[b];
    out->d_f16 = d == 0;
    return true;
}

static bool decode_shape(uint32_t bits, bool pair, struct layout_instruction *out, char *reason) {
    unsigned m = field(bits, 24, 5) << 4, n = field(bits, 17, 6) << 3, step = pair ? 16 : 8;
    if (pair ? m != 128 && m != 256 : m != 64 && m != 128)
        return refuse(bits, "M (16 times bits 24-28)", m,
                      pair ? "cta_group::2 has 128 and 256, the pair's" : "cta_group::1 has 64 and 128", reason);
    if (n < step || n > 256 || n % step != 0)
        return refuse(bits, "N (8 times bits 17-22)", n,
                      pair ? "cta_group::2 has 16 to 256 in steps of 16, the pair's"
                           : "cta_group::1 has 8 to 256 in steps of 8",
                      reason);
    out->m = m;
    out->n = n;
    return true;
}

bool layout_decode_instruction(uint32_t bits, bool tf32, bool pair, struct layout_instruction *out, char *reason) {
    if (!check_fixed_bits(bits, reason) || !decode_types(bits, tf32, out, reason) ||
        !decode_shape(bits, pair, out, reason))
        return false;
    out->k = tf32 ? 8 : 16;
    out->negate_a = field(bits, 13, 1);
    out->negate_b = field(bits, 14, 1);
    out->a_major = field(bits, 15, 1) ? LAYOUT_MN_MAJOR : LAYOUT_K_MAJOR;
    out->b_major = field(bits, 16, 1) ? LAYOUT_MN_MAJOR : LAYOUT_K_MAJOR;
    return true;
}

/* ---- pairs */

struct layout_share layout_pair_share(unsigned m, unsigned n, bool pair, unsigned rank) {
    unsigned rows = pair ? m / 2 : m, columns = pair ? n / 2 : n;
    return (struct layout_share){.a_row = rank * rows,
                                 .a_rows = rows,
                                 .b_column = rank * columns,
                                 .b_columns = columns,
                                 .d_row = rank * rows,
                                 .d_rows = rows};
}

/* ---- tensor memory */

/* Layouts A and D of 9.7.16.10.5: a row a lane. F, M = 64: 16 rows in each quarter's lanes. B, M = 128 of a pair: the
 * second half of the columns in lanes 64 and up. */
static unsigned row_lane(unsigned m, bool pair, unsigned row) {
    return !pair && m == 64 ? row / 16 * 32 + row % 16 : row;
}

struct layout_cell layout_accumulator_cell(unsigned m, unsigned n, bool pair, unsigned row, unsigned column) {
    struct layout_cell cell = {.lane = row_lane(m, pair, row), .column = column};
    unsigned columns = layout_accumulator_columns(m, n, pair);
    cell.lane += column / columns * 64;
    cell.column = column % columns;
    return cell;
}

unsigned layout_accumulator_columns(unsigned m, unsigned n, bool pair) {
    return pair && m == 128 ? n / 2 : n;
}

struct layout_cell layout_tmem_a_cell(unsigned m, bool pair, unsigned element_bytes, unsigned row, unsigned k) {
    return (struct layout_cell){.lane = row_lane(m, pair, row), .column = k * element_bytes / 4};
}

struct layout_cell layout_tmem_cell(enum emu_shape shape, unsigned thread, unsigned reg, unsigned split) {
    switch (shape) {
    case EMU_16X64B:
        return (struct layout_cell){thread / 4 + thread % 2 * 8, reg * 2 + thread % 4 / 2};
    case EMU_16X128B:
        return (struct layout_cell){thread / 4 + reg % 2 * 8, reg / 2 * 4 + thread % 4};
    case EMU_16X256B:
        return (struct layout_cell){thread / 4 + reg / 2 % 2 * 8, reg / 4 * 8 + thread % 4 * 2 + reg % 2};
    case EMU_16X32BX2:
        return (struct layout_cell){thread % 16, reg + thread / 16 * split};
    case EMU_32X32B:
        break;
    }
    return (struct layout_cell){thread, reg};
}

/* Packing puts two neighbouring columns where otherwise one would be. */
struct layout_cell layout_tmem_packed_cell(enum emu_shape shape, unsigned thread, unsigned reg, unsigned half,
                                           unsigned split) {
    struct layout_cell cell = layout_tmem_cell(shape, thread, reg, 0);
    cell.column = cell.column * 2 + half;
    if (shape == EMU_16X32BX2)
        cell.column += thread / 16 * split;
    return cell;
}

bool layout_tmem_registers(enum emu_shape shape, unsigned registers) {
    unsigned least = shape == EMU_16X256B ? 4 : shape == EMU_16X128B ? 2 : 1;
    return registers >= least && registers <= 128 && (registers & (registers - 1)) == 0;
}

unsigned layout_tmem_lanes(enum emu_shape shape) {
    return shape == EMU_32X32B ? 32 : 16;
}
