/* Tensor copies with one mistake each: the emulated device must find it and say what it is. */
#include "tma_support.h"

/* ---- tensor copies ---- */

enum { ROWS = 40, COLUMNS = 64, BOX_ROWS = 16, BOX = COLUMNS * BOX_ROWS * 2 };

typedef struct copy {
    test_kernel *kernel;
    dev_tensor tensor;
    dev_tensor_map map;
    void *memory, *out;
    int x, y, z, add;
    uint32_t bytes;
    kernel_dims dims;
} copy;

/* A box of 16 rows of 64 half floats, 128B swizzle, at row 3. */
static copy new_copy(const kernel_fill *changed) {
    static uint16_t values[ROWS * COLUMNS];
    copy c = {.kernel = load_with("tma_box.cu", changed), .y = 3, .bytes = BOX};
    c.memory = kernel_buffer(c.kernel, values, sizeof values);
    c.out = kernel_buffer(c.kernel, values, sizeof values);
    c.tensor = (dev_tensor){.address = c.memory,
                            .element = DEV_F16,
                            .rank = 2,
                            .size = {COLUMNS, ROWS},
                            .stride = {128},
                            .box = {COLUMNS, BOX_ROWS},
                            .swizzle = DEV_SWIZZLE_128B};
    c.dims = (kernel_dims){.block = {64}, .shared_bytes = BOX};
    return c;
}

static void copy_faults(copy *c, const char *entry, const char *const *parts) {
    kernel_tensor_map(c->kernel, &c->tensor, &c->map);
    bool load = strncmp(entry, "load", 4) == 0;
    void *other = c->out;
    must_fault(c->kernel, entry, &c->dims,
               load ? (void *[]){&c->map, &other, &c->x, &c->y, &c->z, &c->bytes}
                    : (void *[]){&c->map, &other, &c->x, &c->y, &c->z, &c->bytes, &c->add},
               parts);
    kernel_free(c->kernel);
}

static void test_expect_too_small(void **state) {
    (void)state;
    copy c = new_copy(FILL("expected", "bytes - 16"));
    copy_faults(&c, "load_2d", PARTS("2048 bytes", "expect_tx", "too small", "tma_box.cu:"));
}

static void test_expect_too_large(void **state) {
    (void)state;
    copy c = new_copy(FILL("expected", "bytes + 16"));
    copy_faults(&c, "load_2d", PARTS("deadlock", "mbarrier", "16 of 2064 bytes missing", "tma_box.cu:"));
}

static void test_map_beyond_memory(void **state) {
    (void)state;
    copy c = new_copy(NULL);
    c.tensor.size[1] = ROWS + 1;
    c.y = ROWS - 4;
    copy_faults(&c, "load_2d", PARTS("tensor load reads", "outside every allocation", "tma_box.cu:"));
}

static void test_store_beyond_memory(void **state) {
    (void)state;
    copy c = new_copy(NULL);
    c.tensor.size[1] = ROWS + 1;
    c.y = ROWS - 4;
    copy_faults(&c, "store_2d", PARTS("tensor store writes", "outside every allocation"));
}

static void test_missing_fence(void **state) {
    (void)state;
    copy c = new_copy(FILL("fence", ""));
    copy_faults(&c, "store_2d", PARTS("tensor store", "fence.proxy.async", "tma_box.cu:"));
}

static void test_wrong_rank(void **state) {
    (void)state;
    copy c = new_copy(NULL);
    copy_faults(&c, "load_3d", PARTS("tensor load of 3 dimensions with a tensor map of 2"));
}

static void test_negative_store(void **state) {
    (void)state;
    copy c = new_copy(NULL);
    c.y = -1;
    copy_faults(&c, "store_2d", PARTS("coordinate -1 of dimension 1", "only loads"));
}

/* 3 half floats are 6 bytes. */
static void test_odd_coordinate(void **state) {
    (void)state;
    copy c = new_copy(NULL);
    c.x = 3;
    copy_faults(&c, "load_2d", PARTS("coordinate 3 of the innermost dimension", "a multiple of 16 bytes"));
}

