#include "sm90_kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test_inputs.h"

enum { STAGES = 3, BLOCK = 64, BLOCK_ELEMENTS = BLOCK * BLOCK };

static const char *const files[] = {"tests/emulated/kernels/sm90_ring.cu", "tests/emulated/kernels/sm90_fragments.cu",
                                    "tests/emulated/kernels/sm90_copies.cu", "tests/emulated/kernels/sm90_cluster.cu"};

/* ---- texts ---- */

/* As templates/kernels/wgmma_gemm.lua and wgmma_weight_gemm.lua fill the holes. registers: of ptx_sm90_rs.cuh. */
static char *filled(const char *const *pieces, size_t count, const sm90_shape *s, bool registers) {
    int d = s->n / 2, b = registers ? d + 4 : d + 1;
    char *list = test_alloc((size_t)d * 8), *operands = test_alloc((size_t)d * 16), number[7][16], fragments[64];
    char *list_at = list, *operands_at = operands;
    for (int i = 0; i < d; i++) {
        list_at += sprintf(list_at, "%s%%%d", i ? ", " : "", i);
        operands_at += sprintf(operands_at, "%s\"+f\"(d[%d])", i ? ", " : "", i);
    }
    const int values[] = {s->n, d, d, b, b + 1, b + 2, STAGES};
    for (int i = 0; i < 7; i++)
        (void)snprintf(number[i], sizeof number[i], "%d", values[i]);
    (void)snprintf(fragments, sizeof fragments, "%%%d, %%%d, %%%d, %%%d", d, d + 1, d + 2, d + 3);
    const kernel_fill fills[] = {{"n", number[0]},
                                 {"registers", number[1]},
                                 {"a_index", number[2]},
                                 {"b_index", number[3]},
                                 {"accumulate_index", number[4]},
                                 {"transpose_index", number[5]},
                                 {"stages", number[6]},
                                 {"a_list", fragments},
                                 {"d_list", list},
                                 {"d_operands", operands},
                                 {"type", s->bf16 ? "bf16" : "f16"},
                                 {"a_k_major", s->a_k_major ? "true" : "false"},
                                 {NULL, NULL}};
    char *text = kernel_text(pieces, count, fills);
    free(list);
    free(operands);
    return text;
}

char *sm90_source(enum sm90_kernel kernel, const sm90_shape *s) {
    static const char *const common[] = {"templates/lib/base.cuh", "templates/lib/ptx.cuh",
                                         "templates/lib/ptx_sm90.cuh"};
    const char *const fragments[] = {"templates/lib/ptx_sm90_rs.cuh", files[kernel]};
    const char *const others[] = {"templates/lib/ptx_tma.cuh", "templates/lib/ptx_cluster.cuh", files[kernel]};
    char *first = filled(common, 3, s, false);
    char *second = kernel == SM90_FRAGMENTS ? filled(fragments, 2, s, true) : filled(others, 3, s, false);
    size_t size = strlen(first) + strlen(second) + 1;
    char *text = test_alloc(size);
    (void)snprintf(text, size, "%s%s", first, second);
    free(first);
    free(second);
    return text;
}

char *sm90_planted(char *text, const char *find, const char *put) {
    char *at = strstr(text, find);
    if (!at)
        fail_msg("the text that a mistake is planted in is gone: %s", find);
    size_t size = strlen(text) + strlen(put) + 1;
    char *changed = test_alloc(size);
    (void)snprintf(changed, size, "%.*s%s%s", (int)(at - text), text, put, at + strlen(find));
    free(text);
    return changed;
}

/* NULL: *status and *why say why not. */
static test_kernel *load(const char *device, const char *name, const char *text, mlpbwd_status *status,
                         mlp_message *why) {
    test_kernel *kernel = kernel_load(device, name, text, status, why);
    if (!kernel && *status != MLPBWD_NO_DEVICE)
        fail_msg("%s: %s", name, why->text);
    if (kernel && kernel_device(kernel)->compute_capability != 90) {
        kernel_free(kernel);
        *status = mlp_fail(why, MLPBWD_NO_DEVICE, "%s has another compute capability than 9.0", device);
        return NULL;
    }
    return kernel;
}

