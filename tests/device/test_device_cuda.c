/* The device interface on "cuda:0": facts, memory, modules, launches, contexts. Skipped where no device opens. */
#include "cuda_fixture.h"

static void test_info(void **state) {
    NEED_DEVICE();
    const dev_info *info = dev_get_info(f->device);
    assert_string_equal(info->id, "cuda:0");
    assert_string_equal(info->backend, "cuda");
    assert_true(info->compute_capability >= 80);
    assert_true(info->units > 0 && info->memory_bytes > 1 << 30 && info->l2_bytes > 1 << 19);
    assert_true(info->shared_bytes_per_block >= 48 << 10);
    assert_true(info->ladder_length >= 1);
    assert_string_equal(info->ladder[info->ladder_length - 1], "compute_80");
    assert_non_null(strstr(info->driver, "CUDA 1"));
    dev_info full;
    dev_describe(f->device, &full);
    print_message("%s: %s, %d units, %.0f MHz, %.0f W, driver %s, compiler %s\n", full.id, full.name, full.units,
                  full.max_clock_mhz, full.power_limit_w, full.driver, full.compiler);
    assert_true(full.max_clock_mhz > 500 && full.max_clock_mhz < 5000);
    assert_true(full.power_limit_w == 0 || (full.power_limit_w > 20 && full.power_limit_w < 5000));
}

static void test_memory(void **state) {
    NEED_DEVICE();
    static const size_t sizes[] = {0, 1, 3, 4, 255, 4096, 1000003, 64 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *memory;
        unsigned char *bytes = malloc(sizes[i] + 1), *back = malloc(sizes[i] + 1);
        assert_true(bytes && back);
        CHECK(dev_alloc(f->context, sizes[i], &memory, &failure));
        assert_int_equal((uintptr_t)memory % 256, 0);
        for (size_t j = 0; j < sizes[i]; j++)
            bytes[j] = (unsigned char)(j * 7 + i);
        CHECK(dev_copy_in(f->context, memory, bytes, sizes[i], &failure));
        CHECK(dev_copy_out(f->context, back, memory, sizes[i], &failure));
        assert_memory_equal(bytes, back, sizes[i]);
        size_t most = sizes[i] < 8 ? sizes[i] : 8;
        for (size_t from = 0; from < most; from++) { /* every alignment of both ends */
            CHECK(dev_fill(f->context, (char *)memory + from, 0x1a5, sizes[i] - from - from / 2, NULL, &failure));
            CHECK(dev_synchronize(f->context, &failure));
            CHECK(dev_copy_out(f->context, back, memory, sizes[i], &failure));
            memset(bytes + from, 0xa5, sizes[i] - from - from / 2);
            assert_memory_equal(bytes, back, sizes[i]);
        }
        dev_free(f->context, memory);
        free(bytes);
        free(back);
    }
    void *none = f;
    mlp_message why;
    assert_int_equal(dev_alloc(f->context, (size_t)1 << 50, &none, &why), MLPBWD_OUT_OF_MEMORY);
    assert_null(none);
    dev_free(f->context, NULL);
}

static void test_launch(void **state) {
    NEED_DEVICE();
    enum { N = 100001 };
    uint32_t *values = malloc(N * sizeof *values);
    void *memory;
    assert_non_null(values);
    for (uint32_t i = 0; i < N; i++)
        values[i] = i;
    CHECK(dev_alloc(f->context, N * sizeof *values, &memory, &failure));
    CHECK(dev_copy_in(f->context, memory, values, N * sizeof *values, &failure));
    CHECK(launch_affine(f, memory, 3, 5, N - 1, NULL, &failure));
    CHECK(dev_synchronize(f->context, &failure));
    CHECK(dev_copy_out(f->context, values, memory, N * sizeof *values, &failure));
    for (uint32_t i = 0; i < N - 1; i++)
        assert_int_equal(values[i], 3 * i + 5);
    assert_int_equal(values[N - 1], N - 1);
    uint32_t grid[3] = {1, 0, 1}, block[3] = {1, 1, 1};
    CHECK(dev_launch(f->affine, grid, block, 0, NULL, NULL, &failure)); /* nothing */
    grid[1] = 1;
    block[0] = 4096; /* more threads than any block has */
    void *arguments[] = {&memory, grid, grid, grid};
    mlp_message why;
    assert_int_equal(dev_launch(f->affine, grid, block, 0, arguments, NULL, &why), MLPBWD_DEVICE_ERROR);
    assert_non_null(strstr(why.text, "4096"));
    assert_non_null(strstr(why.text, "earlier work"));
    dev_free(f->context, memory);
    free(values);
}

