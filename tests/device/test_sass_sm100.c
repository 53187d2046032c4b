/* Machine code of the tcgen05 kernels, compiled for B200 (sm_100a) and B300 (sm_103a): the products are tcgen05 MMAs
 * inside a loop, as many as one pass of the main loop makes, and nothing goes to local memory. Needs NVRTC and NVIDIA's
 * disassembler (Python package nvidia-cuda-nvdisasm, or nvdisasm in PATH), no device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/device.h"
#include "gen.h"
#include "run_tool.h"

enum { MOST_LABELS = 512 };

static gen *generator;
static mlp_message why;
static char disassembler[512]; /* "": none */
static char folder[128];

static int open_all(void **state) {
    (void)state;
    static const char find[] = "command -v nvdisasm || python3 -c 'import glob, nvidia\n"
                               "for p in nvidia.__path__: print(*glob.glob(p + \"/*/bin/nvdisasm\"), sep=\"\\n\")'";
    const char *const arguments[] = {"/bin/sh", "-c", find, NULL};
    const char *folders[] = {SOURCE_DIR "/templates"};
    run_result found = run_program(arguments, NULL);
    if (found.code == 0)
        snprintf(disassembler, sizeof disassembler, "%.*s", (int)strcspn(found.output, "\n"), found.output);
    run_result_free(&found);
    make_folder(folder, sizeof folder);
    if (gen_open(folders, 1, NULL, &generator, &why) != MLPBWD_OK) {
        print_error("%s\n", why.text);
        return -1;
    }
    return 0;
}

static int close_all(void **state) {
    (void)state;
    gen_close(generator);
    remove_folder(folder);
    return 0;
}

/* ---- what the disassembly says ---- */

typedef struct findings {
    int products; /* MMAs in the smallest loop around the first one; 0: it is in no loop */
    int local;    /* accesses to local memory */
} findings;

typedef struct label {
    char name[32];
    int line;
} label;

static bool is_product(const char *line) {
    const char *at = strstr(line, "UTC");
    return at && strstr(at, "MMA");
}

/* A loop is a branch to a label further up. Labels are lines ".L_x_N:", branches hold "`(.L_x_N)". */
static findings read_disassembly(const char *text) {
    static label labels[MOST_LABELS];
    int count = 0, line = 0, first = 0, product_lines[256], products = 0, begin = 0, end = 0;
    findings result = {0};
    for (const char *at = text; *at; line++) {
        size_t length = strcspn(at, "\n");
        char one[512];
        snprintf(one, sizeof one, "%.*s", (int)(length < sizeof one ? length : sizeof one - 1), at);
        at += length + (at[length] == '\n');
        const char *target = strstr(one, "`(");
        if (one[0] == '.' && one[1] == 'L' && count < MOST_LABELS) {
            snprintf(labels[count].name, sizeof labels->name, "%.*s", (int)strcspn(one, ":"), one);
            labels[count++].line = line;
        } else if (is_product(one) && products < 256) {
            first = products == 0 ? line : first;
            product_lines[products++] = line;
        } else if (strstr(one, "LDL") || strstr(one, "STL")) {
            result.local++;
        }
        for (int i = 0; target && strstr(one, "BRA") && products > 0 && i < count; i++) {
            size_t size = strlen(labels[i].name);
            if (strncmp(target + 2, labels[i].name, size) == 0 && target[2 + size] == ')' && labels[i].line < first &&
                (begin == 0 || labels[i].line > begin)) {
                begin = labels[i].line;
                end = line;
            }
        }
    }
    for (int i = 0; i < products; i++)
        result.products += begin > 0 && product_lines[i] > begin && product_lines[i] < end;
    return result;
}

