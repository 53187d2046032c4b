/* See sm100_fixture.h. */
#include "sm100_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BLOCK = 64, BLOCK_BYTES = 8192, ROW_BYTES = 128, MOST_FILLS = 24 };

/* ---- texts ---- */

/* ptx_sm90.cuh has holes for wgmma, which these kernels do not call. */
static const kernel_fill unused[] = {{"type", "f16"},
                                     {"registers", "4"},
                                     {"n", "8"},
                                     {"d_list", "%0, %1, %2, %3"},
                                     {"d_operands", "\"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3])"},
                                     {"a_index", "4"},
                                     {"b_index", "5"},
                                     {"accumulate_index", "6"},
                                     {"transpose_index", "7"}};
enum { UNUSED = sizeof unused / sizeof *unused };

char *sm100_text(const char *name, const kernel_fill *fills, const char *find, const char *put) {
    char path[128];
    snprintf(path, sizeof path, "tests/emulated/kernels/%s.cu", name);
    const char *const pieces[] = {"templates/lib/base.cuh",
                                  "templates/lib/ptx.cuh",
                                  "templates/lib/ptx_sm90.cuh",
                                  "templates/lib/ptx_tma.cuh",
                                  "templates/lib/ptx_cluster.cuh",
                                  "templates/lib/ptx_sm100.cuh",
                                  path};
    kernel_fill all[MOST_FILLS + 1] = {{0}};
    size_t count = 0;
    for (; count < UNUSED; count++)
        all[count] = unused[count];
    for (; fills && fills->name && count < MOST_FILLS; fills++)
        all[count++] = *fills;
    char *text = kernel_text(pieces, sizeof pieces / sizeof *pieces, all);
    if (!find)
        return text;
    char *at = strstr(text, find);
    if (!at)
        fail_msg("%s.cu: the text to be changed is gone: %s", name, find);
    size_t size = strlen(text) + strlen(put) + 1;
    char *changed = malloc(size);
    assert_non_null(changed);
    snprintf(changed, size, "%.*s%s%s", (int)(at - text), text, put, at + strlen(find));
    free(text);
    return changed;
}

test_kernel *sm100_load(const char *name, const kernel_fill *fills, const char *find, const char *put) {
    char *text = sm100_text(name, fills, find, put), file[64];
    mlp_message why = {{0}};
    mlpbwd_status status = MLPBWD_OK;
    snprintf(file, sizeof file, "%s.cu", name);
    test_kernel *kernel = kernel_load("emulated:sm_100a", file, text, &status, &why);
    free(text);
    if (!kernel && status == MLPBWD_NO_DEVICE) {
        print_message("emulated:sm_100a is skipped: %s\n", why.text);
        skip();
    }
    if (!kernel)
        fail_msg("%s: %s", file, why.text);
    return kernel;
}

/* ---- operands ---- */

double sm100_value(uint32_t operand, size_t index) {
    uint64_t x = (index + 1) * 0x9e3779b97f4a7c15ULL + operand * 0xbf58476d1ce4e5b9ULL; /* SplitMix64 */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
    return ((int)(x >> 56) - 128) / 64.0;
}

uint16_t sm100_half(double value, enum sm100_type type) {
    if (value == 0)
        return 0;
    int mantissa_bits = type == SM100_BF16 ? 7 : 10, bias = type == SM100_BF16 ? 127 : 15, exponent;
    double fraction = frexp(fabs(value), &exponent); /* in [0.5, 1) */
    unsigned mantissa = (unsigned)ldexp(fraction * 2 - 1, mantissa_bits);
    return (uint16_t)((value < 0 ? 0x8000U : 0) | (unsigned)(exponent - 1 + bias) << mantissa_bits | mantissa);
}

uint16_t *sm100_blocks(uint32_t operand, size_t mn_size, size_t k_size, enum sm100_type type, bool mn_major) {
    uint16_t *blocks = malloc(mn_size * k_size * sizeof *blocks);
    assert_non_null(blocks);
    for (size_t mn = 0; mn < mn_size; mn++)
        for (size_t k = 0; k < k_size; k++) {
            size_t block =
                mn_major ? k / BLOCK * (mn_size / BLOCK) + mn / BLOCK : mn / BLOCK * (k_size / BLOCK) + k / BLOCK;
            size_t row = (mn_major ? k : mn) % BLOCK, column = (mn_major ? mn : k) % BLOCK;
            size_t byte = row * ROW_BYTES + column * sizeof(uint16_t);
            byte ^= (byte >> 7 & 7) << 4;
            blocks[(block * BLOCK_BYTES + byte) / sizeof *blocks] =
                sm100_half(sm100_value(operand, mn * k_size + k), type);
        }
    return blocks;
}

bool sm100_equal(const float *d, size_t m_size, size_t n_size, size_t k_size, char *sentence, size_t capacity) {
    for (size_t m = 0; m < m_size; m++)
        for (size_t n = 0; n < n_size; n++) {
            double sum = 0;
            for (size_t k = 0; k < k_size; k++)
                sum += sm100_value(0, m * k_size + k) * sm100_value(1, n * k_size + k);
            if (d[m * n_size + n] == sum)
                continue;
            if (sentence)
                snprintf(sentence, capacity, "element (%zu, %zu) is %.9g; float64 gives %.17g", m, n,
                         (double)d[m * n_size + n], sum);
            return false;
        }
    return true;
}