static void test_ragged_row(void **state) {
    (void)state;
    copy c = new_copy(NULL);
    c.tensor.size[0] = COLUMNS - 4;
    copy_faults(&c, "store_2d", PARTS("tensor store over the end of the tensor's rows of 120 bytes"));
}

static void test_addition_of_halves(void **state) {
    (void)state;
    copy c = new_copy(NULL);
    c.add = 1;
    copy_faults(&c, "store_2d", PARTS("adds only tensors of f32"));
}

static void test_misplaced_box(void **state) {
    (void)state;
    copy c = new_copy(FILL("place", " + 128"));
    c.dims.shared_bytes += 128;
    copy_faults(&c, "load_2d", PARTS("not a multiple of 1024", "128B"));
}

static void test_box_beyond_shared_memory(void **state) {
    (void)state;
    copy c = new_copy(NULL);
    c.dims.shared_bytes = BOX - 16;
    copy_faults(&c, "load_2d", PARTS("tma_box.cu:", "shared"));
}

/* The map says one swizzle, the kernel's reader assumes another: nothing faults, the values are others. */
static void test_wrong_swizzle(void **state) {
    (void)state;
    static uint16_t values[ROWS * COLUMNS], got[2][BOX / 2];
    copy c = new_copy(NULL);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        values[i] = (uint16_t)i;
    kernel_write(c.kernel, c.memory, values, sizeof values);
    for (int i = 0; i < 2; i++) {
        c.tensor.swizzle = i ? DEV_SWIZZLE_NONE : DEV_SWIZZLE_128B;
        kernel_tensor_map(c.kernel, &c.tensor, &c.map);
        run_right(c.kernel, "load_2d", &c.dims, (void *[]){&c.map, &c.out, &c.x, &c.y, &c.z, &c.bytes});
        kernel_read(c.kernel, got[i], c.out, BOX);
    }
    assert_memory_equal(got[1], values + (size_t)c.y * COLUMNS, BOX);
    assert_memory_equal(got[0], got[1], 128); /* the first row of the pattern stays */
    assert_memory_not_equal(got[0], got[1], BOX);
    kernel_free(c.kernel);
}

