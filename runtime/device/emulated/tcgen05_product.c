/* The arithmetic of tcgen05.mma: PTX ISA 9.7.16.10. The order of the sums is this code's own; the hardware's is not
 * documented. */
#include <string.h>

#include "tcgen05.h"
#include "warpgroup.h"

enum { MOST_M = 256, MOST_N = 256, MOST_K = 16, LANES = 8 /* sums at a time: N is a multiple */ };

typedef float floats8 __attribute__((vector_size(32)));

typedef struct operands {
    float a[MOST_M][MOST_K];
    float b[MOST_K][MOST_N];
} operands;

/* ---- numbers ---- */

static float value_of(const unsigned char *bytes, enum emu_type type, bool negate) {
    uint32_t word = 0;
    float value;
    memcpy(&word, bytes, type == EMU_TF32 ? 4 : 2);
    uint32_t sign = type == EMU_TF32 ? 0 : word << 16 & 0x80000000u;
    if (type == EMU_TF32)
        word &= 0xffffe000u; /* a tf32 value has no more bits */
    else if (type == EMU_BF16)
        word <<= 16;
    else
        word = (word & 0x7fff) << 13;
    if (type != EMU_F16) {
        memcpy(&value, &word, sizeof value);
        return negate ? -value : value;
    }
    if ((word & 0x0f800000u) == 0x0f800000u)
        word |= 0x7f800000u; /* Inf, NaN */
    memcpy(&value, &word, sizeof value);
    if (word < 0x7f800000u)
        value *= 0x1p112f; /* the difference of the exponents' biases; right for subnormals, too */
    return (sign != 0) != negate ? -value : value;
}

/* Element (mn, k) of an operand goes to values[mn * mn_step + k * k_step]. */
static void fetch(const emu_block *block, const struct layout_operand *operand, enum emu_type type, bool negate,
                  float *values, size_t mn_step, size_t k_step) {
    const emu_chunks *chunks = emu_operand_chunks(operand, EMU_GROUP_WARPS);
    unsigned per_chunk = LAYOUT_CHUNK / operand->element_bytes;
    bool k_major = operand->major == LAYOUT_K_MAJOR;
    unsigned across = k_major ? operand->k / per_chunk : operand->k;
    for (unsigned i = 0; i < chunks->count; i++) {
        const unsigned char *bytes = block->shared + chunks->at[i];
        size_t mn = i / across, k = i % across, step = k_major ? k_step : mn_step;
        float *to =
            k_major ? values + mn * mn_step + k * per_chunk * k_step : values + mn * per_chunk * mn_step + k * k_step;
        for (unsigned e = 0; e < per_chunk; e++)
            to[e * step] = value_of(bytes + (size_t)e * operand->element_bytes, type, negate);
    }
}

static void fetch_tmem_a(const umma_product *product, const umma_part *part, operands *in) {
    const struct layout_instruction *shape = &product->shape;
    unsigned bytes = shape->a_type == EMU_TF32 ? 4 : 2;
    for (unsigned row = 0; row < part->share.a_rows; row++)
        for (unsigned k = 0; k < shape->k; k++) {
            struct layout_cell cell = layout_tmem_a_cell(shape->m, product->pair, bytes, row, k);
            const uint32_t *word =
                &part->block->tmem
                     ->cells[(product->a_address >> 16) + cell.lane][(product->a_address & 0xffff) + cell.column];
            const unsigned char *from = (const unsigned char *)word + (bytes == 2 ? k % 2 * 2 : 0);
            in->a[row][k] = value_of(from, shape->a_type, shape->negate_a);
        }
}

/* ---- sums ---- */

/* The compiler may take wider instructions in one copy of this function. */
#define INLINE static inline __attribute__((always_inline))

INLINE void add_row(uint32_t *cells, const float a[MOST_K], const float (*b)[MOST_N], unsigned first, unsigned columns,
                    unsigned depth, bool accumulate) {
    for (unsigned j = 0; j < columns; j += LANES) {
        floats8 sum = {0}, factor;
        if (accumulate)
            memcpy(&sum, cells + j, sizeof sum);
        for (unsigned k = 0; k < depth; k++) {
            memcpy(&factor, b[k] + first + j, sizeof factor);
            sum += factor * a[k];
        }
        memcpy(cells + j, &sum, sizeof sum);
    }
}

INLINE void add_rows(const umma_product *product, const umma_part *part, const operands *in) {
    const struct layout_instruction *shape = &product->shape;
    unsigned columns = layout_accumulator_columns(shape->m, shape->n, product->pair);
    for (unsigned row = 0; row < part->share.d_rows; row++)
        for (unsigned first = 0; first < shape->n; first += columns) {
            struct layout_cell cell = layout_accumulator_cell(shape->m, shape->n, product->pair, row, first);
            uint32_t *cells =
                &part->block->tmem->cells[(product->d >> 16) + cell.lane][(product->d & 0xffff) + cell.column];
            add_row(cells, in->a[row], in->b, first, columns, shape->k, product->accumulate);
        }
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void add_rows_wide(const umma_product *product, const umma_part *part,
                                                              const operands *in) {
    add_rows(product, part, in);
}
#endif

static void add_rows_plain(const umma_product *product, const umma_part *part, const operands *in) {
    add_rows(product, part, in);
}

void umma_multiply(const umma_product *product) {
    static operands in; /* one launch runs at a time */
    const struct layout_instruction *shape = &product->shape;
    for (unsigned i = 0; i < product->parts; i++) {
        const umma_part *part = &product->part[i];
        fetch(part->block, &part->b, shape->b_type, shape->negate_b, in.b[0] + part->share.b_column, 1, MOST_N);
    }
    for (unsigned i = 0; i < product->parts; i++) {
        const umma_part *part = &product->part[i];
        if (product->a_in_tmem)
            fetch_tmem_a(product, part, &in);
        else
            fetch(part->block, &part->a, shape->a_type, shape->negate_a, in.a[0], MOST_K, 1);
#if defined(__x86_64__)
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
            add_rows_wide(product, part, &in);
            continue;
        }
#endif
        add_rows_plain(product, part, &in);
    }
}
