/* Tensor copies: every byte of a box, on an emulated device and, where there is one, on a GPU. Expected values are
 * computed here, from the text of the PTX ISA. */
#include "tma_support.h"

enum { MOST_BYTES = 1 << 16, POOL = 1 << 18 };

typedef struct box_case {
    enum dev_element element;
    enum dev_swizzle swizzle;
    int rank;
    uint64_t size[3];
    uint32_t box[3];
    int origin[3];
} box_case;

static const box_case cases[] = {
    /* every swizzle with every size of element, inside */
    {DEV_U8, DEV_SWIZZLE_NONE, 2, {96, 20}, {48, 16}, {16, 2}},
    {DEV_U8, DEV_SWIZZLE_32B, 2, {96, 20}, {32, 16}, {32, 2}},
    {DEV_U8, DEV_SWIZZLE_64B, 2, {96, 20}, {64, 16}, {16, 2}},
    {DEV_U8, DEV_SWIZZLE_128B, 2, {256, 20}, {128, 16}, {16, 2}},
    {DEV_F16, DEV_SWIZZLE_NONE, 2, {100, 70}, {64, 64}, {8, 2}},
    {DEV_BF16, DEV_SWIZZLE_32B, 2, {100, 70}, {16, 64}, {8, 2}},
    {DEV_F16, DEV_SWIZZLE_64B, 2, {100, 70}, {32, 64}, {8, 2}},
    {DEV_BF16, DEV_SWIZZLE_128B, 2, {100, 70}, {64, 64}, {8, 2}},
    {DEV_F32, DEV_SWIZZLE_NONE, 2, {60, 20}, {32, 16}, {4, 3}},
    {DEV_F32, DEV_SWIZZLE_32B, 2, {60, 20}, {8, 16}, {4, 3}},
    {DEV_F32, DEV_SWIZZLE_64B, 2, {60, 20}, {16, 16}, {4, 3}},
    {DEV_F32, DEV_SWIZZLE_128B, 2, {60, 20}, {32, 16}, {4, 3}},
    /* ragged edges: beyond the end, before the start, wholly outside */
    {DEV_F16, DEV_SWIZZLE_128B, 2, {100, 70}, {64, 64}, {40, 57}},
    {DEV_BF16, DEV_SWIZZLE_NONE, 2, {99, 70}, {64, 32}, {64, 60}},
    {DEV_F32, DEV_SWIZZLE_128B, 2, {61, 20}, {32, 16}, {-4, -5}},
    {DEV_U8, DEV_SWIZZLE_64B, 2, {77, 20}, {64, 16}, {-16, 19}},
    {DEV_F16, DEV_SWIZZLE_128B, 2, {100, 70}, {64, 8}, {104, 0}},
    {DEV_F16, DEV_SWIZZLE_128B, 2, {100, 70}, {64, 8}, {-64, -8}},
    /* one dimension, three */
    {DEV_F32, DEV_SWIZZLE_NONE, 1, {1000}, {256}, {900}},
    {DEV_U8, DEV_SWIZZLE_NONE, 1, {250}, {256}, {-16}},
    {DEV_F16, DEV_SWIZZLE_128B, 3, {64, 40, 5}, {64, 32, 3}, {0, 16, 3}},
    {DEV_F32, DEV_SWIZZLE_64B, 3, {20, 6, 7}, {16, 4, 5}, {-4, 4, -1}},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* Bytes that are neither all alike nor zero. */
static void fill_bytes(unsigned char *bytes, size_t count, uint32_t seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        bytes[i] = (unsigned char)(1 + (seed >> 24) % 255);
    }
}

/* Where byte `at` of a box is in shared memory, from a base aligned to 1024 bytes: PTX ISA 5.5.7 (tests/vectors). */
static uint32_t swizzled(enum dev_swizzle swizzle, uint32_t at) {
    static const uint32_t masks[] = {0, 1, 3, 7};
    return at ^ (at >> 7 & masks[swizzle]) << 4;
}

static const unsigned element_bytes[] = {[DEV_U8] = 1, [DEV_F16] = 2, [DEV_BF16] = 2, [DEV_F32] = 4};