/* ---- numbers ---- */

double sm90_value(uint16_t bits, bool bf16) {
    int exponent_bits = bf16 ? 8 : 5, mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1), mantissa = bits & ((1 << mantissa_bits) - 1);
    double sign = bits >> 15 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1)
        return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Finite numbers of both signs; for fp16 every hundredth is subnormal. */
static uint16_t random_bits(uint32_t *state, bool bf16) {
    uint32_t r = next_random(state), mantissa = next_random(state);
    if (bf16)
        return (uint16_t)((r & 1) << 15 | (120 + r / 2 % 9) << 7 | (mantissa & 0x7f));
    uint32_t exponent = r % 100 == 7 ? 0 : 9 + r / 2 % 9;
    return (uint16_t)((r & 1) << 15 | exponent << 10 | (mantissa & 0x3ff));
}

int sm90_swizzled(int row, int column) {
    return row * BLOCK + ((column / 8) ^ (row & 7)) * 8 + column % 8;
}

sm90_operands sm90_operands_make(const sm90_shape *s) {
    sm90_operands o = {.m = s->blocks * BLOCK, .n = s->n, .k = s->blocks_k * BLOCK};
    size_t a_size = (size_t)o.m * (size_t)o.k, b_size = (size_t)o.k * (size_t)o.n;
    o.a = test_alloc(a_size * 2), o.a_blocks = test_alloc(a_size * 2);
    o.b = test_alloc(b_size * 2), o.b_blocks = test_alloc(b_size * 2);
    uint32_t state = 1;
    for (int m = 0; m < o.m; m++) {
        for (int k = 0; k < o.k; k++) {
            int block = s->a_k_major ? m / BLOCK * s->blocks_k + k / BLOCK : k / BLOCK * s->blocks + m / BLOCK;
            int inside = s->a_k_major ? sm90_swizzled(m % BLOCK, k % BLOCK) : sm90_swizzled(k % BLOCK, m % BLOCK);
            o.a[m * o.k + k] = o.a_blocks[block * BLOCK_ELEMENTS + inside] = random_bits(&state, s->bf16);
        }
    }
    for (int k = 0; k < o.k; k++) {
        for (int n = 0; n < o.n; n++) {
            int block = k / BLOCK * (o.n / BLOCK) + n / BLOCK;
            o.b[k * o.n + n] = random_bits(&state, s->bf16);
            o.b_blocks[block * BLOCK_ELEMENTS + sm90_swizzled(k % BLOCK, n % BLOCK)] = o.b[k * o.n + n];
        }
    }
    return o;
}

void sm90_operands_free(sm90_operands *o) {
    free(o->a);
    free(o->b);
    free(o->a_blocks);
    free(o->b_blocks);
}

/* ---- runs ---- */

mlpbwd_status sm90_run_ring(const char *device, const char *text, const sm90_shape *s, const sm90_operands *o,
                            float *result, mlp_message *why) {
    mlpbwd_status status;
    test_kernel *kernel = load(device, "sm90_ring.cu", text, &status, why);
    if (!kernel)
        return status;
    size_t a_bytes = (size_t)o->m * (size_t)o->k * 2, b_bytes = (size_t)o->k * (size_t)o->n * 2;
    size_t d_bytes = (size_t)o->m * (size_t)o->n * 4;
    void *a = kernel_buffer(kernel, o->a_blocks, a_bytes), *b = kernel_buffer(kernel, o->b_blocks, b_bytes);
    void *d = kernel_buffer(kernel, NULL, d_bytes);
    int blocks_k = s->blocks_k;
    void *arguments[] = {&a, &b, &d, &blocks_k};
    const kernel_dims dims = {
        .grid = {(uint32_t)s->blocks}, .block = {384}, .shared_bytes = (size_t)STAGES * 8192 * (size_t)(1 + s->n / 64)};
    status = kernel_run(kernel, "ring", &dims, arguments, why);
    if (status == MLPBWD_OK && result)
        kernel_read(kernel, result, d, d_bytes);
    kernel_free(kernel);
    return status;
}