static void test_bad_maps(void **state) {
    (void)state;
    copy c = new_copy(NULL);
    kernel_tensor_map(c.kernel, &c.tensor, &c.map);
    static _Alignas(64) unsigned char zeros[256];
    unsigned char *good = kernel_buffer(c.kernel, &c.map, sizeof c.map), *none = kernel_buffer(c.kernel, zeros, 256);
    c.map.bytes[40] ^= 1;
    unsigned char *damaged = kernel_buffer(c.kernel, &c.map, sizeof c.map);
    static const struct {
        int which;
        const char *part;
    } bad[] = {{0, "no tensor map of an emulated device"},
               {1, "has been changed since it was encoded"},
               {2, "not aligned to 64 bytes"},
               {3, "neither a parameter's nor a constant's nor in global memory"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        void *map = (void *[]){none, damaged, good + 16, zeros}[bad[i].which];
        must_fault(c.kernel, "prefetch_of", &c.dims, (void *[]){&map}, PARTS("prefetch of a tensor map", bad[i].part));
    }
    void *map = good;
    run_right(c.kernel, "prefetch_of", &c.dims, (void *[]){&map});
    kernel_free(c.kernel);
}

/* ---- multicast ---- */

static void multicast_faults(const kernel_fill *changed, uint32_t cluster, const char *const *parts) {
    static uint16_t values[64 * 64];
    test_kernel *kernel = load_with("tma_multicast.cu", changed);
    void *memory = kernel_buffer(kernel, values, sizeof values), *out = kernel_buffer(kernel, NULL, 16384);
    const dev_tensor tensor = {.address = memory,
                               .element = DEV_BF16,
                               .rank = 2,
                               .size = {64, 64},
                               .stride = {128},
                               .box = {64, 16},
                               .swizzle = DEV_SWIZZLE_128B};
    dev_tensor_map map;
    kernel_tensor_map(kernel, &tensor, &map);
    kernel_dims dims = {.grid = {2}, .block = {32}, .shared_bytes = 4096, .attributes = {.cluster = {cluster, 1, 1}}};
    must_fault(kernel, "multicast", &dims, (void *[]){&map, &out}, parts);
    kernel_free(kernel);
}

static void test_multicast_alone(void **state) {
    (void)state;
    multicast_faults(NULL, 1, PARTS("the blocks of mask 0x3", "the cluster has 1"));
}

/* The peer's bytes are not counted: the phase ends with the first of the two copies. */
static void test_multicast_expects_own_only(void **state) {
    (void)state;
    multicast_faults(FILL("expected", "BOX_BYTES"), 2,
                     PARTS("ends with the 2048 bytes that it expected", "expect_tx is too small", "tma_multicast.cu:"));
}

/* The stage is read with ordinary loads and filled again by the copy engine. */
static void test_multicast_without_fence(void **state) {
    (void)state;
    multicast_faults(FILL("fence", ""), 2, PARTS("multicast tensor load", "fence.proxy.async", "tma_multicast.cu:"));
}

static void test_exit_before_peer_signals(void **state) {
    (void)state;
    multicast_faults(FILL("drain", ""), 2, PARTS("all of whose threads have exited", "tma_multicast.cu:"));
}

/* The barriers' making is ordered by nothing. */
static void test_multicast_unsynchronised(void **state) {
    (void)state;
    multicast_faults((const kernel_fill[]){{"start", ""}, {NULL, NULL}}, 2, PARTS("mbarrier"));
}

/* A barrier of the other block takes .cta_group::2. */
static void test_barrier_of_another_block(void **state) {
    (void)state;
    static uint16_t values[24 * 64];
    mlp_message why = {""};
    static const char *const device = "emulated:sm_100a";
    test_kernel *kernel = load_changed(
        device, "tma_pair.cu", FILL("load", "tma_load_2d(shared_of_rank(box, 1), &map, 0, 8, full)"), NULL, &why);
    if (!kernel)
        fail_msg("%s", why.text);
    void *memory = kernel_buffer(kernel, values, sizeof values), *out = kernel_buffer(kernel, NULL, 4096);
    const dev_tensor tensor = {
        .address = memory, .element = DEV_F16, .rank = 2, .size = {64, 24}, .stride = {128}, .box = {64, 16}};
    dev_tensor_map map;
    kernel_tensor_map(kernel, &tensor, &map);
    kernel_dims dims = {.grid = {2}, .block = {32}, .shared_bytes = 2048, .attributes = {.cluster = {2, 1, 1}}};
    must_fault(kernel, "pair", &dims, (void *[]){&map, &out},
               PARTS("into the block of rank 1", "its mbarrier is in that of rank 0"));
    kernel_free(kernel);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expect_too_small),
        cmocka_unit_test(test_expect_too_large),
        cmocka_unit_test(test_map_beyond_memory),
        cmocka_unit_test(test_store_beyond_memory),
        cmocka_unit_test(test_missing_fence),
        cmocka_unit_test(test_wrong_rank),
        cmocka_unit_test(test_negative_store),
        cmocka_unit_test(test_odd_coordinate),
        cmocka_unit_test(test_ragged_row),
        cmocka_unit_test(test_addition_of_halves),
        cmocka_unit_test(test_misplaced_box),
        cmocka_unit_test(test_box_beyond_shared_memory),
        cmocka_unit_test(test_wrong_swizzle),
        cmocka_unit_test(test_bad_maps),
        cmocka_unit_test(test_multicast_alone),
        cmocka_unit_test(test_multicast_expects_own_only),
        cmocka_unit_test(test_multicast_without_fence),
        cmocka_unit_test(test_exit_before_peer_signals),
        cmocka_unit_test(test_multicast_unsynchronised),
        cmocka_unit_test(test_barrier_of_another_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