/* The tensor in memory: rows with 16 bytes or more behind them, nothing of which may be seen in a box. */
static dev_tensor tensor_of(const box_case *c, void *address) {
    dev_tensor tensor = {
        .address = address, .element = c->element, .rank = c->rank, .swizzle = c->swizzle, .l2_bytes = 128};
    uint64_t stride = (c->size[0] * element_bytes[c->element] + 31) / 16 * 16;
    for (int i = 0; i < c->rank; i++) {
        tensor.size[i] = c->size[i];
        tensor.box[i] = c->box[i];
        if (i > 0) {
            tensor.stride[i - 1] = stride;
            stride *= c->size[i] + 1;
        }
    }
    return tensor;
}

static uint32_t box_bytes(const box_case *c) {
    uint32_t bytes = element_bytes[c->element];
    for (int i = 0; i < c->rank; i++)
        bytes *= c->box[i];
    return bytes;
}

/* Offset in the tensor's memory of a byte of the box; SIZE_MAX: outside the tensor. */
static size_t tensor_offset(const box_case *c, const dev_tensor *tensor, uint32_t at) {
    uint32_t bytes = element_bytes[c->element], element = at / bytes;
    size_t offset = at % bytes;
    for (int i = 0; i < c->rank; i++) {
        int64_t coordinate = c->origin[i] + (int64_t)(element % c->box[i]);
        element /= c->box[i];
        if (coordinate < 0 || coordinate >= (int64_t)c->size[i])
            return SIZE_MAX;
        offset += (size_t)coordinate * (i ? tensor->stride[i - 1] : bytes);
    }
    return offset;
}

static const char *entry_name(const char *verb, int rank) {
    static char name[16];
    snprintf(name, sizeof name, "%s_%dd", verb, rank);
    return name;
}

static void test_loads(void **state) {
    static unsigned char pool[POOL], got[MOST_BYTES], wanted[MOST_BYTES];
    test_kernel *kernel = load_right(*state, "tma_box.cu");
    fill_bytes(pool, sizeof pool, 1);
    void *memory = kernel_buffer(kernel, pool, sizeof pool), *out = kernel_buffer(kernel, NULL, MOST_BYTES);
    for (size_t i = 0; i < CASES; i++) {
        const box_case *c = &cases[i];
        dev_tensor tensor = tensor_of(c, memory);
        dev_tensor_map map;
        kernel_tensor_map(kernel, &tensor, &map);
        uint32_t bytes = box_bytes(c);
        int x = c->origin[0], y = c->origin[1], z = c->origin[2];
        kernel_dims dims = {.block = {64}, .shared_bytes = bytes};
        run_right(kernel, entry_name("load", c->rank), &dims, (void *[]){&map, &out, &x, &y, &z, &bytes});
        kernel_read(kernel, got, out, bytes);
        for (uint32_t at = 0; at < bytes; at++) {
            size_t from = tensor_offset(c, &tensor, at);
            wanted[swizzled(c->swizzle, at)] = from == SIZE_MAX ? 0 : pool[from];
        }
        for (uint32_t at = 0; at < bytes; at++)
            if (got[at] != wanted[at])
                fail_msg("case %zu: byte %u of shared memory is %u, not %u", i, at, got[at], wanted[at]);
    }
    kernel_free(kernel);
}

