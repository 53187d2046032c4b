/* The arithmetic of wgmma: 16 rows of a warp, K = 16. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "warpgroup.h"

/* ---- where operands lie ---- */

enum { KEPT = 128 /* operands; a ring of stages has a few dozen */, ALL_ROWS = EMU_GROUP_WARPS };

typedef struct kept_operand {
    struct layout_operand operand;
    uint32_t warp;
    bool used;
    emu_chunks chunks;
} kept_operand;

static kept_operand kept[KEPT]; /* one launch runs at a time */

static bool same_operand(const struct layout_operand *a, const struct layout_operand *b) {
    return a->at.start == b->at.start && a->at.leading == b->at.leading && a->at.stride == b->at.stride &&
           a->at.base_offset == b->at.base_offset && a->at.swizzle == b->at.swizzle && a->major == b->major &&
           a->mn == b->mn && a->k == b->k && a->element_bytes == b->element_bytes;
}

static int ascending(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void find_ranges(emu_chunks *chunks) {
    uint32_t sorted[LAYOUT_MOST_CHUNKS];
    memcpy(sorted, chunks->at, chunks->count * sizeof *sorted);
    qsort(sorted, chunks->count, sizeof *sorted, ascending);
    chunks->range_count = 0;
    for (uint32_t i = 0; i < chunks->count; i++) {
        struct emu_range *last = chunks->range_count ? &chunks->ranges[chunks->range_count - 1] : NULL;
        if (last && sorted[i] < last->first + last->bytes)
            continue; /* two elements at one place: a stride of 0 */
        if (last && sorted[i] == last->first + last->bytes)
            last->bytes += LAYOUT_CHUNK;
        else
            chunks->ranges[chunks->range_count++] = (struct emu_range){sorted[i], LAYOUT_CHUNK};
    }
}

const emu_chunks *emu_operand_chunks(const struct layout_operand *operand, uint32_t warp) {
    uint32_t key = operand->at.start / LAYOUT_CHUNK;
    key = (key * 31 + operand->at.leading / LAYOUT_CHUNK + operand->at.stride + operand->mn) * 5 + warp;
    kept_operand *place = &kept[(key ^ key >> 7) % KEPT];
    if (place->used && place->warp == warp && same_operand(&place->operand, operand))
        return &place->chunks;
    uint32_t addresses[LAYOUT_MOST_CHUNKS];
    uint32_t count = layout_operand_chunks(operand, addresses), first = 0;
    if (warp < ALL_ROWS) { /* rows are the slower index of either list */
        count /= EMU_GROUP_WARPS;
        first = warp * count;
    }
    *place = (kept_operand){.operand = *operand, .warp = warp, .used = true, .chunks = {.count = count}};
    for (uint32_t i = 0; i < count; i++)
        place->chunks.at[i] = addresses[first + i] - EMU_SHARED_START;
    find_ranges(&place->chunks);
    return &place->chunks;
}

/* ---- numbers ---- */

/* Vectors that every 64-bit machine has; wider ones were slower where it lacks them and 1.4 times as fast elsewhere. */
typedef uint32_t words4 __attribute__((vector_size(16)));
typedef float floats4 __attribute__((vector_size(16)));
typedef float floats2 __attribute__((vector_size(8)));
typedef double doubles2 __attribute__((vector_size(16)));

enum { CHUNK_ELEMENTS = 8, LANES = 4 };

#define INLINE static inline __attribute__((always_inline))

INLINE void decode_half(const uint16_t *halves, enum emu_type type, double *to) {
    words4 bits = {halves[0], halves[1], halves[2], halves[3]}, wide = bits << 16;
    if (type == EMU_F16) {
        /* The exponent's bias differs by 112; multiplying also makes subnormals right. Inf and NaN need fp32's. */
        words4 magnitude = (bits & 0x7fff) << 13, special = (words4)((bits & 0x7c00) == 0x7c00);
        words4 scaled = (words4)((floats4)magnitude * 0x1p112f);
        wide = (scaled & ~special) | ((magnitude | 0x7f800000) & special) | (wide & 0x80000000);
    }
    floats4 values = (floats4)wide;
    for (int i = 0; i < LANES; i++)
        to[i] = values[i];
}

/* The eight elements of a chunk. */
INLINE void decode(const void *chunk, enum emu_type type, double *to) {
    uint16_t halves[CHUNK_ELEMENTS];
    memcpy(halves, chunk, sizeof halves);
    decode_half(halves, type, to);
    decode_half(halves + LANES, type, to + LANES);
}

typedef struct operands {
    double a[EMU_WARP_ROWS][EMU_PRODUCT_K];
    double b[EMU_PRODUCT_K][256]; /* [k][column] */
} operands;

INLINE void load_a(const emu_product *product, operands *to) {
    double values[CHUNK_ELEMENTS];
    for (uint32_t lane = 0; product->fragments && lane < EMU_WARP; lane++) {
        decode(product->fragments[lane], product->type, values);
        for (unsigned i = 0; i < CHUNK_ELEMENTS; i++) {
            struct layout_element at = layout_wgmma_a(2, lane, i / 2, i % 2);
            to->a[at.row][at.column] = values[i];
        }
    }
    if (product->fragments)
        return;
    const emu_chunks *chunks = emu_operand_chunks(&product->a, product->warp);
    for (uint32_t i = 0; i < chunks->count; i++) {
        decode(product->shared + chunks->at[i], product->type, values);
        for (unsigned e = 0; e < CHUNK_ELEMENTS; e++) {
            if (product->a.major == LAYOUT_K_MAJOR)
                to->a[i / 2][i % 2 * CHUNK_ELEMENTS + e] = values[e];
            else
                to->a[i / EMU_PRODUCT_K * CHUNK_ELEMENTS + e][i % EMU_PRODUCT_K] = values[e];
        }
    }
}

INLINE void load_b(const emu_product *product, operands *to) {
    const emu_chunks *chunks = emu_operand_chunks(&product->b, ALL_ROWS);
    if (product->b.major == LAYOUT_MN_MAJOR) {
        for (size_t i = 0; i < chunks->count; i++)
            decode(product->shared + chunks->at[i], product->type,
                   &to->b[i % EMU_PRODUCT_K][i / EMU_PRODUCT_K * CHUNK_ELEMENTS]);
        return;
    }
    for (uint32_t i = 0; i < chunks->count; i++) {
        double values[CHUNK_ELEMENTS];
        decode(product->shared + chunks->at[i], product->type, values);
        for (unsigned e = 0; e < CHUNK_ELEMENTS; e++)
            to->b[i % 2 * CHUNK_ELEMENTS + e][i / 2] = values[e];
    }
}

/* D's next two columns. */
INLINE void load_sums(const float *from, bool accumulate, doubles2 *sums) {
    floats2 values = {0};
    if (accumulate)
        memcpy(&values, from, sizeof values);
    *sums = __builtin_convertvector(values, doubles2);
}

INLINE void store_sums(float *to, const doubles2 *sums) {
    floats2 values = __builtin_convertvector(*sums, floats2);
    memcpy(to, &values, sizeof values);
}

void emu_product_run(const emu_product *product) {
    operands in;
    load_a(product, &in);
    load_b(product, &in);
    for (size_t row = 0; row < EMU_WARP_ROWS; row += 2) {
        const double *a0 = in.a[row], *a1 = in.a[row + 1];
        for (uint32_t column = 0; column < product->n; column += 4) { /* what fits sixteen vector registers */
            float *d0 = product->values + row * product->n + column, *d1 = d0 + product->n;
            doubles2 s00, s01, s10, s11, low, high;
            load_sums(d0, product->accumulate, &s00);
            load_sums(d0 + 2, product->accumulate, &s01);
            load_sums(d1, product->accumulate, &s10);
            load_sums(d1 + 2, product->accumulate, &s11);
            for (unsigned k = 0; k < EMU_PRODUCT_K; k++) {
                memcpy(&low, &in.b[k][column], sizeof low);
                memcpy(&high, &in.b[k][column + 2], sizeof high);
                s00 += low * a0[k];
                s01 += high * a0[k];
                s10 += low * a1[k];
                s11 += high * a1[k];
            }
            store_sums(d0, &s00);
            store_sums(d0 + 2, &s01);
            store_sums(d1, &s10);
            store_sums(d1 + 2, &s11);
        }
    }
}