static void test_functions(void **state) {
    NEED_DEVICE();
    mlp_message why;
    dev_function *function;
    dev_function_info info = {-1, -1, -1, -1};
    CHECK(dev_function_get(f->module, "affine", 0, &function, &info, &failure));
    assert_true(info.registers > 0 && info.registers <= 255);
    assert_int_equal(info.local_bytes, 0);
    assert_int_equal(info.static_shared_bytes, 0);
    assert_true(info.max_threads > 0 && info.max_threads <= 1024);
    assert_int_equal(dev_function_get(f->module, "absent", 0, &function, NULL, &why), MLPBWD_DEVICE_ERROR);
    assert_non_null(strstr(why.text, "absent"));

    size_t most = (size_t)dev_get_info(f->device)->shared_bytes_per_block;
    assert_int_equal(dev_function_get(f->module, "shared", most + 1, &function, NULL, &why), MLPBWD_UNSUPPORTED);
    CHECK(dev_function_get(f->module, "shared", most, &function, NULL, &failure));
    void *memory;
    uint32_t last = (uint32_t)most - 4, one[3] = {1, 1, 1};
    void *arguments[] = {&memory, &last};
    CHECK(dev_alloc(f->context, 4, &memory, &failure));
    CHECK(dev_launch(function, one, one, most, arguments, NULL, &failure));
    assert_int_equal(read_word(f, memory), 4711);
    dev_free(f->context, memory);
}

static void test_bad_modules(void **state) {
    NEED_DEVICE();
    dev_module *module;
    mlp_message why;
    static const char junk[] = "this is no PTX";
    assert_int_equal(dev_module_load(f->context, junk, sizeof junk - 1, "elf-so", &module, &why), MLPBWD_UNSUPPORTED);
    assert_int_equal(dev_module_load(f->context, junk, sizeof junk - 1, "cubin", &module, &why), MLPBWD_DATABASE_ERROR);
    assert_int_not_equal(dev_module_load(f->context, junk, sizeof junk - 1, "ptx", &module, &why), MLPBWD_OK);
    assert_null(module);
    assert_true(strlen(why.text) > 10);
    static const char newer[] = ".version 99.0\n.target sm_80\n.address_size 64\n";
    assert_int_not_equal(dev_module_load(f->context, newer, sizeof newer - 1, "ptx", &module, &why), MLPBWD_OK);
    print_message("%s\n", why.text);
}

static void test_compiled(void **state) {
    NEED_DEVICE();
    mlp_message message;
    dev_image image;
    const dev_info *info = dev_get_info(f->device);
    for (size_t i = 0; i < info->ladder_length; i++) {
        dev_compile_request request = {"nvrtc", info->ladder[i],
                                       "extern \"C\" __global__ void k(unsigned *x) { x[threadIdx.x] += 7u; }\n", "k"};
        mlpbwd_status status = dev_compile(&request, &image, &message);
        if (status == MLPBWD_UNSUPPORTED) {
            print_message("%s\n", message.text);
            skip();
        }
        assert_int_equal(status, MLPBWD_OK);
        dev_module *module;
        dev_function *function;
        void *memory;
        void *arguments[] = {&memory};
        uint32_t one[3] = {1, 1, 1};
        CHECK(dev_module_load(f->context, image.bytes, image.size, image.format, &module, &failure));
        for (size_t size = 0; strcmp(image.format, "cubin") == 0 && size < image.size; size += 61) {
            dev_module *cut;
            char *copy = malloc(size + 1);
            assert_non_null(copy);
            memcpy(copy, image.bytes, size);
            assert_int_equal(dev_module_load(f->context, copy, size, "cubin", &cut, NULL), MLPBWD_DATABASE_ERROR);
            free(copy);
        }
        dev_image_free(&image);
        CHECK(dev_function_get(module, "k", 0, &function, NULL, &failure));
        CHECK(dev_alloc(f->context, 4, &memory, &failure));
        CHECK(dev_fill(f->context, memory, 0, 4, NULL, &failure));
        CHECK(dev_launch(function, one, one, 0, arguments, NULL, &failure));
        dev_module_unload(module); /* while it may still run */
        assert_int_equal(read_word(f, memory), 7);
        dev_free(f->context, memory);
    }
}

/* ---- contexts ---- */

