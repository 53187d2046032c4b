/* Launches with attributes and tensor maps: the rules that the library checks before a driver sees them, on a driver
 * that keeps books (fake_cuda.c), and the devices that have neither. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/device.h"
#include "fake_cuda.h"

static const fake_control *fake;

typedef struct opened {
    dev *device;
    dev_context *context;
    dev_module *module;
    dev_function *function;
} opened;

static int set_up(void **state) {
    (void)state;
    void *library = dlopen(BUILD_DIR "/tests/libfake_cuda.so", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        print_message("%s\n", dlerror());
        return 1;
    }
    fake = dlsym(library, "fake_cuda_control");
    return fake ? 0 : 1;
}

static opened open_fake(int capability) {
    opened o = {0};
    mlp_message why;
    fake->reset(1, capability, 0);
    if (dev_open("cuda:0", &o.device, &why) || dev_context_get(o.device, &o.context, &why) ||
        dev_module_load(o.context, "some PTX", 8, "ptx", &o.module, &why) ||
        dev_function_get(o.module, "kernel", 0, &o.function, NULL, &why))
        fail_msg("%s", why.text);
    return o;
}

static void close_fake(opened *o) {
    dev_module_unload(o->module);
    dev_context_release(o->context);
    dev_release(o->device);
}

/* ---- launches ---- */

static void check_launch(const opened *o, uint32_t x, uint32_t y, uint32_t z, mlpbwd_status wanted,
                         const char *in_message) {
    const uint32_t grid[3] = {12, 4, 1}, block[3] = {64, 1, 1};
    const dev_launch_attributes attributes = {.cluster = {x, y, z}};
    mlp_message why = {""};
    long launches = fake->books().launches;
    mlpbwd_status status = dev_launch_with(o->function, grid, block, 0, NULL, &attributes, NULL, &why);
    if (status != wanted || !strstr(why.text, in_message))
        fail_msg("cluster %u x %u x %u: status %d, \"%s\"", x, y, z, (int)status, why.text);
    assert_int_equal(fake->books().launches, launches + (wanted == MLPBWD_OK));
}

static void test_clusters(void **state) {
    (void)state;
    opened o = open_fake(90);
    check_launch(&o, 2, 1, 1, MLPBWD_OK, "");
    assert_int_equal(fake->books().cluster, 2);
    check_launch(&o, 4, 2, 1, MLPBWD_OK, "");
    check_launch(&o, 0, 0, 0, MLPBWD_OK, "");
    check_launch(&o, 8, 1, 1, MLPBWD_INVALID_ARGUMENT, "cannot be cut into clusters of 8 x 1 x 1");
    check_launch(&o, 2, 0, 1, MLPBWD_INVALID_ARGUMENT, "from 1 to 8");
    check_launch(&o, 12, 1, 1, MLPBWD_INVALID_ARGUMENT, "from 1 to 8");
    check_launch(&o, 4, 4, 1, MLPBWD_INVALID_ARGUMENT, "has more than 8");

    const uint32_t grid[3] = {12, 1, 1}, empty[3] = {12, 0, 1}, block[3] = {64, 1, 1}, cluster[3] = {2, 2, 1};
    const dev_launch_attributes programmatic = {.programmatic = true}, clusters = {.cluster = {2, 1, 1}};
    mlp_message why;
    int count;
    assert_int_equal(dev_launch_with(o.function, grid, block, 0, NULL, &programmatic, NULL, &why), MLPBWD_OK);
    assert_int_equal(fake->books().programmatic, 1);
    assert_int_equal(fake->books().cluster, 1); /* of one block: none */
    long launches = fake->books().launches;
    assert_int_equal(dev_launch_with(o.function, empty, block, 0, NULL, &clusters, NULL, &why), MLPBWD_OK);
    assert_int_equal(fake->books().launches, launches);
    assert_int_equal(dev_launch_with(o.function, grid, block, 0, NULL, NULL, NULL, &why), MLPBWD_OK);
    assert_int_equal(fake->books().launches, launches + 1);
    assert_int_equal(dev_active_clusters(o.function, block, 0, cluster, &count, &why), MLPBWD_OK);
    assert_int_equal(count, 66);
    fake->fail_call(3, 1); /* current?, push, the launch */
    assert_int_equal(dev_launch_with(o.function, grid, block, 0, NULL, &clusters, NULL, &why), MLPBWD_DEVICE_ERROR);
    assert_non_null(strstr(why.text, "in clusters of 2 x 1 x 1 failed"));
    close_fake(&o);
}

static void test_older_device(void **state) {
    (void)state;
    opened o = open_fake(80);
    const uint32_t one[3] = {1, 1, 1};
    const dev_tensor tensor = {0};
    dev_tensor_map map;
    mlp_message why;
    int count;
    check_launch(&o, 2, 1, 1, MLPBWD_UNSUPPORTED,
                 "compute capability 8.0; clusters and programmatic launches need 9.0");
    check_launch(&o, 0, 0, 0, MLPBWD_OK, "");
    assert_int_equal(dev_active_clusters(o.function, one, 0, one, &count, &why), MLPBWD_UNSUPPORTED);
    assert_int_equal(dev_tensor_map_encode(o.context, &tensor, &map, &why), MLPBWD_UNSUPPORTED);
    close_fake(&o);
}

