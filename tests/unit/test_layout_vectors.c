/* Operands in shared memory, held to tables that CUTLASS and DeepGEMM computed (tests/vectors): descriptors of wgmma
 * and tcgen05, swizzles of tensor copies, and the mistakes that must be noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include <cmocka.h>

#include "test_layout_tile.h"

enum {
    /* rows of the files */
    SM90_ROWS = 120,
    SM100_ROWS = 237,
    DEEPGEMM_ROWS = 10,
    TABLES = 60,
    SWIZZLES = 5,
    /* of these, rows whose tile has a table */
    SM90_TABLES = 107,
    SM100_TABLES = 186,
    DEEPGEMM_TABLES = 8
};
static json_t *sm90, *sm100, *deepgemm;
static tile_files files;

static int open_files(void **state) {
    (void)state;
    sm90 = vectors_open("gmma_sm90_smem_desc.json", SM90_ROWS);
    sm100 = vectors_open("umma_sm100_smem_desc.json", SM100_ROWS);
    deepgemm = vectors_open("umma_sm100_smem_desc_deepgemm.json", DEEPGEMM_ROWS);
    files.tables = vectors_open("smem_layout_chunks.json", TABLES);
    files.swizzles = vectors_open("tma_swizzle.json", SWIZZLES);
    return 0;
}

static int close_files(void **state) {
    (void)state;
    json_decref(sm90);
    json_decref(sm100);
    json_decref(deepgemm);
    json_decref(files.tables);
    json_decref(files.swizzles);
    return 0;
}

/* ---- the tables themselves, and boxes of tensor copies */

static void test_swizzle_tables(void **state) {
    (void)state;
    unsigned compared = 0;
    size_t i, k;
    const json_t *row, *line, *sample;
    json_array_foreach(json_object_get(files.swizzles, "rows"), i, row) {
        enum layout_swizzle swizzle = vector_swizzle(vector_text(row, "mode")), decoded;
        char reason[LAYOUT_REASON];
        unsigned row_bytes = vector_number(row, "row_bytes");
        assert_true(layout_tensor_map_swizzle(vector_number(row, "CUtensorMapSwizzle"), &decoded, reason));
        assert_int_equal(decoded, swizzle);
        assert_true(layout_check_box(swizzle, TILE_BASE, row_bytes, reason));
        assert_int_equal(layout_box_pitch(swizzle, row_bytes), row_bytes);
        assert_int_equal(json_array_size(vector_get(row, "chunk16_table")), vector_number(row, "rows"));
        json_array_foreach(vector_get(row, "chunk16_table"), k, line) {
            assert_int_equal(json_array_size(line), row_bytes / LAYOUT_CHUNK);
            for (unsigned c = 0; c < row_bytes / LAYOUT_CHUNK; c++, compared++)
                assert_int_equal(layout_box_address(swizzle, TILE_BASE, row_bytes, (unsigned)k, c * LAYOUT_CHUNK),
                                 TILE_BASE + vector_at(line, c) * LAYOUT_CHUNK);
        }
        json_array_foreach(vector_get(row, "samples_row_colbyte_offset"), k, sample) {
            assert_int_equal(
                layout_box_address(swizzle, TILE_BASE, row_bytes, vector_at(sample, 0), vector_at(sample, 1)),
                TILE_BASE + vector_at(sample, 2));
            compared++;
        }
        if (swizzle == LAYOUT_SWIZZLE_NONE)
            continue;
        /* The documentation's table has 128 bytes a line, whatever the width, and names the chunk that stands there. */
        json_array_foreach(vector_get(row, "ptx_isa_table_lines"), k, line) {
            for (unsigned c = 0; c < 8; c++, compared++)
                assert_int_equal(layout_swizzle_address(swizzle, (uint32_t)k * 128 + c * LAYOUT_CHUNK) % 128,
                                 vector_at(line, c) * LAYOUT_CHUNK);
        }
    }
    print_message("%d swizzles: %u positions compared\n", SWIZZLES, compared);
}

