/* Where CUTLASS and DeepGEMM put the elements of a tile in shared memory. */
#ifndef TEST_LAYOUT_TILE_H
#define TEST_LAYOUT_TILE_H

#include "test_layout.h"

enum { MOST_CHUNKS = 8192 /* of a tile */, TILE_BASE = 37 * 1024 /* some place in shared memory */ };

typedef struct tile_files {
    json_t *tables, *swizzles; /* smem_layout_chunks.json, tma_swizzle.json */
} tile_files;

/* A tile in shared memory, as rows of the files describe it. */
typedef struct tile {
    enum layout_swizzle swizzle;
    enum layout_major major;
    bool k_first;
    unsigned element_bytes, mn, k;
} tile;

static inline tile tile_of(const json_t *row) {
    const char *dtype = vector_text(row, "dtype");
    tile t = {.swizzle = vector_swizzle(vector_text(row, "swizzle")),
              .major = vector_major(row, "major"),
              .element_bytes = strcmp(dtype, "tf32") == 0 ? 4 : 2};
    if (json_object_get(row, "block_mn")) { /* DeepGEMM's: always k_first */
        t.k_first = true;
        t.mn = vector_number(row, "block_mn");
        t.k = vector_number(row, "block_k");
    } else {
        t.k_first = strcmp(vector_text(row, "atom_order"), "k_first") == 0;
        t.mn = vector_number(row, "tile_mn");
        t.k = vector_number(row, "tile_k");
    }
    return t;
}

static inline unsigned tile_columns(const tile *t) { /* of a table of chunks */
    return t->major == LAYOUT_K_MAJOR ? t->k * t->element_bytes / LAYOUT_CHUNK : t->k;
}
static inline unsigned tile_chunks(const tile *t) {
    return t->mn * t->k * t->element_bytes / LAYOUT_CHUNK;
}

/* Chunks in an atom along the contiguous axis; its extent along the other one: 8, or 4 where 32-byte atoms lie on k. */
static inline unsigned atom_along(const tile *t) {
    return layout_swizzle_width(t->swizzle) / LAYOUT_CHUNK;
}
static inline unsigned atom_across(const tile *t) {
    return t->swizzle == LAYOUT_SWIZZLE_128B_ATOM_32B && t->major == LAYOUT_MN_MAJOR ? 4 : 8;
}

/* With one atom along an axis, which one is adjacent makes no difference. */
static inline bool order_matters(const tile *t) {
    unsigned along = atom_along(t) * LAYOUT_CHUNK / t->element_bytes, across = atom_across(t);
    return t->major == LAYOUT_K_MAJOR ? t->k > along && t->mn > across : t->mn > along && t->k > across;
}

/* The third party's table of this tile, or NULL. */
static inline const json_t *table_of(const tile_files *files, const tile *t) {
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(files->tables, "rows"), i, row) {
        tile other = tile_of(row);
        if (other.swizzle == t->swizzle && other.major == t->major && other.element_bytes == t->element_bytes &&
            other.mn == t->mn && other.k == t->k && (other.k_first == t->k_first || !order_matters(t)))
            return vector_get(row, "chunk16_index");
    }
    return NULL;
}

/* Third party's table of a swizzle: where chunk c of row r goes. */
static inline const json_t *swizzle_rows(const tile_files *files, enum layout_swizzle swizzle) {
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(files->swizzles, "rows"), i, row) {
        if (vector_swizzle(vector_text(row, "mode")) == swizzle)
            return vector_get(row, "chunk16_table");
    }
    fail_msg("no table of swizzle %s", layout_swizzle_name(swizzle));
    return NULL;
}

/* Positions of all chunks of a tile, built of atoms: 8 rows (4 with 32-byte atoms) of the swizzle's width, each
 * swizzled as tma_swizzle.json says, one behind the other in the tile's order. Without a swizzle a row is one chunk. */
static inline void build_table(const tile_files *files, const tile *t, unsigned *positions) {
    bool none = t->swizzle == LAYOUT_SWIZZLE_NONE, k_major = t->major == LAYOUT_K_MAJOR;
    const json_t *swizzle = swizzle_rows(files, t->swizzle);
    unsigned wide = atom_along(t), deep = atom_across(t), columns = tile_columns(t);
    unsigned rows = tile_chunks(t) / columns;
    unsigned atoms_k = k_major ? columns / wide : columns / deep, atoms_mn = k_major ? rows / deep : rows / wide;
    for (unsigned row = 0; row < rows; row++)
        for (unsigned column = 0; column < columns; column++) {
            unsigned along = k_major ? column : row,
                     across = k_major ? row : column; /* the contiguous axis; the other */
            unsigned atom_k = k_major ? along / wide : across / deep, atom_mn = k_major ? across / deep : along / wide;
            unsigned atom = t->k_first ? atom_mn * atoms_k + atom_k : atom_k * atoms_mn + atom_mn;
            unsigned inside = none ? across % deep : vector_at(json_array_get(swizzle, across % deep), along % wide);
            positions[row * columns + column] = atom * wide * deep + inside;
        }
}

/* Expected positions; true if they are the third party's own table. */
static inline bool expected_table(const tile_files *files, const tile *t, unsigned *positions) {
    assert_true(tile_chunks(t) <= MOST_CHUNKS);
    const json_t *table = table_of(files, t);
    if (!table) {
        build_table(files, t, positions);
        return false;
    }
    for (unsigned i = 0; i < tile_chunks(t); i++)
        positions[i] = vector_at(table, i);
    return true;
}

static inline uint32_t expected_address(const tile *t, const unsigned *positions, unsigned mn, unsigned k) {
    unsigned chunk = LAYOUT_CHUNK / t->element_bytes, columns = tile_columns(t);
    unsigned index = t->major == LAYOUT_K_MAJOR ? mn * columns + k / chunk : mn / chunk * columns + k;
    unsigned inside = t->major == LAYOUT_K_MAJOR ? k % chunk : mn % chunk;
    return TILE_BASE + positions[index] * LAYOUT_CHUNK + inside * t->element_bytes;
}

#endif
