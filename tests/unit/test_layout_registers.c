/* Registers and tensor memory: wgmma accumulators, tcgen05.ld, where D lies and what each block of a pair holds, held
 * to tables that CUTLASS computed (tests/vectors); fragments of mma.sync and ldmatrix, held to the formulas of the PTX
 * ISA. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include <cmocka.h>

#include "test_layout.h"

enum { COLUMNS = 512, WARP = 32 };

/* ---- wgmma */

static void test_wgmma_accumulators(void **state) {
    (void)state;
    json_t *file = vectors_open("wgmma_accumulator_regs.json", 2);
    unsigned compared = 0;
    size_t i, thread;
    const json_t *row, *registers;
    json_array_foreach(json_object_get(file, "rows"), i, row) {
        const json_t *table = vector_get(row, "mn_row_plus_64col");
        assert_int_equal(json_array_size(table), vector_number(row, "threads"));
        json_array_foreach(table, thread, registers) {
            assert_int_equal(json_array_size(registers), vector_number(row, "regs"));
            for (unsigned reg = 0; reg < json_array_size(registers); reg++, compared++) {
                unsigned value = vector_at(registers, reg), back_thread, back_reg;
                struct layout_element element = layout_wgmma_d((unsigned)thread, reg);
                assert_int_equal(element.row + 64 * element.column, value);
                layout_wgmma_d_register(value % 64, value / 64, &back_thread, &back_reg);
                assert_int_equal(back_thread, thread);
                assert_int_equal(back_reg, reg);
            }
        }
    }
    json_decref(file);
    print_message("wgmma: %u accumulators compared\n", compared);
    assert_int_equal(compared, 128 * (128 + 32));
}

/* ---- tcgen05.ld */

static enum emu_shape shape_of(const char *instruction, unsigned *registers) {
    static const struct {
        const char *name;
        enum emu_shape shape;
        unsigned registers; /* of .x1 */
    } shapes[] = {
        {"32x32b", EMU_32X32B, 1}, {"16x64b", EMU_16X64B, 1}, {"16x128b", EMU_16X128B, 2}, {"16x256b", EMU_16X256B, 4}};
    char name[16];
    unsigned number = 0;
    if (sscanf(instruction, "tcgen05.ld.%15[^.].x%u", name, &number) != 2)
        fail_msg("unknown instruction \"%s\"", instruction);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(name, shapes[i].name) == 0) {
            *registers = number * shapes[i].registers;
            return shapes[i].shape;
        }
    fail_msg("unknown shape in \"%s\"", instruction);
    return EMU_32X32B;
}

static void test_tensor_memory_loads(void **state) {
    (void)state;
    json_t *file = vectors_open("tcgen05_ld_regs.json", 12);
    unsigned compared = 0, formulas = 0;
    size_t i, listed;
    const json_t *row, *cells;
    json_array_foreach(json_object_get(file, "rows"), i, row) {
        unsigned expected, registers = vector_number(row, "regs");
        enum emu_shape shape = shape_of(vector_text(row, "ptx"), &expected);
        const json_t *only = json_object_get(row, "threads_listed"), *table = vector_get(row, "lane_col");
        assert_int_equal(registers, expected);
        assert_true(layout_tmem_registers(shape, registers));
        assert_int_equal(vector_number(row, "threads"), WARP);
        assert_int_equal(json_array_size(table), only ? json_array_size(only) : WARP);
        json_array_foreach(table, listed, cells) {
            unsigned thread = only ? vector_at(only, listed) : (unsigned)listed;
            assert_int_equal(json_array_size(cells), registers);
            for (unsigned reg = 0; reg < registers; reg++, compared++) {
                struct layout_cell cell = layout_tmem_cell(shape, thread, reg, 0);
                assert_int_equal(cell.lane, vector_at(json_array_get(cells, reg), 0));
                assert_int_equal(cell.column, vector_at(json_array_get(cells, reg), 1));
                assert_true(cell.lane < layout_tmem_lanes(shape));
            }
        }
        if (only) { /* the row says in words what holds for the threads that it does not list */
            assert_non_null(strstr(vector_text(row, "formula"), "lane = thread, column = register"));
            for (unsigned thread = 0; thread < WARP; thread++)
                for (unsigned reg = 0; reg < registers; reg++, formulas++) {
                    struct layout_cell cell = layout_tmem_cell(shape, thread, reg, 0);
                    assert_int_equal(cell.lane, thread);
                    assert_int_equal(cell.column, reg);
                }
        }
    }
    json_decref(file);
    print_message("tcgen05.ld: %u listed registers and %u by formula compared\n", compared, formulas);
}