static void test_tile_tables(void **state) {
    (void)state;
    static unsigned built[MOST_CHUNKS];
    unsigned chunks = 0, samples = 0, landed = 0;
    size_t i, s;
    const json_t *row, *sample;
    json_array_foreach(json_object_get(files.tables, "rows"), i, row) {
        tile t = tile_of(row);
        const json_t *table = vector_get(row, "chunk16_index");
        unsigned columns = vector_number(row, "cols");
        assert_int_equal(columns, tile_columns(&t));
        assert_int_equal(json_array_size(table), tile_chunks(&t));
        assert_int_equal(vector_number(row, "rows") * columns, tile_chunks(&t));
        build_table(&files, &t, built);
        for (unsigned c = 0; c < tile_chunks(&t); c++, chunks++)
            assert_int_equal(built[c], vector_at(table, c));
        json_array_foreach(vector_get(row, "samples_mn_k_byte"), s, sample) {
            assert_int_equal(expected_address(&t, built, vector_at(sample, 0), vector_at(sample, 1)),
                             TILE_BASE + vector_at(sample, 2));
            samples++;
        }
        /* One box for each swizzle width along the contiguous axis, boxes back to back: lands in the order that keeps
         * the other axis together. */
        if (t.swizzle == LAYOUT_SWIZZLE_NONE || t.k_first != (t.major == LAYOUT_MN_MAJOR))
            continue;
        unsigned width = layout_swizzle_width(t.swizzle), wide = width / LAYOUT_CHUNK;
        unsigned box_rows = t.major == LAYOUT_K_MAJOR ? t.mn : t.k;
        for (unsigned c = 0; c < tile_chunks(&t); c++, landed++) {
            unsigned along = t.major == LAYOUT_K_MAJOR ? c % columns : c / columns;
            unsigned across = t.major == LAYOUT_K_MAJOR ? c / columns : c % columns;
            uint32_t base = TILE_BASE + along / wide * box_rows * width;
            assert_int_equal(layout_box_address(t.swizzle, base, width, across, along % wide * LAYOUT_CHUNK),
                             TILE_BASE + vector_at(table, c) * LAYOUT_CHUNK);
        }
    }
    print_message("%d tiles: %u chunks and %u samples compared; %u chunks of boxes land there\n", TABLES, chunks,
                  samples, landed);
    assert_int_equal(samples, TABLES * 24);
}

/* ---- descriptors */

/* A descriptor's operand inside its tile. */
typedef struct use {
    struct layout_operand operand;
    unsigned mn, k; /* its first element */
} use;

static struct layout_descriptor decode(uint64_t bits, bool blackwell) {
    struct layout_descriptor out;
    char reason[LAYOUT_REASON] = "";
    if (!(blackwell ? layout_decode_sm100 : layout_decode_sm90)(bits, &out, reason))
        fail_msg("0x%llx is refused: %s", (unsigned long long)bits, reason);
    return out;
}

/* Elements at an unexpected address, of those of one operand. */
static unsigned differences(const tile *t, const unsigned *positions, const use *u) {
    unsigned wrong = 0;
    for (unsigned mn = 0; mn < u->operand.mn; mn++)
        for (unsigned k = 0; k < u->operand.k; k++)
            wrong += layout_element_address(&u->operand, mn, k) != expected_address(t, positions, u->mn + mn, u->k + k);
    return wrong;
}

/* The chunk form says the same. Returns how many chunks. */
static unsigned compare_chunks(const tile *t, const unsigned *positions, const use *u) {
    uint32_t addresses[LAYOUT_MOST_CHUNKS];
    unsigned count = layout_operand_chunks(&u->operand, addresses), chunk = LAYOUT_CHUNK / t->element_bytes, at = 0;
    assert_int_equal(count, u->operand.mn * u->operand.k / chunk);
    if (t->major == LAYOUT_K_MAJOR) {
        for (unsigned mn = 0; mn < u->operand.mn; mn++)
            for (unsigned k = 0; k < u->operand.k; k += chunk)
                assert_int_equal(addresses[at++], expected_address(t, positions, u->mn + mn, u->k + k));
    } else {
        for (unsigned mn = 0; mn < u->operand.mn; mn += chunk)
            for (unsigned k = 0; k < u->operand.k; k++)
                assert_int_equal(addresses[at++], expected_address(t, positions, u->mn + mn, u->k + k));
    }
    return count;
}

/* What happened over a file's rows. */
typedef struct totals {
    unsigned rows, from_table, descriptors, chunks;
    unsigned long elements;
    unsigned swapped, short_steps, constants; /* mistakes that were noticed */
} totals;

static void compare_use(const tile *t, const unsigned *positions, const use *u, totals *sum) {
    char reason[LAYOUT_REASON] = "";
    if (!layout_check_operand(&u->operand, reason))
        fail_msg("refused: %s", reason);
    assert_int_equal(differences(t, positions, u), 0);
    sum->chunks += compare_chunks(t, positions, u);
    sum->elements += (unsigned long)u->operand.mn * u->operand.k;
    sum->descriptors++;
}

/* first_step: start address of the descriptor for the same MN at k = 0. */
static void plant_mistakes(const tile *t, const unsigned *positions, const use *right, uint64_t bits,
                           uint32_t first_step, bool blackwell, totals *sum) {
    struct layout_descriptor out;
    char reason[LAYOUT_REASON] = "";
    assert_false((blackwell ? layout_decode_sm100 : layout_decode_sm90)(bits ^ (uint64_t)1 << 46, &out, reason));
    assert_non_null(strstr(reason, "46"));
    sum->constants++;
    if (t->major == LAYOUT_K_MAJOR)
        return;
    use wrong = *right;
    wrong.operand.at.leading = right->operand.at.stride;
    wrong.operand.at.stride = right->operand.at.leading;
    assert_true(differences(t, positions, &wrong) > 0);
    sum->swapped++;
    if (right->k > 0) {
        wrong = *right;
        wrong.operand.at.start = first_step + right->k / right->operand.k * 32;
        assert_true(differences(t, positions, &wrong) > 0);
        sum->short_steps++;
    }
}