static void test_host(void **state) {
    (void)state;
    dev *device;
    dev_context *context;
    const dev_tensor tensor = {0};
    dev_tensor_map map;
    mlp_message why;
    assert_int_equal(dev_open("host", &device, &why), MLPBWD_OK);
    assert_int_equal(dev_context_get(device, &context, &why), MLPBWD_OK);
    assert_int_equal(dev_tensor_map_encode(context, &tensor, &map, &why), MLPBWD_UNSUPPORTED);
    assert_string_equal(why.text, "device host has no tensor maps");
    dev_context_release(context);
    dev_release(device);
}

/* ---- tensor maps ---- */

/* A right one: 100 x 8 x 3 half floats, boxes of 64 x 8 x 3. */
static dev_tensor right_tensor(void) {
    static _Alignas(16) unsigned char memory[16];
    return (dev_tensor){.address = memory,
                        .element = DEV_F16,
                        .rank = 3,
                        .size = {100, 8, 3},
                        .stride = {208, 1664},
                        .box = {64, 8, 3},
                        .swizzle = DEV_SWIZZLE_128B,
                        .l2_bytes = 128};
}

static void test_encode(void **state) {
    (void)state;
    opened o = open_fake(90);
    dev_tensor tensor = right_tensor();
    dev_tensor_map map;
    mlp_message why;
    uint32_t told[6]; /* type, rank, interleave, swizzle, promotion, fill: as fake_cuda.c notes them */
    assert_int_equal(dev_tensor_map_encode(o.context, &tensor, &map, &why), MLPBWD_OK);
    memcpy(told, map.bytes, sizeof told);
    const uint32_t halves[6] = {6, 3, 0, 3, 2, 0};
    assert_memory_equal(told, halves, sizeof told);
    tensor.element = DEV_F32;
    tensor.box[0] = 16;
    tensor.rank = 1;
    tensor.swizzle = DEV_SWIZZLE_64B;
    tensor.l2_bytes = 0;
    assert_int_equal(dev_tensor_map_encode(o.context, &tensor, &map, &why), MLPBWD_OK);
    memcpy(told, map.bytes, sizeof told);
    const uint32_t floats[6] = {7, 1, 0, 2, 0, 0};
    assert_memory_equal(told, floats, sizeof told);
    fake->fail_call(3, 1); /* current?, push, the encoding */
    assert_int_equal(dev_tensor_map_encode(o.context, &tensor, &map, &why), MLPBWD_DEVICE_ERROR);
    close_fake(&o);
}

static void check_refused(const opened *o, const dev_tensor *tensor, const char *in_message) {
    dev_tensor_map map;
    mlp_message why = {""};
    fake->fail_call(0, 0);
    mlpbwd_status status = dev_tensor_map_encode(o->context, tensor, &map, &why);
    if (status != MLPBWD_INVALID_ARGUMENT || !strstr(why.text, in_message))
        fail_msg("status %d, \"%s\", wanted \"%s\"", (int)status, why.text, in_message);
    assert_int_equal(fake->books().calls, 0);
}

static void test_rules(void **state) {
    (void)state;
    opened o = open_fake(90);
    dev_tensor tensor;
#define REFUSED(member, value, in_message)                                                                             \
    tensor = right_tensor();                                                                                           \
    tensor.member = value;                                                                                             \
    check_refused(&o, &tensor, in_message)
    REFUSED(element, (enum dev_element)9, "element type 9 is not known");
    REFUSED(swizzle, (enum dev_swizzle)4, "swizzle 4 is not known");
    REFUSED(rank, 0, "the rank is 0; 1 to 5");
    REFUSED(rank, 6, "the rank is 6; 1 to 5");
    REFUSED(address, NULL, "aligned to 16 bytes");
    REFUSED(address, (unsigned char *)right_tensor().address + 8, "aligned to 16 bytes");
    REFUSED(l2_bytes, 32, "l2_bytes is 32");
    REFUSED(size[1], 0, "size[1] is 0 elements; 1 to 2^32");
    REFUSED(size[2], (UINT64_C(1) << 32) + 1, "size[2] is 4294967297 elements");
    REFUSED(box[0], 0, "box[0] is 0 elements; 1 to 256");
    REFUSED(box[2], 257, "box[2] is 257 elements");
    REFUSED(stride[0], 200, "stride[0] is 200 bytes; a multiple of 16");
    REFUSED(stride[1], 0, "stride[1] is 0 bytes");
    REFUSED(stride[1], UINT64_C(1) << 40, "below 2^40");
    REFUSED(box[0], 4, "box[0] is 4 elements of f16, 8 bytes; a multiple of 16");
    REFUSED(box[0], 72, "box[0] is 72 elements of f16, 144 bytes; the swizzle of 128 bytes");
    REFUSED(swizzle, DEV_SWIZZLE_32B, "the swizzle of 32 bytes");
#undef REFUSED
    close_fake(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clusters), cmocka_unit_test(test_older_device),
                                       cmocka_unit_test(test_host), cmocka_unit_test(test_encode),
                                       cmocka_unit_test(test_rules)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