/* Every register of every shape has a cell of its own, and together they fill a rectangle; packed ones twice as wide.
 */
static void test_loads_cover(void **state) {
    (void)state;
    static const enum emu_shape shapes[] = {EMU_32X32B, EMU_16X64B, EMU_16X128B, EMU_16X256B, EMU_16X32BX2};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        unsigned lanes = layout_tmem_lanes(shapes[s]), largest = 0;
        for (unsigned registers = 1; registers <= 256; registers *= 2) {
            if (!layout_tmem_registers(shapes[s], registers))
                continue;
            for (int packed = 0; packed < 2; packed++) {
                static unsigned char seen[WARP][COLUMNS];
                unsigned columns = WARP * registers * (packed ? 2 : 1) / lanes;
                if (columns > COLUMNS)
                    continue;
                memset(seen, 0, sizeof seen);
                for (unsigned thread = 0; thread < WARP; thread++)
                    for (unsigned reg = 0; reg < registers; reg++)
                        for (unsigned half = 0; half <= (unsigned)packed; half++) {
                            struct layout_cell cell =
                                packed ? layout_tmem_packed_cell(shapes[s], thread, reg, half, columns / 2)
                                       : layout_tmem_cell(shapes[s], thread, reg, columns / 2);
                            assert_true(cell.lane < lanes && cell.column < columns);
                            assert_int_equal(seen[cell.lane][cell.column]++, 0);
                        }
            }
            largest = registers;
        }
        assert_int_equal(largest, 128);
    }
    assert_false(layout_tmem_registers(EMU_16X256B, 2));
    assert_false(layout_tmem_registers(EMU_16X128B, 1));
    assert_false(layout_tmem_registers(EMU_32X32B, 3));
}

/* ---- where D lies */

static void test_accumulators_in_tensor_memory(void **state) {
    (void)state;
    json_t *file = vectors_open("tmem_accumulator_layout.json", 6);
    unsigned compared = 0;
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(file, "rows"), i, row) {
        unsigned m, n, columns = vector_number(row, "acc_n"), rows = vector_number(row, "acc_m_per_cta");
        bool pair = vector_number(row, "cta_group") == 2;
        const json_t *lanes = vector_get(row, "lane_of_row_n0");
        const json_t *places = vector_get(row, "lane_delta_and_column_of_n_m0");
        assert_int_equal(sscanf(vector_text(row, "instr"), "M%u N%u", &m, &n), 2);
        assert_int_equal(n, columns);
        assert_int_equal(layout_pair_share(m, n, pair, 0).d_rows, rows);
        assert_int_equal(layout_accumulator_columns(m, n, pair), vector_number(row, "columns_used"));
        assert_true(json_is_true(vector_get(row, "separable")));
        assert_int_equal(json_array_size(lanes), rows);
        assert_int_equal(json_array_size(places), columns);
        for (unsigned r = 0; r < rows; r++)
            for (unsigned c = 0; c < columns; c++, compared++) {
                struct layout_cell cell = layout_accumulator_cell(m, n, pair, r, c);
                assert_int_equal(cell.lane, vector_at(lanes, r) + vector_at(json_array_get(places, c), 0));
                assert_int_equal(cell.column, vector_at(json_array_get(places, c), 1));
            }
        for (unsigned r = 0; r < rows; r++) { /* A in tensor memory lies in D's lanes (9.7.16.10.5) */
            struct layout_cell cell = layout_tmem_a_cell(m, pair, 2, r, 6);
            assert_int_equal(cell.lane, vector_at(lanes, r));
            assert_int_equal(cell.column, 3);
            assert_int_equal(layout_tmem_a_cell(m, pair, 4, r, 6).column, 6);
        }
    }
    json_decref(file);
    print_message("tensor memory: %u elements of D compared\n", compared);
}

