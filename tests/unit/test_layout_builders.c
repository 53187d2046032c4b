/* The templates' own descriptor builders, held to the tables that CUTLASS computed (tests/vectors). The emitted text is
 * C++ apart from its inline PTX, so the system's C++ compiler makes a library of the very bytes that a kernel holds. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include <cmocka.h>

#include "run_tool.h"
#include "test_layout.h"

static const char *const program =
    "#define __device__\n"
    "#define __forceinline__ inline\n"
    "typedef unsigned short u16;\n"
    "typedef unsigned int u32;\n"
    "typedef unsigned long long u64;\n"
    "typedef long long i64;\n"
    "#include \"" SOURCE_DIR "/templates/lib/ptx_sm90.cuh\"\n"
    "#include \"" SOURCE_DIR "/templates/lib/ptx_sm100.cuh\"\n"
    "static_assert(umma_instruction(0, 128, 256, false, false) == 0x08400010, \"a constant expression\");\n"
    "extern \"C\" u64 build_sm90(u32 shared, u32 leading, u32 stride) {\n"
    "    return matrix_descriptor(shared, leading, stride);\n"
    "}\n"
    "extern \"C\" u64 build_sm100(u32 shared, u32 leading, u32 stride) {\n"
    "    return umma_descriptor(shared, leading, stride);\n"
    "}\n"
    "extern \"C\" u32 build_instruction(int type, int m, int n, int a_mn_major, int b_mn_major) {\n"
    "    return umma_instruction(type, m, n, a_mn_major, b_mn_major);\n"
    "}\n";

typedef unsigned long long descriptor_builder(unsigned shared, unsigned leading, unsigned stride);
typedef unsigned instruction_builder(int type, int m, int n, int a_mn_major, int b_mn_major);

static descriptor_builder *build_sm90, *build_sm100;
static instruction_builder *build_instruction;
static void *library;
static char folder[256];

static void *symbol(const char *name) {
    void *address = dlsym(library, name);
    if (!address)
        fail_msg("%s", dlerror());
    return address;
}

/* Without a C++ compiler the builders stay NULL, and the tests are skipped. */
static int compile_builders(void **state) {
    (void)state;
    make_folder(folder, sizeof folder);
    FILE *file = fopen(path_in(folder, "builders.cpp"), "w");
    assert_non_null(file);
    assert_true(fputs(program, file) >= 0);
    assert_int_equal(fclose(file), 0);
    const char *const asks[] = {"/bin/sh", "-c", "command -v c++", NULL};
    run_result found = run_program(asks, NULL);
    bool missing = found.code != 0;
    run_result_free(&found);
    if (missing)
        return 0;
    const char *const compiles[] = {"/usr/bin/env",
                                    "c++",
                                    "-std=c++17",
                                    "-Wall",
                                    "-Wextra",
                                    "-Werror",
                                    "-O1",
                                    "-DMLPBWD_EMULATED",
                                    "-shared",
                                    "-fPIC",
                                    "-o",
                                    path_in(folder, "builders.so"),
                                    path_in(folder, "builders.cpp"),
                                    NULL};
    run_result compiled = run_program(compiles, NULL);
    if (compiled.code != 0)
        fail_msg("the templates' builders do not compile: %.2000s", compiled.errors);
    run_result_free(&compiled);
    library = dlopen(path_in(folder, "builders.so"), RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    *(void **)&build_sm90 = symbol("build_sm90");
    *(void **)&build_sm100 = symbol("build_sm100");
    *(void **)&build_instruction = symbol("build_instruction");
    return 0;
}

static int remove_builders(void **state) {
    (void)state;
    if (library)
        dlclose(library);
    remove_folder(folder);
    return 0;
}

/* Bits 16-29, which the hardware ignores for K-major operands and for MN-major ones that are one atom wide. */
static const uint64_t leading_field = (uint64_t)0x3fff << 16;

/* A tile as wgmma_gemm.cu keeps it: blocks of 64 x 64 elements, 8 KiB, one behind the other along MN. */
enum { BLOCK = 64, BLOCK_BYTES = 8192, STRIDE = 1024, STEP_K_MAJOR = 32, STEP_MN_MAJOR = 2048 };

static bool as_kernels_keep_it(const json_t *row) {
    bool k_major = vector_major(row, "major") == LAYOUT_K_MAJOR;
    bool k_first = strcmp(vector_text(row, "atom_order"), "k_first") == 0;
    bool one_atom = vector_number(row, "tile_mn") == BLOCK;
    return vector_number(row, "tile_k") == BLOCK && strcmp(vector_text(row, "dtype"), "tf32") != 0 &&
           (one_atom || k_major || k_first);
}

typedef struct totals {
    unsigned rows, descriptors, kernels;
} totals;

static void compare_row(const json_t *row, descriptor_builder *build, totals *sum) {
    const json_t *descriptors = vector_get(row, "desc"), *distances = vector_get(row, "advance_bytes");
    unsigned leading = vector_number(row, "lbo_bytes"), stride = vector_number(row, "sbo_bytes");
    unsigned mn = vector_number(row, "instr_mn");
    bool k_major = vector_major(row, "major") == LAYOUT_K_MAJOR, kernels = as_kernels_keep_it(row);
    for (unsigned i = 0; i < json_array_size(descriptors); i++)
        for (unsigned step = 0; step < json_array_size(json_array_get(descriptors, i)); step++) {
            uint64_t expected = vector_hex(json_array_get(json_array_get(descriptors, i), step));
            unsigned distance = vector_at(json_array_get(distances, i), step);
            if (build(distance, leading, stride) != expected)
                fail_msg("0x%llx, not 0x%llx", build(distance, leading, stride), (unsigned long long)expected);
            /* what lies above the 18 address bits (a block's rank in its cluster) stays out */
            assert_true(build(0x3000000 + distance, leading, stride) == expected);
            sum->descriptors++;
            if (!kernels)
                continue;
            unsigned start = i * mn / BLOCK * BLOCK_BYTES + step * (k_major ? STEP_K_MAJOR : STEP_MN_MAJOR);
            uint64_t ignored = k_major || mn <= BLOCK ? leading_field : 0;
            assert_true((build(start, BLOCK_BYTES, STRIDE) & ~ignored) == (expected & ~ignored));
            sum->kernels++;
        }
    sum->rows++;
}

static totals compare_file(const char *name, size_t count, descriptor_builder *build) {
    totals sum = {0};
    json_t *file = vectors_open(name, count);
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(file, "rows"), i, row) {
        if (vector_swizzle(vector_text(row, "swizzle")) == LAYOUT_SWIZZLE_128B)
            compare_row(row, build, &sum);
    }
    json_decref(file);
    print_message("%u rows of 128B swizzle: %u descriptors equal, %u also as the kernels call the builder\n", sum.rows,
                  sum.descriptors, sum.kernels);
    return sum;
}