mlpbwd_status sm90_run_fragments(const char *device, const char *text, const sm90_operands *o, float *result,
                                 mlp_message *why) {
    mlpbwd_status status;
    test_kernel *kernel = load(device, "sm90_fragments.cu", text, &status, why);
    if (!kernel)
        return status;
    size_t a_bytes = (size_t)o->m * (size_t)o->k * 2, b_bytes = (size_t)o->k * (size_t)o->n * 2;
    size_t d_bytes = (size_t)o->m * (size_t)o->n * 4;
    uint16_t *b_steps = test_alloc(b_bytes);
    /* [step][column / 8][k / 8][column % 8][k % 8] */
    for (int k = 0; k < o->k; k++)
        for (int n = 0; n < o->n; n++)
            b_steps[k / 16 * o->n * 16 + n / 8 * 128 + k % 16 / 8 * 64 + n % 8 * 8 + k % 8] = o->b[k * o->n + n];
    void *a = kernel_buffer(kernel, o->a, a_bytes), *b = kernel_buffer(kernel, b_steps, b_bytes);
    void *d = kernel_buffer(kernel, NULL, d_bytes);
    int steps = o->k / 16;
    void *arguments[] = {&a, &b, &d, &steps};
    const kernel_dims dims = {.grid = {1}, .block = {128}, .shared_bytes = b_bytes};
    status = kernel_run(kernel, "fragments", &dims, arguments, why);
    if (status == MLPBWD_OK && result)
        kernel_read(kernel, result, d, d_bytes);
    kernel_free(kernel);
    free(b_steps);
    return status;
}

mlpbwd_status sm90_run_copies(const char *device, const char *text, const float *from, float *to, float *sum,
                              mlp_message *why) {
    mlpbwd_status status;
    test_kernel *kernel = load(device, "sm90_copies.cu", text, &status, why);
    if (!kernel)
        return status;
    const size_t bytes = SM90_ELEMENTS * sizeof *from, sum_bytes = SM90_CHUNK * sizeof *sum;
    const float zeros[SM90_CHUNK] = {0};
    void *in = kernel_buffer(kernel, from, bytes), *out = kernel_buffer(kernel, NULL, bytes);
    void *total = kernel_buffer(kernel, zeros, sum_bytes);
    int chunks = SM90_CHUNKS;
    void *arguments[] = {&in, &out, &total, &chunks};
    const kernel_dims dims = {.grid = {2}, .block = {128}, .shared_bytes = 2 * sum_bytes};
    status = kernel_run(kernel, "copies", &dims, arguments, why);
    if (status == MLPBWD_OK && to) {
        kernel_read(kernel, to, out, bytes);
        kernel_read(kernel, sum, total, sum_bytes);
    }
    kernel_free(kernel);
    return status;
}

mlpbwd_status sm90_run_cluster(const char *device, const char *text, const uint32_t *from, uint32_t *to,
                               mlp_message *why) {
    mlpbwd_status status;
    test_kernel *kernel = load(device, "sm90_cluster.cu", text, &status, why);
    if (!kernel)
        return status;
    const size_t to_bytes = SM90_RECEIVED * sizeof *to;
    uint32_t *zeros = test_alloc(to_bytes);
    memset(zeros, 0, to_bytes);
    void *in = kernel_buffer(kernel, from, SM90_SENT * sizeof *from), *out = kernel_buffer(kernel, zeros, to_bytes);
    int rounds = SM90_ROUNDS;
    void *arguments[] = {&in, &out, &rounds};
    const kernel_dims dims = {.grid = {2}, .block = {128}, .shared_bytes = 2 * sizeof *to * SM90_ROUND};
    status = kernel_run(kernel, "pair", &dims, arguments, why);
    if (status == MLPBWD_OK && to)
        kernel_read(kernel, to, out, to_bytes);
    kernel_free(kernel);
    free(zeros);
    return status;
}