/* ---- pairs and epilogues */

static void compare_split(const json_t *row) {
    unsigned m, n, k;
    assert_int_equal(sscanf(vector_text(row, "instr"), "cta_group::2 M%u N%u K%u", &m, &n, &k), 3);
    size_t i;
    const json_t *block;
    assert_int_equal(json_array_size(vector_get(row, "per_cta")), 2);
    json_array_foreach(vector_get(row, "per_cta"), i, block) {
        struct layout_share share = layout_pair_share(m, n, true, vector_number(block, "cta_rank_in_pair"));
        const struct {
            const char *name;
            unsigned first, count;
        } ranges[] = {{"A_rows", share.a_row, share.a_rows},
                      {"B_ncols", share.b_column, share.b_columns},
                      {"D_rows", share.d_row, share.d_rows},
                      {"D_cols", 0, n}};
        for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
            assert_int_equal(vector_at(vector_get(block, ranges[r].name), 0), ranges[r].first);
            assert_int_equal(vector_at(vector_get(block, ranges[r].name), 1), ranges[r].first + ranges[r].count - 1);
        }
        assert_int_equal(vector_number(block, "A_elems"), share.a_rows * k);
        assert_int_equal(vector_number(block, "B_elems"), share.b_columns * k);
        assert_int_equal(vector_number(block, "D_elems"), share.d_rows * n);
    }
}

/* Lane and column at which a warp's load begins: the first four are listed, the others go on like them (two loads a
 * step, so that 16-lane shapes may use both halves of a quarter). */
static struct layout_cell load_base(const json_t *bases, unsigned warp, unsigned load) {
    struct layout_cell listed[4] = {{0, 0}};
    for (unsigned i = 0; i < 4; i++) {
        const json_t *base = json_array_get(bases, warp * 4 + i);
        assert_int_equal(vector_at(base, 0), warp);
        assert_int_equal(vector_at(base, 1), i);
        listed[i] = (struct layout_cell){vector_at(base, 2), vector_at(base, 3)};
    }
    struct layout_cell at = listed[load % 2];
    at.lane += load / 2 * (listed[2].lane - listed[0].lane);
    at.column += load / 2 * (listed[2].column - listed[0].column);
    if (load < 4) {
        assert_int_equal(at.lane, listed[load].lane);
        assert_int_equal(at.column, listed[load].column);
    }
    return at;
}

static unsigned compare_epilogue(const json_t *row) {
    unsigned group, m, n, registers, compared = 0;
    assert_int_equal(sscanf(vector_text(row, "mma"), "cta_group::%u M%u N%u", &group, &m, &n), 3);
    enum emu_shape shape = shape_of(vector_text(row, "ld"), &registers);
    const json_t *bases = vector_get(row, "warp_base_taddr_lane_col"), *sample;
    size_t i;
    assert_int_equal(registers, vector_number(row, "regs_per_ld"));
    assert_int_equal(json_array_size(bases), 16);
    assert_int_equal(layout_pair_share(m, n, group == 2, 0).d_rows * n,
                     128 * registers * vector_number(row, "ld_count_per_thread"));
    json_array_foreach(vector_get(row, "samples_thread_ld_reg_row_col"), i, sample) {
        unsigned thread = vector_at(sample, 0);
        struct layout_cell base = load_base(bases, thread / WARP, vector_at(sample, 1));
        struct layout_cell cell = layout_tmem_cell(shape, thread % WARP, vector_at(sample, 2), 0);
        struct layout_cell element =
            layout_accumulator_cell(m, n, group == 2, vector_at(sample, 3), vector_at(sample, 4));
        assert_int_equal(base.lane + cell.lane, element.lane);
        assert_int_equal(base.column + cell.column, element.column);
        assert_int_equal(element.lane / WARP, thread / WARP % 4); /* a warp reaches its own quarter only */
        compared++;
    }
    return compared;
}