static void test_wgmma_builder(void **state) {
    (void)state;
    if (!build_sm90) {
        skip();
        return;
    }
    totals sum = compare_file("gmma_sm90_smem_desc.json", 120, build_sm90);
    assert_int_equal(sum.rows, 56);
    assert_int_equal(sum.kernels, 192);
}

static void test_tcgen05_builder(void **state) {
    (void)state;
    if (!build_sm100) {
        skip();
        return;
    }
    totals sum = compare_file("umma_sm100_smem_desc.json", 237, build_sm100);
    assert_int_equal(sum.rows, 90);
    assert_int_equal(sum.kernels, 244);
}

static int type_number(const char *name) {
    static const char *const types[] = {"f16", "bf16", "tf32"};
    for (int type = 0; type < 3; type++)
        if (strcmp(name, types[type]) == 0)
            return type;
    fail_msg("unknown type \"%s\"", name);
    return 0;
}

static void test_instruction_builder(void **state) {
    (void)state;
    if (!build_instruction) {
        skip();
        return;
    }
    json_t *file = vectors_open("umma_sm100_instr_desc.json", 103);
    unsigned compared = 0;
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(file, "rows"), i, row) {
        /* what no template uses, and the builder cannot say */
        if (strcmp(vector_text(row, "acc"), "f32") != 0 || vector_number(row, "a_neg") || vector_number(row, "b_neg"))
            continue;
        int type = type_number(vector_text(row, "ab"));
        assert_int_equal(build_instruction(type, (int)vector_number(row, "M"), (int)vector_number(row, "N"),
                                           vector_major(row, "a_major") == LAYOUT_MN_MAJOR,
                                           vector_major(row, "b_major") == LAYOUT_MN_MAJOR),
                         vector_hex(vector_get(row, "idesc")));
        compared++;
    }
    json_decref(file);
    print_message("%u instruction descriptors equal\n", compared);
    assert_int_equal(compared, 103 - 4); /* two negate, two have a 16-bit D */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wgmma_builder),
        cmocka_unit_test(test_tcgen05_builder),
        cmocka_unit_test(test_instruction_builder),
    };
    return cmocka_run_group_tests(tests, compile_builders, remove_builders);
}