static void test_reading(void **state) {
    (void)state;
    const char *loop = "  MOV R1 ;\n.L_x_1:\n  UTCHMMA gdesc[UR4] ;\n  UTCHMMA gdesc[UR4] ;\n  @P0 BRA `(.L_x_1) ;\n"
                       "  UTCHMMA gdesc[UR4] ;\n  STL [R1], R2 ;\n";
    findings found = read_disassembly(loop);
    assert_int_equal(found.products, 2);
    assert_int_equal(found.local, 1);
    found = read_disassembly("  UTCHMMA gdesc[UR4] ;\n.L_x_1:\n  BRA `(.L_x_1) ;\n");
    assert_int_equal(found.products, 0);
    assert_int_equal(found.local, 0);
}

/* ---- the sample ---- */

static void check(const char *kernel, const char *role, const char *arch, int accuracy, const char *set, int products) {
    gen_target target = {arch, accuracy};
    kernel_use use;
    kernel_variant variant;
    dev_image image;
    json_t *given = set ? json_loads(set, 0, NULL) : NULL;
    assert_true(!set || given);
    if (kernel_use_init(&use, generator, kernel, role, &target, &why) != MLPBWD_OK ||
        kernel_variant_make(&use, given, NULL, &variant, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    json_decref(given);
    dev_compile_request request = {"nvrtc", json_string_value(json_object_get(use.arch, "target")), variant.source,
                                   kernel};
    if (dev_compile(&request, &image, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    const char *path = path_in(folder, "kernel.cubin");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(image.bytes, 1, image.size, file), image.size);
    assert_int_equal(fclose(file), 0);
    const char *const arguments[] = {disassembler, "-c", path, NULL};
    run_result listing = run_program(arguments, NULL);
    if (listing.code != 0)
        fail_msg("%s: %s", disassembler, listing.errors);
    findings found = read_disassembly(listing.output);
    if (found.products != products || found.local != 0)
        fail_msg("%s, role %s, %s, %s: %d tensor-core products in the main loop, expected %d; %d accesses to local "
                 "memory, expected none",
                 kernel, role, arch, set ? set : "default", found.products, products, found.local);
    run_result_free(&listing);
    dev_image_free(&image);
    kernel_variant_free(&variant);
}

static void test_machine_code(void **state) {
    (void)state;
    static const struct {
        const char *kernel, *set;
        int accuracy, products;
    } sample[] = {
        {"umma_gemm", NULL, MLPBWD_ACCURACY_TF32, 4},
        {"umma_split_gemm", NULL, MLPBWD_ACCURACY_FP32, 12},
        /* of sm_100a only */
        {"umma_gemm", "{\"pair\":false,\"stages\":4,\"schedule\":\"stealing\"}", MLPBWD_ACCURACY_BF16, 4},
        {"umma_gemm", "{\"tile_n\":128,\"writers\":2,\"slice\":32}", MLPBWD_ACCURACY_TF32, 4},
        {"umma_split_gemm", "{\"pair\":false,\"schedule\":\"stealing\",\"promoted\":2,\"stages\":4}",
         MLPBWD_ACCURACY_FP32, 12},
    };
    static const char *const roles[] = {"fc2_dgrad", "fc2_wgrad", "fc1_dgrad"};
    char version[64];
    if (dev_compiler_version("nvrtc", version, sizeof version, &why) != MLPBWD_OK) {
        print_message("%s\n", why.text);
        skip();
    }
    if (!*disassembler) {
        print_message("nvdisasm was not found: the Python package nvidia-cuda-nvdisasm has it\n");
        skip();
    }
    for (size_t i = 0; i < sizeof sample / sizeof *sample; i++)
        for (size_t r = 0; r < sizeof roles / sizeof *roles; r++) {
            check(sample[i].kernel, roles[r], "sm_100a", sample[i].accuracy, sample[i].set, sample[i].products);
            if (!sample[i].set)
                check(sample[i].kernel, roles[r], "sm_103a", sample[i].accuracy, NULL, sample[i].products);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reading), cmocka_unit_test(test_machine_code)};
    return cmocka_run_group_tests_name("machine code of tcgen05 kernels", tests, open_all, close_all);
}