static void compare_row(const json_t *row, bool blackwell, totals *sum) {
    static unsigned positions[MOST_CHUNKS];
    tile t = tile_of(row);
    sum->from_table += expected_table(&files, &t, positions);
    sum->rows++;
    use u = {.operand = {.major = t.major,
                         .element_bytes = t.element_bytes,
                         .mn = vector_number(row, "instr_mn"),
                         .k = vector_number(row, "instr_k")}};
    const json_t *descriptors = vector_get(row, "desc"), *distances = vector_get(row, "advance_bytes"), *line;
    size_t i;
    assert_int_equal(u.operand.k * t.element_bytes, 32);
    assert_int_equal(json_array_size(descriptors) * u.operand.mn, t.mn);
    json_array_foreach(descriptors, i, line) {
        assert_int_equal(json_array_size(line) * u.operand.k, t.k);
        for (size_t step = 0; step < json_array_size(line); step++) {
            uint64_t bits = vector_hex(json_array_get(line, step)) + (TILE_BASE >> 4);
            u.operand.at = decode(bits, blackwell);
            u.mn = (unsigned)i * u.operand.mn;
            u.k = (unsigned)step * u.operand.k;
            assert_int_equal(u.operand.at.start, TILE_BASE + vector_at(json_array_get(distances, i), step));
            assert_int_equal(u.operand.at.leading, vector_number(row, "lbo_bytes"));
            assert_int_equal(u.operand.at.stride, vector_number(row, "sbo_bytes"));
            assert_int_equal(u.operand.at.base_offset, vector_number(row, "base_offset"));
            assert_int_equal(u.operand.at.swizzle, t.swizzle);
            compare_use(&t, positions, &u, sum);
            plant_mistakes(&t, positions, &u, bits, TILE_BASE + vector_at(json_array_get(distances, i), 0), blackwell,
                           sum);
        }
    }
}

static totals compare_file(const json_t *file, bool blackwell) {
    totals sum = {0};
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(file, "rows"), i, row) {
        compare_row(row, blackwell, &sum);
    }
    print_message("%u rows (%u with a table of their tile), %u descriptors: %lu elements and %u chunks compared; "
                  "%u swapped offsets, %u short K steps, %u wrong bits 46 noticed\n",
                  sum.rows, sum.from_table, sum.descriptors, sum.elements, sum.chunks, sum.swapped, sum.short_steps,
                  sum.constants);
    return sum;
}

static void test_wgmma_descriptors(void **state) {
    (void)state;
    totals sum = compare_file(sm90, false);
    assert_int_equal(sum.rows, SM90_ROWS);
    assert_int_equal(sum.from_table, SM90_TABLES);
}

static void test_tcgen05_descriptors(void **state) {
    (void)state;
    totals sum = compare_file(sm100, true);
    assert_int_equal(sum.rows, SM100_ROWS);
    assert_int_equal(sum.from_table, SM100_TABLES);
}

static void test_deepgemm_descriptors(void **state) {
    (void)state;
    static unsigned positions[MOST_CHUNKS];
    totals sum = {0};
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(deepgemm, "rows"), i, row) {
        tile t = tile_of(row);
        const json_t *steps = vector_get(row, "k_steps_lo_delta_bytes");
        sum.from_table += expected_table(&files, &t, positions);
        assert_int_equal(json_array_size(steps) * 16, t.k);
        for (size_t step = 0; step < json_array_size(steps); step++) {
            uint64_t bits = vector_hex(vector_get(row, "desc")) + ((TILE_BASE + vector_at(steps, step)) >> 4);
            use u = {.operand = {.at = decode(bits, true),
                                 .major = t.major,
                                 .element_bytes = t.element_bytes,
                                 .mn = t.mn,
                                 .k = 16},
                     .k = (unsigned)step * 16};
            assert_int_equal(u.operand.at.leading, vector_number(row, "lbo_bytes"));
            assert_int_equal(u.operand.at.stride, vector_number(row, "sbo_bytes"));
            compare_use(&t, positions, &u, &sum);
        }
        sum.rows++;
    }
    assert_int_equal(sum.rows, DEEPGEMM_ROWS);
    assert_int_equal(sum.from_table, DEEPGEMM_TABLES);
    print_message("DeepGEMM: %u rows (%u with a table of their tile), %u descriptors: %lu elements compared\n",
                  sum.rows, sum.from_table, sum.descriptors, sum.elements);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_swizzle_tables),       cmocka_unit_test(test_tile_tables),
        cmocka_unit_test(test_wgmma_descriptors),    cmocka_unit_test(test_tcgen05_descriptors),
        cmocka_unit_test(test_deepgemm_descriptors),
    };
    return cmocka_run_group_tests(tests, open_files, close_files);
}