static void test_context_rules(void **state) {
    NEED_DEVICE();
    CUcontext before, primary, other, popped;
    CUdevice device;
    dev_context *again;
    bool pushed;
    mlp_message why;
    assert_int_equal(f->api->cuCtxGetCurrent(&before), 0);
    assert_null(before); /* nothing in this program leaves one current */
    CHECK(dev_context_get(f->device, &again, &failure));
    assert_ptr_equal(again, f->context);
    dev_context_release(again);

    CHECK(dev_context_enter(f->context, &pushed, &failure));
    assert_true(pushed);
    assert_int_equal(f->api->cuCtxGetCurrent(&primary), 0);
    assert_non_null(primary);
    bool twice;
    CHECK(dev_context_enter(f->context, &twice, &failure));
    assert_false(twice);
    dev_context_leave(f->context, twice);
    CHECK(dev_context_get(f->device, &again, &failure)); /* the current one, which is the primary */
    assert_ptr_equal(again, f->context);
    dev_context_release(again);
    dev_context_leave(f->context, pushed);
    assert_int_equal(f->api->cuCtxGetCurrent(&before), 0);
    assert_null(before);

    /* A context of the application's own on the same device. */
    cuda_enum (*create)(CUcontext *, unsigned, CUdevice), (*destroy)(CUcontext);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    assert_non_null(library);
    void *address = dlsym(library, "cuCtxCreate_v2");
    assert_non_null(address);
    memcpy(&create, &address, sizeof address);
    address = dlsym(library, "cuCtxDestroy_v2");
    assert_non_null(address);
    memcpy(&destroy, &address, sizeof address);
    assert_int_equal(f->api->cuDeviceGet(&device, 0), 0);
    assert_int_equal(create(&other, 0, device), 0);
    dev_context *own, *same;
    CHECK(dev_context_get(f->device, &own, &failure));
    assert_ptr_not_equal(own, f->context);
    CHECK(dev_context_get(f->device, &same, &failure));
    assert_ptr_equal(own, same);
    dev_context_release(same);
    assert_int_equal(dev_context_enter(f->context, &pushed, &why), MLPBWD_INVALID_ARGUMENT);
    assert_false(pushed);
    assert_non_null(strstr(why.text, "another CUDA context"));
    CHECK(dev_context_enter(own, &pushed, &failure));
    assert_false(pushed);
    dev *chosen; /* NULL: the device of the current context */
    CHECK(dev_open(NULL, &chosen, &failure));
    assert_string_equal(dev_get_info(chosen)->id, "cuda:0");
    dev_release(chosen);
    /* Memory, modules and launches there, while it is current and while it is not. */
    dev_module *module;
    dev_function *function;
    void *memory;
    uint32_t a = 2, b = 1, n = 1, one[3] = {1, 1, 1};
    void *arguments[] = {&memory, &a, &b, &n};
    CHECK(dev_module_load(own, ptx_source, strlen(ptx_source), "ptx", &module, &failure));
    CHECK(dev_function_get(module, "affine", 0, &function, NULL, &failure));
    assert_int_equal(f->api->cuCtxPopCurrent_v2(&popped), 0);
    CHECK(dev_alloc(own, 4, &memory, &failure));
    CHECK(dev_fill(own, memory, 0, 4, NULL, &failure));
    CHECK(dev_launch(function, one, one, 0, arguments, NULL, &failure));
    CHECK(dev_launch(function, one, one, 0, arguments, NULL, &failure));
    CHECK(dev_synchronize(own, &failure));
    uint32_t value;
    CHECK(dev_copy_out(own, &value, memory, 4, &failure));
    assert_int_equal(value, 3);
    dev_free(own, memory);
    assert_int_equal(destroy(other), 0); /* before the module: what was in it is gone, and nothing may break */
    dev_module_unload(module);
    dev_context_release(own);
    assert_int_equal(f->api->cuCtxGetCurrent(&before), 0);
    assert_null(before);
    CHECK(dev_synchronize(f->context, &failure));
    dlclose(library);
}

static void test_fork(void **state) {
    NEED_DEVICE();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(30);
        dev_context *context;
        bool refused = dev_context_get(f->device, &context, NULL) == MLPBWD_DEVICE_ERROR;
        dev_module_unload(f->module);
        dev_context_release(f->context);
        dev_release(f->device);
        _exit(refused ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    CHECK(dev_synchronize(f->context, &failure));
}

static void test_absent_ordinal(void **state) {
    NEED_DEVICE();
    (void)f;
    dev *device;
    mlp_message why;
    assert_int_equal(dev_open("cuda:999", &device, &why), MLPBWD_NO_DEVICE);
    assert_non_null(strstr(why.text, "cuda:999"));
    assert_non_null(strstr(why.text, "CUDA device"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_info),          TEST(test_memory),      TEST(test_launch),
        TEST(test_functions),     TEST(test_bad_modules), TEST(test_compiled),
        TEST(test_context_rules), TEST(test_fork),        TEST(test_absent_ordinal),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
