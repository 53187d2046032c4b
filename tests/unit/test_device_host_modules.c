/* Modules of the host device: loaded from memory and through files, many at once, damaged, without space. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "host_fixture.h"

static bool refuse_memfd;

/* Stands before the C library's: kernels without it exist. */
int memfd_create(const char *name, unsigned flags) {
    if (refuse_memfd) {
        errno = ENOSYS;
        return -1;
    }
    return (int)syscall(SYS_memfd_create, name, flags);
}

static void test_modules_through_files(void **state) {
    NEED_DEVICE();
    dev_module *module;
    mlp_message why = {""};
    char folder[] = "/tmp/it's \"odd\" XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *before = getenv("TMPDIR");
    char *kept = before ? strdup(before) : NULL;
    setenv("TMPDIR", folder, 1);
    refuse_memfd = true;
    for (int i = 0; i < 3; i++) {
        mlpbwd_status status = dev_module_load(f->context, f->image.bytes, f->image.size, "elf-so", &module, &why);
        if (status)
            refuse_memfd = false;
        assert_string_equal(why.text, "");
        assert_int_equal(status, MLPBWD_OK);
        fixture own = *f;
        own.module = module;
        get(&own, "count", &own.count);
        check_grid(&own, 10, 2, 1, 2);
        dev_module_unload(module);
    }
    assert_int_equal(rmdir(folder), 0); /* and nothing is left in it */
    mlpbwd_status status = dev_module_load(f->context, f->image.bytes, f->image.size, "elf-so", &module, &why);
    refuse_memfd = false;
    assert_int_equal(status, MLPBWD_DEVICE_ERROR);
    assert_non_null(strstr(why.text, folder));
    if (kept)
        setenv("TMPDIR", kept, 1);
    else
        unsetenv("TMPDIR");
    free(kept);
}

static int open_files(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* The loader knows libraries by path; two that are loaded from descriptors of the same number must stay two. */
static void test_modules_stay_apart(void **state) {
    NEED_DEVICE();
    enum { KINDS = 3, EACH = 20 };
    dev_image images[KINDS];
    dev_module *modules[KINDS * EACH];
    mlp_message why;
    int before = open_files();
    for (int i = 0; i < KINDS; i++) {
        char source[160];
        snprintf(source, sizeof source,
                 "void entry(void *const *args, unsigned x, unsigned y, unsigned z) { **(int **)args[0] = %d; }",
                 100 + i);
        dev_compile_request request = {"cc", "x86-64", source, "constant"};
#if !defined(__x86_64__)
        request.target = "generic";
#endif
        assert_int_equal(dev_compile(&request, &images[i], &why), MLPBWD_OK);
    }
    for (int i = 0; i < KINDS * EACH; i++) {
        int value = 0, *pointer = &value;
        void *arguments[] = {&pointer};
        uint32_t one[3] = {1, 1, 1};
        dev_function *function;
        assert_int_equal(
            dev_module_load(f->context, images[i % KINDS].bytes, images[i % KINDS].size, "elf-so", &modules[i], &why),
            MLPBWD_OK);
        assert_int_equal(dev_function_get(modules[i], "entry", 0, &function, NULL, &why), MLPBWD_OK);
        assert_int_equal(dev_launch(function, one, one, 0, arguments, NULL, &why), MLPBWD_OK);
        assert_int_equal(value, 100 + i % KINDS);
    }
    assert_int_equal(open_files(), before);
    for (int i = 0; i < KINDS * EACH; i++)
        dev_module_unload(modules[i]);
    for (int i = 0; i < KINDS; i++)
        dev_image_free(&images[i]);
}

static void test_bad_modules(void **state) {
    NEED_DEVICE();
    dev_module *module;
    dev_function *function;
    mlp_message why;
    char *bytes = f->image.bytes;
    assert_int_equal(dev_module_load(f->context, bytes, f->image.size, "cubin", &module, &why), MLPBWD_UNSUPPORTED);
    assert_non_null(strstr(why.text, "elf-so"));
    for (size_t size = 0; size < f->image.size; size += size < 128 ? 1 : 97) { /* cut anywhere */
        char *cut = malloc(size + 1); /* exact, so that ASan sees a read behind it */
        assert_non_null(cut);
        memcpy(cut, bytes, size);
        assert_int_equal(dev_module_load(f->context, cut, size, "elf-so", &module, &why), MLPBWD_DATABASE_ERROR);
        assert_null(module);
        free(cut);
    }
    char *other = malloc(f->image.size + 1);
    assert_non_null(other);
    memcpy(other, bytes, f->image.size);
    other[18] ^= 0x55; /* another machine's */
    assert_int_equal(dev_module_load(f->context, other, f->image.size, "elf-so", &module, &why), MLPBWD_DEVICE_ERROR);
    free(other);
    assert_int_equal(dev_function_get(f->module, "absent", 0, &function, NULL, &why), MLPBWD_DEVICE_ERROR);
    assert_non_null(strstr(why.text, "absent"));
    assert_int_equal(dev_function_get(f->module, "affine", 16, &function, NULL, &why), MLPBWD_INVALID_ARGUMENT);
}

/* Files may not be written at all: an error, nothing left behind. */
static void test_no_space_for_module(void **state) {
    NEED_DEVICE();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dev *device;
        dev_context *context;
        dev_module *module;
        mlp_message why;
        struct rlimit limit = {512, 512};
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit) || dev_open("host", &device, &why) ||
            dev_context_get(device, &context, &why))
            _exit(1);
        _exit(dev_module_load(context, f->image.bytes, f->image.size, "elf-so", &module, &why) == MLPBWD_DEVICE_ERROR
                  ? 0
                  : 2);
    }
    check_child(child);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modules_stay_apart),
        cmocka_unit_test(test_modules_through_files),
        cmocka_unit_test(test_bad_modules),
        cmocka_unit_test(test_no_space_for_module),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
