/* Descriptors and operands that the instruction sets do not allow, each with the reason that is given; tcgen05's
 * instruction descriptors, held to a table that CUTLASS computed (tests/vectors). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include <cmocka.h>

#include "test_layout.h"

enum { TILE_BASE = 37 * 1024 }; /* some place in shared memory */

/* ---- boxes of tensor copies */

static void test_boxes_refused(void **state) {
    (void)state;
    enum layout_swizzle out;
    char reason[LAYOUT_REASON];
    assert_false(layout_tensor_map_swizzle(5, &out, reason));
    assert_non_null(strstr(reason, "swizzle is 5"));
    assert_false(layout_check_box(LAYOUT_SWIZZLE_128B, 512, 128, reason));
    assert_non_null(strstr(reason, "0x200, which is not a multiple of 1024"));
    assert_false(layout_check_box(LAYOUT_SWIZZLE_NONE, 64, 128, reason));
    assert_non_null(strstr(reason, "not a multiple of 128"));
    assert_false(layout_check_box(LAYOUT_SWIZZLE_64B, 0, 128, reason));
    assert_non_null(strstr(reason, "swizzle 64B allows 64"));
    assert_false(layout_check_box(LAYOUT_SWIZZLE_64B, 0, 24, reason));
    assert_non_null(strstr(reason, "24 bytes"));
}

/* ---- shared-memory descriptors */

static void refused(bool blackwell, uint64_t bits, const char *why) {
    struct layout_descriptor out;
    char reason[LAYOUT_REASON] = "";
    assert_false((blackwell ? layout_decode_sm100 : layout_decode_sm90)(bits, &out, reason));
    if (!strstr(reason, why))
        fail_msg("\"%s\" does not say \"%s\"", reason, why);
}

static void test_illegal_bits(void **state) {
    (void)state;
    const uint64_t hopper = 0x4000004000010000, blackwell = 0x4000404000010000, one = 1;
    static const unsigned hopper_zero[] = {14, 15, 30, 31, 46, 47, 48, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61};
    static const unsigned blackwell_zero[] = {14, 15, 30, 31, 53, 54, 55, 56, 57, 58, 59, 60};
    char number[32];
    for (size_t i = 0; i < sizeof hopper_zero / sizeof *hopper_zero; i++) {
        snprintf(number, sizeof number, "bit %u ", hopper_zero[i]);
        refused(false, hopper | one << hopper_zero[i], number);
    }
    for (size_t i = 0; i < sizeof blackwell_zero / sizeof *blackwell_zero; i++) {
        snprintf(number, sizeof number, "bit %u ", blackwell_zero[i]);
        refused(true, blackwell | one << blackwell_zero[i], number);
    }
    refused(true, hopper, "bits 46-48 of the tcgen05 descriptor 0x4000004000010000 are 0");
    refused(true, blackwell | one << 47, "are 3");
    refused(true, blackwell | one << 52, "absolute leading address");
    refused(true, blackwell | one << 61, "swizzle 3");
    refused(true, blackwell | (uint64_t)5 << 61, "swizzle 7");
    refused(true, (blackwell & ~(one << 62)) | (uint64_t)5 << 61, "swizzle 5");
    refused(true, (blackwell & ~(one << 62)) | one << 49, "base offset");
    refused(false, one << 50, "base offset");
}

static void operand_refused(const struct layout_operand *operand, const char *why) {
    char reason[LAYOUT_REASON] = "";
    assert_false(layout_check_operand(operand, reason));
    if (!strstr(reason, why))
        fail_msg("\"%s\" does not say \"%s\"", reason, why);
}

static void test_illegal_operands(void **state) {
    (void)state;
    struct layout_operand operand = {.at = {.start = TILE_BASE, .leading = 8192, .stride = 1024},
                                     .major = LAYOUT_MN_MAJOR,
                                     .element_bytes = 2,
                                     .mn = 256,
                                     .k = 16};
    operand.at.swizzle = LAYOUT_SWIZZLE_128B_ATOM_32B;
    operand_refused(&operand, "16-bit MN-major");
    operand.element_bytes = 4;
    operand.k = 8;
    static const enum layout_swizzle others[] = {LAYOUT_SWIZZLE_NONE, LAYOUT_SWIZZLE_32B, LAYOUT_SWIZZLE_64B,
                                                 LAYOUT_SWIZZLE_128B};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        operand.at.swizzle = others[i];
        operand_refused(&operand, "tf32 MN-major");
    }
    operand.element_bytes = 2;
    operand.k = 16;
    operand.at.start = TILE_BASE + 384;
    operand_refused(&operand, "row 3 of the pattern of swizzle 128B");
    operand.at.start = TILE_BASE;
    operand.at.base_offset = 3;
    operand_refused(&operand, "base offset 3");
    operand.at.base_offset = 0;
    operand.at.leading = 8192 + 128;
    operand_refused(&operand, "leading offset is 8320");
    operand.at.leading = 8192;
    operand.at.stride = 256;
    operand_refused(&operand, "stride offset is 256");
    operand.major = LAYOUT_K_MAJOR;
    operand_refused(&operand, "stride offset is 256");
    char reason[LAYOUT_REASON];
    operand.mn = 8; /* the offset is not used */
    assert_true(layout_check_operand(&operand, reason));
}