static void test_pairs_and_epilogues(void **state) {
    (void)state;
    json_t *file = vectors_open("tcgen05_pair_split_and_epilogue.json", 8);
    unsigned splits = 0, epilogues = 0, samples = 0;
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(file, "rows"), i, row) {
        if (strcmp(vector_text(row, "kind"), "cta_pair_split") == 0) {
            compare_split(row);
            splits++;
        } else {
            assert_string_equal(vector_text(row, "kind"), "tmem_load_to_registers");
            samples += compare_epilogue(row);
            epilogues++;
        }
    }
    json_decref(file);
    assert_int_equal(splits, 3);
    assert_int_equal(epilogues, 5);
    print_message("%u splits of pairs; %u samples of %u epilogues compared\n", splits, samples, epilogues);
    struct layout_share whole = layout_pair_share(128, 64, false, 0);
    assert_int_equal(whole.a_rows, 128);
    assert_int_equal(whole.b_columns, 64);
}

/* ---- mma.sync, ldmatrix, wgmma's A: formulas of 9.7.14.5.8 and 9.7.15.5.1.1, element by element */

static void test_mma_fragments(void **state) {
    (void)state;
    for (unsigned lane = 0; lane < WARP; lane++) {
        unsigned group = lane >> 2, in_group = lane % 4;
        for (unsigned i = 0; i < 8; i++) { /* a0..a7, two in a register */
            struct layout_element a = layout_mma_a(lane, i / 2, i % 2);
            assert_int_equal(a.row, i < 2 || (i >= 4 && i < 6) ? group : group + 8);
            assert_int_equal(a.column, in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0));
            for (unsigned warp = 0; warp < 4; warp++) {
                struct layout_element w = layout_wgmma_a(2, warp * WARP + lane, i / 2, i % 2);
                assert_int_equal(w.row, a.row + warp * 16);
                assert_int_equal(w.column, a.column);
            }
        }
        for (unsigned i = 0; i < 4; i++) {
            struct layout_element b = layout_mma_b(lane, i / 2, i % 2), d = layout_mma_d(lane, i);
            assert_int_equal(b.row, in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0));
            assert_int_equal(b.column, group);
            assert_int_equal(d.row, i < 2 ? group : group + 8);
            assert_int_equal(d.column, in_group * 2 + (i & 1));
            struct layout_element tf32 = layout_wgmma_a(4, 3 * WARP + lane, i, 0);
            assert_int_equal(tf32.row, 48 + (i % 2 ? group + 8 : group));
            assert_int_equal(tf32.column, in_group + (i >= 2 ? 4 : 0));
        }
    }
}

/* What every kernel relies on: ldmatrix of the four 8 x 8 pieces of A gives the A fragment; transposed, of B as it lies
 * in memory (k rows), the B fragment. */
static void test_matrix_loads(void **state) {
    (void)state;
    for (unsigned lane = 0; lane < WARP; lane++)
        for (unsigned half = 0; half < 2; half++) {
            struct layout_element plain = layout_matrix_element(lane, half, false);
            struct layout_element turned = layout_matrix_element(lane, half, true);
            for (unsigned reg = 0; reg < 4; reg++) {
                struct layout_element a = layout_mma_a(lane, reg, half);
                assert_int_equal(a.row, plain.row + reg % 2 * 8);
                assert_int_equal(a.column, plain.column + reg / 2 * 8);
            }
            for (unsigned reg = 0; reg < 2; reg++) {
                struct layout_element b = layout_mma_b(lane, reg, half);
                assert_int_equal(b.row, turned.row + reg * 8);
                assert_int_equal(b.column, turned.column);
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wgmma_accumulators),  cmocka_unit_test(test_tensor_memory_loads),
        cmocka_unit_test(test_loads_cover),         cmocka_unit_test(test_accumulators_in_tensor_memory),
        cmocka_unit_test(test_pairs_and_epilogues), cmocka_unit_test(test_mma_fragments),
        cmocka_unit_test(test_matrix_loads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