/* Boxes whose rows are narrower than the swizzle: each takes the swizzle's width, and what is left is not written. */
static void test_narrow_rows(void **state) {
    static const box_case narrow[] = {{DEV_F16, DEV_SWIZZLE_128B, 2, {100, 70}, {32, 8}, {80, 3}},
                                      {DEV_F16, DEV_SWIZZLE_128B, 2, {100, 70}, {48, 16}, {8, 60}},
                                      {DEV_U8, DEV_SWIZZLE_64B, 2, {96, 20}, {16, 16}, {16, 2}},
                                      {DEV_F32, DEV_SWIZZLE_32B, 2, {60, 20}, {4, 16}, {56, -3}}};
    static unsigned char pool[POOL], got[MOST_BYTES];
    test_kernel *kernel = load_right(*state, "tma_box.cu");
    fill_bytes(pool, sizeof pool, 5);
    void *memory = kernel_buffer(kernel, pool, sizeof pool), *out = kernel_buffer(kernel, NULL, MOST_BYTES);
    for (size_t i = 0; i < sizeof narrow / sizeof narrow[0]; i++) {
        const box_case *c = &narrow[i];
        dev_tensor tensor = tensor_of(c, memory);
        dev_tensor_map map;
        kernel_tensor_map(kernel, &tensor, &map);
        int x = c->origin[0], y = c->origin[1];
        uint32_t bytes = box_bytes(c), row = bytes / c->box[1], width = 16U << c->swizzle,
                 mask = (1U << c->swizzle) - 1;
        kernel_dims dims = {.block = {64}, .shared_bytes = (size_t)width * c->box[1]};
        run_right(kernel, "load_narrow", &dims, (void *[]){&map, &out, &x, &y, &bytes, &row, &width, &mask});
        kernel_read(kernel, got, out, bytes);
        for (uint32_t at = 0; at < bytes; at++) {
            size_t from = tensor_offset(c, &tensor, at);
            if (got[at] != (from == SIZE_MAX ? 0 : pool[from]))
                fail_msg("case %zu: byte %u of the box is %u", i, at, got[at]);
        }
    }
    kernel_free(kernel);
}

/* Stores may meet the end of a row only at multiples of 16 bytes. */
static void whole_rows(box_case *c) {
    c->size[0] -= c->size[0] % (16 / element_bytes[c->element]);
}

static void test_stores(void **state) {
    static unsigned char pool[POOL], got[POOL], in[MOST_BYTES];
    test_kernel *kernel = load_right(*state, "tma_box.cu");
    fill_bytes(in, sizeof in, 2);
    void *memory = kernel_buffer(kernel, pool, sizeof pool), *source = kernel_buffer(kernel, in, sizeof in);
    for (size_t i = 0; i < CASES; i++) {
        box_case c = cases[i];
        for (int d = 0; d < c.rank; d++)
            c.origin[d] = abs(c.origin[d]); /* a store may not begin before the tensor */
        whole_rows(&c);
        dev_tensor tensor = tensor_of(&c, memory);
        dev_tensor_map map;
        kernel_tensor_map(kernel, &tensor, &map);
        uint32_t bytes = box_bytes(&c);
        int x = c.origin[0], y = c.origin[1], z = c.origin[2], add = 0;
        kernel_dims dims = {.block = {64}, .shared_bytes = bytes};
        fill_bytes(pool, sizeof pool, 3);
        kernel_write(kernel, memory, pool, sizeof pool);
        run_right(kernel, entry_name("store", c.rank), &dims, (void *[]){&map, &source, &x, &y, &z, &bytes, &add});
        kernel_read(kernel, got, memory, sizeof got);
        for (uint32_t at = 0; at < bytes; at++) {
            size_t to = tensor_offset(&c, &tensor, at);
            if (to != SIZE_MAX)
                pool[to] = in[swizzled(c.swizzle, at)];
        }
        for (size_t at = 0; at < sizeof pool; at++)
            if (got[at] != pool[at])
                fail_msg("case %zu: byte %zu of the tensor is %u, not %u", i, at, got[at], pool[at]);
    }
    kernel_free(kernel);
}

/* Four blocks add the same box; sums of small whole numbers are exact. */
static void test_additions(void **state) {
    static float pool[POOL / 4], got[POOL / 4], in[MOST_BYTES / 4];
    test_kernel *kernel = load_right(*state, "tma_box.cu");
    for (size_t i = 0; i < MOST_BYTES / 4; i++)
        in[i] = (float)(i % 1000);
    void *memory = kernel_buffer(kernel, pool, sizeof pool), *source = kernel_buffer(kernel, in, sizeof in);
    for (size_t i = 0; i < CASES; i++) {
        box_case c = cases[i];
        if (c.element != DEV_F32)
            continue;
        for (int d = 0; d < c.rank; d++)
            c.origin[d] = abs(c.origin[d]);
        whole_rows(&c);
        dev_tensor tensor = tensor_of(&c, memory);
        dev_tensor_map map;
        kernel_tensor_map(kernel, &tensor, &map);
        uint32_t bytes = box_bytes(&c);
        int x = c.origin[0], y = c.origin[1], z = c.origin[2], add = 1;
        kernel_dims dims = {.grid = {4}, .block = {64}, .shared_bytes = bytes};
        for (size_t at = 0; at < POOL / 4; at++)
            pool[at] = (float)at;
        kernel_write(kernel, memory, pool, sizeof pool);
        run_right(kernel, entry_name("store", c.rank), &dims, (void *[]){&map, &source, &x, &y, &z, &bytes, &add});
        kernel_read(kernel, got, memory, sizeof got);
        for (uint32_t at = 0; at < bytes; at += 4) {
            size_t to = tensor_offset(&c, &tensor, at);
            if (to != SIZE_MAX)
                pool[to / 4] += 4 * in[swizzled(c.swizzle, at) / 4];
        }
        for (size_t at = 0; at < POOL / 4; at++)
            if (got[at] != pool[at])
                fail_msg("case %zu: float %zu of the tensor is %g, not %g", i, at, (double)got[at], (double)pool[at]);
    }
    kernel_free(kernel);
}