/* A tile whose pattern starts off the 1024-byte boundary is the same tile, moved, when the base offset says so. */
static void test_base_offset(void **state) {
    (void)state;
    struct layout_operand plain = {
        .at = {.start = TILE_BASE, .leading = 8192, .stride = 1024}, .element_bytes = 2, .mn = 64, .k = 16};
    static const enum layout_swizzle kinds[] = {LAYOUT_SWIZZLE_32B, LAYOUT_SWIZZLE_64B, LAYOUT_SWIZZLE_128B};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (unsigned base = 1; base < 8; base++)
            for (int major = 0; major < 2; major++) {
                plain.at.swizzle = kinds[i];
                plain.major = major ? LAYOUT_MN_MAJOR : LAYOUT_K_MAJOR;
                struct layout_operand moved = plain;
                char reason[LAYOUT_REASON];
                moved.at.start += base * 128;
                moved.at.base_offset = base;
                assert_true(layout_check_operand(&moved, reason));
                for (unsigned mn = 0; mn < plain.mn; mn++)
                    for (unsigned k = 0; k < plain.k; k++) {
                        uint32_t expected = layout_element_address(&plain, mn, k) + base * 128;
                        assert_int_equal(layout_element_address(&moved, mn, k), expected);
                    }
            }
}

/* ---- instruction descriptors */

static enum emu_type type_of(const char *name) {
    if (strcmp(name, "f16") == 0)
        return EMU_F16;
    if (strcmp(name, "bf16") == 0)
        return EMU_BF16;
    assert_string_equal(name, "tf32");
    return EMU_TF32;
}

/* Every bit of this mask set alone makes a dense descriptor illegal, whatever else it says. */
static const uint32_t always_zero = 0xe080004f;

static void compare_instruction(const json_t *row, unsigned *planted) {
    uint32_t bits = (uint32_t)vector_hex(vector_get(row, "idesc"));
    enum emu_type type = type_of(vector_text(row, "ab"));
    bool tf32 = type == EMU_TF32, d_f16 = strcmp(vector_text(row, "acc"), "f16") == 0;
    char reason[LAYOUT_REASON];
    struct layout_instruction out;
    for (int pair = 0; pair < 2; pair++) {
        bool legal = json_is_true(vector_get(row, pair ? "cta_group_2" : "cta_group_1"));
        if (d_f16) /* no such atom in CuTe, so the flags say nothing; the shapes are those of f32 */
            legal = vector_number(row, "M") == (pair ? 256 : 64) || vector_number(row, "M") == 128;
        if (layout_decode_instruction(bits, tf32, pair, &out, reason) != legal)
            fail_msg("0x%08x, cta_group::%d: %s", (unsigned)bits, pair + 1, legal ? reason : "not refused");
        assert_false(layout_decode_instruction(bits, !tf32, pair, &out, reason));
        if (!legal)
            continue;
        assert_true(layout_decode_instruction(bits, tf32, pair, &out, reason));
        assert_int_equal(out.m, vector_number(row, "M"));
        assert_int_equal(out.n, vector_number(row, "N"));
        assert_int_equal(out.k, tf32 ? 8 : 16);
        assert_int_equal(out.a_type, type);
        assert_int_equal(out.b_type, type);
        assert_int_equal(out.d_f16, d_f16);
        assert_int_equal(out.a_major, vector_major(row, "a_major"));
        assert_int_equal(out.b_major, vector_major(row, "b_major"));
        assert_int_equal(out.negate_a, vector_number(row, "a_neg"));
        assert_int_equal(out.negate_b, vector_number(row, "b_neg"));
        for (unsigned bit = 0; bit < 32; bit++)
            if (always_zero >> bit & 1) {
                assert_false(layout_decode_instruction(bits | (uint32_t)1 << bit, tf32, pair, &out, reason));
                ++*planted;
            }
    }
}

static void test_instruction_descriptors(void **state) {
    (void)state;
    json_t *file = vectors_open("umma_sm100_instr_desc.json", 103);
    unsigned rows = 0, planted = 0;
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(file, "rows"), i, row) {
        compare_instruction(row, &planted);
        rows++;
    }
    json_decref(file);
    print_message("%u instruction descriptors compared, %u wrong bits noticed\n", rows, planted);
    assert_int_equal(rows, 103);
}

static void test_illegal_instructions(void **state) {
    (void)state;
    static const struct {
        uint32_t bits;
        bool tf32, pair;
        const char *why;
    } cases[] = {
        {0x08400014, false, false, "sparsity (bit 2)"},
        {0x08400018, false, false, "saturation"},
        {0x08400050, false, false, "reserved bit 6"},
        {0x48400010, false, false, "only .ws"},
        {0x08400020, false, false, "D type (bits 4-5) 2"},
        {0x08400110, false, false, "A type (bits 7-9) 2"},
        {0x08400c10, false, false, "B type (bits 10-12) 3"},
        {0x08400900, true, false, "kind::tf32 has 1 (f32)"},
        {0x08400490, true, false, "A type (bits 7-9) 1; kind::tf32 has 2"},
        {0x08400480, false, false, "16-bit D"},
        {0x10400010, false, false, "M (16 times bits 24-28) 256"},
        {0x04400010, false, true, "M (16 times bits 24-28) 64"},
        {0x08000010, false, false, "N (8 times bits 17-22) 0"},
        {0x08420010, false, false, "N (8 times bits 17-22) 264"},
        {0x10020010, false, true, "N (8 times bits 17-22) 8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct layout_instruction out;
        char reason[LAYOUT_REASON] = "";
        assert_false(layout_decode_instruction(cases[i].bits, cases[i].tf32, cases[i].pair, &out, reason));
        if (!strstr(reason, cases[i].why))
            fail_msg("0x%08x: \"%s\" does not say \"%s\"", (unsigned)cases[i].bits, reason, cases[i].why);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boxes_refused),           cmocka_unit_test(test_illegal_bits),
        cmocka_unit_test(test_illegal_operands),        cmocka_unit_test(test_base_offset),
        cmocka_unit_test(test_instruction_descriptors), cmocka_unit_test(test_illegal_instructions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