static void test_multicast(void **state) {
    enum { ROWS = 64, BOX = 64 * 16 };
    static uint16_t pool[ROWS * 64], got[2 * 2 * 2 * BOX];
    test_kernel *kernel = load_right(*state, "tma_multicast.cu");
    fill_bytes((unsigned char *)pool, sizeof pool, 4);
    void *memory = kernel_buffer(kernel, pool, sizeof pool), *out = kernel_buffer(kernel, NULL, sizeof got);
    dev_tensor tensor = {.address = memory,
                         .element = DEV_BF16,
                         .rank = 2,
                         .size = {64, ROWS},
                         .stride = {128},
                         .box = {64, 16},
                         .swizzle = DEV_SWIZZLE_128B};
    dev_tensor_map map;
    kernel_tensor_map(kernel, &tensor, &map);
    kernel_dims dims = {
        .grid = {2}, .block = {96}, .shared_bytes = sizeof got / 4, .attributes = {.cluster = {2, 1, 1}}};
    run_right(kernel, "multicast", &dims, (void *[]){&map, &out});
    kernel_read(kernel, got, out, sizeof got);
    for (uint32_t block = 0; block < 2; block++)
        for (uint32_t i = 0; i < 2 * 2 * BOX; i++) { /* [round][box][row][64] */
            uint32_t at = swizzled(DEV_SWIZZLE_128B, i % BOX * 2) / 2;
            uint16_t value = got[block * 4 * BOX + i / BOX * BOX + at];
            if (value != pool[i])
                fail_msg("block %u, element %u: %u, not %u", block, i, value, pool[i]);
        }
    kernel_free(kernel);
}

static void test_pair(void **state) {
    enum { ROWS = 24, BOX = 64 * 16 };
    static const place at = {"emulated:sm_100a", "late", "0"};
    static uint16_t pool[ROWS * 64], got[2 * BOX];
    (void)state;
    test_kernel *kernel = load_right(&at, "tma_pair.cu");
    fill_bytes((unsigned char *)pool, sizeof pool, 6);
    void *memory = kernel_buffer(kernel, pool, sizeof pool), *out = kernel_buffer(kernel, NULL, sizeof got);
    dev_tensor tensor = {
        .address = memory, .element = DEV_F16, .rank = 2, .size = {64, ROWS}, .stride = {128}, .box = {64, 16}};
    dev_tensor_map map;
    kernel_tensor_map(kernel, &tensor, &map);
    kernel_dims dims = {
        .grid = {2}, .block = {32}, .shared_bytes = sizeof got / 2, .attributes = {.cluster = {2, 1, 1}}};
    run_right(kernel, "pair", &dims, (void *[]){&map, &out});
    kernel_read(kernel, got, out, sizeof got);
    assert_memory_equal(got, pool + (size_t)8 * 64, sizeof got / 2);
    assert_memory_equal(got + BOX, pool + (size_t)8 * 64, sizeof got / 2);
    kernel_free(kernel);
}

int main(void) {
    const struct CMUnitTest tests[] = {EVERYWHERE(test_loads, "cuda:0"),     EVERYWHERE(test_narrow_rows, "cuda:0"),
                                       EVERYWHERE(test_stores, "cuda:0"),    EVERYWHERE(test_additions, "cuda:0"),
                                       EVERYWHERE(test_multicast, "cuda:0"), cmocka_unit_test(test_pair)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
