/* Compilers: the system's C compiler in odd surroundings, and NVRTC where it is installed. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/backend.h"

static const char good_source[] =
    "#ifndef VALUE\n#define VALUE 1\n#endif\n"
    "void entry(void *const *args, unsigned x, unsigned y, unsigned z) { **(int **)args[0] = VALUE; }\n";

static char folder[256]; /* of this program, with odd characters in its name */
static char *old_path;
static bool have_cc;

static mlpbwd_status compile(const char *source, dev_image *image, mlp_message *why) {
    char ladder[DEV_MAX_LADDER][32];
    size_t length = dev_host_ladder(ladder);
    dev_compile_request request = {"cc", ladder[length - 1], source, "odd \"name\""};
    return dev_compile(&request, image, why);
}

/* What the compiled entry stores. */
static int run_image(const dev_image *image) {
    dev *device;
    dev_context *context;
    dev_module *module;
    dev_function *function;
    mlp_message why;
    int value = -1, *pointer = &value;
    void *arguments[] = {&pointer};
    uint32_t one[3] = {1, 1, 1};
    assert_int_equal(dev_open("host", &device, &why), MLPBWD_OK);
    assert_int_equal(dev_context_get(device, &context, &why), MLPBWD_OK);
    assert_int_equal(dev_module_load(context, image->bytes, image->size, image->format, &module, &why), MLPBWD_OK);
    assert_int_equal(dev_function_get(module, "entry", 0, &function, NULL, &why), MLPBWD_OK);
    assert_int_equal(dev_launch(function, one, one, 0, arguments, NULL, &why), MLPBWD_OK);
    dev_module_unload(module);
    dev_context_release(context);
    dev_release(device);
    return value;
}

static void compile_and_expect(int expected) {
    dev_image image;
    mlp_message why = {""};
    if (compile(good_source, &image, &why))
        fail_msg("%s", why.text);
    assert_string_equal(image.format, "elf-so");
    assert_non_null(image.log);
    assert_int_equal(run_image(&image), expected);
    dev_image_free(&image);
    assert_null(image.bytes);
}

static int files_in(const char *path) {
    DIR *opened = opendir(path);
    int count = -2; /* . and .. */
    assert_non_null(opened);
    while (readdir(opened))
        count++;
    closedir(opened);
    return count;
}

static void write_program(const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0755), 0);
}

static int before_each(void **state) {
    (void)state;
    setenv("PATH", old_path, 1);
    unsetenv("CC");
    setenv("TMPDIR", folder, 1);
    return 0;
}

#define NEED_CC()                                                                                                      \
    if (!have_cc)                                                                                                      \
    skip()

static void test_version(void **state) {
    (void)state;
    NEED_CC();
    char text[64], kind[16];
    int major, minor, patch;
    assert_int_equal(dev_compiler_version("cc", text, sizeof text, NULL), MLPBWD_OK);
    assert_int_equal(sscanf(text, "%15s %d.%d.%d", kind, &major, &minor, &patch), 4);
    assert_true(strcmp(kind, "gcc") == 0 || strcmp(kind, "clang") == 0);
    assert_true(major >= 4 && major < 1000);
    char small[4] = "xxx";
    assert_int_equal(dev_compiler_version("cc", small, sizeof small, NULL), MLPBWD_OK);
    assert_int_equal(strlen(small), 3);
    assert_int_equal(files_in(folder), 0);
}

static void test_unknown_compiler(void **state) {
    (void)state;
    char text[64];
    mlp_message why;
    dev_image image;
    dev_compile_request request = {"nvcc", "sm_80", "", "x"};
    assert_int_equal(dev_compiler_version("nvcc", text, sizeof text, &why), MLPBWD_INVALID_ARGUMENT);
    assert_non_null(strstr(why.text, "nvcc"));
    assert_int_equal(dev_compile(&request, &image, &why), MLPBWD_INVALID_ARGUMENT);
    assert_null(image.bytes);
    dev_image_free(&image);
}

static void test_odd_folder(void **state) {
    (void)state;
    NEED_CC();
    compile_and_expect(1);
    assert_int_equal(files_in(folder), 0);
}

static void test_unusable_tmpdir(void **state) {
    (void)state;
    NEED_CC();
    static const char *const folders[] = {"/nonexistent/folder", "", "/dev/null"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        setenv("TMPDIR", folders[i], 1);
        compile_and_expect(1);
    }
    unsetenv("TMPDIR");
    compile_and_expect(1);
}

static void expect_error(const char *source, const char *in_message, const char *in_log) {
    dev_image image;
    mlp_message why;
    assert_int_equal(compile(source, &image, &why), MLPBWD_COMPILE_ERROR);
    assert_non_null(strstr(why.text, in_message));
    assert_null(image.bytes);
    assert_non_null(strstr(image.log, in_log));
    dev_image_free(&image);
    assert_int_equal(files_in(folder), 0);
}

static void test_errors(void **state) {
    (void)state;
    NEED_CC();
    expect_error("void entry(void) { undeclared = 1; }\n", "undeclared", "undeclared");
    expect_error("void missing_function(void);\nvoid entry(void) { missing_function(); }\n", "missing_function",
                 "missing_function");
    expect_error("#error planted\n", "planted", "planted");
    /* A long log: the message has its beginning, image.log all of it. */
    char *source = malloc(40000);
    assert_non_null(source);
    size_t length = 0;
    for (int i = 0; i < 500; i++)
        length += (size_t)sprintf(source + length, "int value_%d = wrong_%d;\n", i, i);
    expect_error(source, "wrong_0", "wrong_499");
    free(source);
    dev_image image;
    mlp_message why;
    dev_compile_request request = {"cc", "x86-64; rm", good_source, "x"};
    assert_int_equal(dev_compile(&request, &image, &why), MLPBWD_INVALID_ARGUMENT);
    assert_non_null(strstr(why.text, "x86-64; rm"));
    dev_image_free(&image);
    request.target = "no-such-processor";
    assert_int_equal(dev_compile(&request, &image, &why), MLPBWD_COMPILE_ERROR);
    assert_non_null(strstr(why.text, "no-such-processor"));
    dev_image_free(&image);
}

static void expect_no_compiler(const char *in_message) {
    dev_image image;
    mlp_message why;
    char text[64] = "x";
    assert_int_equal(compile(good_source, &image, &why), MLPBWD_UNSUPPORTED);
    assert_non_null(strstr(why.text, in_message));
    dev_image_free(&image);
    assert_int_equal(dev_compiler_version("cc", text, sizeof text, &why), MLPBWD_UNSUPPORTED);
    assert_string_equal(text, "");
    assert_non_null(strstr(why.text, in_message));
}

static void test_no_compiler(void **state) {
    (void)state;
    setenv("PATH", "/nonexistent", 1);
    expect_no_compiler("Debian packages gcc");
    setenv("PATH", "", 1);
    expect_no_compiler("Debian packages gcc");
    setenv("CC", "/nonexistent/compiler -O2", 1);
    expect_no_compiler("/nonexistent/compiler -O2");
    setenv("CC", folder, 1); /* a folder is no program */
    expect_no_compiler(folder);
}

/* The first program of that name in PATH, whatever else is there. */
static void test_path_oddities(void **state) {
    (void)state;
    NEED_CC();
    char path[8192], directory[512], here[512];
    snprintf(directory, sizeof directory, "%s/cc", folder);
    assert_int_equal(mkdir(directory, 0700), 0);
    snprintf(path, sizeof path, "::/nonexistent:relative/none:%s:%s", folder, old_path);
    setenv("PATH", path, 1);
    compile_and_expect(1);
    assert_int_equal(rmdir(directory), 0);

    assert_non_null(getcwd(here, sizeof here));
    write_program("cc", "#!/bin/sh\nexec gcc -DVALUE=7 \"$@\"\n");
    if (access("/usr/bin/gcc", X_OK) == 0) {
        compile_and_expect(7);
        assert_int_equal(chdir(folder), 0); /* relative entries: the compiler runs elsewhere */
        snprintf(path, sizeof path, ".:%s", old_path);
        setenv("PATH", path, 1);
        compile_and_expect(7);
        setenv("CC", "./cc", 1);
        compile_and_expect(7);
        setenv("CC", "  ./cc   -UVALUE\t-DVALUE=9 ", 1);
        compile_and_expect(9);
        char whole[512];
        snprintf(whole, sizeof whole, "%s/cc", folder); /* a path with spaces is one word if it names a program */
        setenv("CC", whole, 1);
        compile_and_expect(7);
        assert_int_equal(chdir(here), 0);
    }
    snprintf(path, sizeof path, "%s:%s", folder, old_path);
    setenv("PATH", path, 1);
    setenv("CC", " ", 1); /* as if unset */
    compile_and_expect(access("/usr/bin/gcc", X_OK) == 0 ? 7 : 1);
    snprintf(path, sizeof path, "%s/cc", folder);
    assert_int_equal(unlink(path), 0);
}

static void test_broken_compilers(void **state) {
    (void)state;
    char program[512];
    mlp_message why;
    dev_image image;
    snprintf(program, sizeof program, "%s/cc", folder);
    setenv("CC", program, 1);
    write_program("cc", "#!/bin/sh\nkill -9 $$\n");
    assert_int_equal(compile(good_source, &image, &why), MLPBWD_COMPILE_ERROR);
    assert_non_null(strstr(why.text, "signal 9"));
    dev_image_free(&image);
    write_program("cc", "#!/bin/sh\nexit 0\n"); /* says yes and does nothing */
    assert_int_equal(compile(good_source, &image, &why), MLPBWD_COMPILE_ERROR);
    assert_non_null(strstr(why.text, "no reason"));
    dev_image_free(&image);
    char text[64];
    assert_int_equal(dev_compiler_version("cc", text, sizeof text, &why), MLPBWD_UNSUPPORTED);
    write_program("cc", "#!/nonexistent/shell\n");
    assert_int_equal(compile(good_source, &image, &why), MLPBWD_UNSUPPORTED);
    assert_non_null(strstr(why.text, program));
    dev_image_free(&image);
    assert_int_equal(unlink(program), 0);
    assert_int_equal(files_in(folder), 0);
}

static void test_ignored_children(void **state) {
    (void)state;
    NEED_CC();
    void (*before)(int) = signal(SIGCHLD, SIG_IGN);
    compile_and_expect(1);
    dev_image image;
    mlp_message why;
    assert_int_equal(compile("#error planted\n", &image, &why), MLPBWD_COMPILE_ERROR);
    assert_non_null(strstr(why.text, "planted"));
    dev_image_free(&image);
    signal(SIGCHLD, before);
}

static void check_child(int (*function)(void)) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(function());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* No file may grow over a few bytes, as on a full disk. */
static int compile_without_space(void) {
    dev_image image;
    mlp_message why;
    struct rlimit limit = {16, 16};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit))
        return 1;
    if (compile(good_source, &image, &why) != MLPBWD_DEVICE_ERROR || !strstr(why.text, "kernel.c"))
        return 2;
    dev_image_free(&image);
    return files_in(folder) == 0 ? 0 : 3;
}

static void test_no_space(void **state) {
    (void)state;
    NEED_CC();
    check_child(compile_without_space);
}

static void test_reproducible(void **state) {
    (void)state;
    NEED_CC();
    dev_image first, second;
    mlp_message why;
    assert_int_equal(compile(good_source, &first, &why), MLPBWD_OK);
    unsetenv("TMPDIR");
    assert_int_equal(compile(good_source, &second, &why), MLPBWD_OK);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.bytes, second.bytes, first.size);
    dev_image_free(&first);
    dev_image_free(&second);
}

/* ---- NVRTC ---- */

static const char cuda_source[] = "inline float helper(float x) { return x * 2.0f; }\n"
                                  "extern \"C\" __global__ void __launch_bounds__(256) kernel(float *x) {\n"
                                  "    x[threadIdx.x] = helper(x[threadIdx.x]);\n"
                                  "}\n";

static int wrong_nvrtc(void) {
    mlp_message why;
    dev_image image;
    dev_compile_request request = {"nvrtc", "sm_90a", cuda_source, "kernel"};
    setenv("MLPBWD_NVRTC", "/nonexistent/libnvrtc.so.13", 1);
    if (dev_compile(&request, &image, &why) != MLPBWD_UNSUPPORTED)
        return 1;
    return strstr(why.text, "MLPBWD_NVRTC names \"/nonexistent/libnvrtc.so.13\"") ? 0 : 2;
}

static int foreign_nvrtc(void) {
    mlp_message why;
    char text[64];
    setenv("MLPBWD_NVRTC", "libm.so.6", 1); /* a library, but another one */
    if (dev_compiler_version("nvrtc", text, sizeof text, &why) != MLPBWD_UNSUPPORTED)
        return 1;
    return strstr(why.text, "libm.so.6") ? 0 : 2;
}

static void test_nvrtc_named(void **state) {
    (void)state;
    check_child(wrong_nvrtc);
    check_child(foreign_nvrtc);
}

static bool need_nvrtc(void) {
    char text[64];
    mlp_message why;
    if (dev_compiler_version("nvrtc", text, sizeof text, &why) == MLPBWD_OK)
        return true;
    assert_non_null(strstr(why.text, "pip install nvidia-cuda-nvrtc"));
    print_message("%s\n", why.text);
    return false;
}

static void test_nvrtc(void **state) {
    (void)state;
    if (!need_nvrtc())
        skip();
    char text[64];
    assert_int_equal(dev_compiler_version("nvrtc", text, sizeof text, NULL), MLPBWD_OK);
    assert_int_equal(strncmp(text, "NVRTC 1", 7), 0);
    static const char *const targets[] = {"sm_80", "sm_90a"};
    for (size_t i = 0; i < 2; i++) {
        dev_image image;
        mlp_message why;
        dev_compile_request request = {"nvrtc", targets[i], cuda_source, "kernel"};
        if (dev_compile(&request, &image, &why))
            fail_msg("%s", why.text);
        assert_string_equal(image.format, "cubin");
        assert_memory_equal(image.bytes, "\177ELF", 4);
        assert_non_null(strstr(image.log, "registers"));
        assert_non_null(strstr(image.log, "spill stores"));
        mlp_message check;
        assert_int_equal(elf_check(image.bytes, image.size, "cubin", &check), MLPBWD_OK);
        for (size_t size = 0; size < image.size; size++) /* cut anywhere, before a driver sees it */
            assert_int_equal(elf_check(image.bytes, size, "cubin", &check), MLPBWD_DATABASE_ERROR);
        dev_image_free(&image);
    }
    dev_image image;
    mlp_message why;
    dev_compile_request request = {"nvrtc", "compute_80", cuda_source, "kernel"};
    assert_int_equal(dev_compile(&request, &image, &why), MLPBWD_OK);
    assert_string_equal(image.format, "ptx");
    assert_non_null(strstr(image.bytes, ".target sm_80"));
    assert_int_equal(((char *)image.bytes)[image.size - 1], 0);
    dev_image_free(&image);
}

static void test_nvrtc_errors(void **state) {
    (void)state;
    if (!need_nvrtc())
        skip();
    dev_image image;
    mlp_message why;
    dev_compile_request request = {"nvrtc", "sm_90a", "extern \"C\" __global__ void k() { undeclared = 1; }\n", "k7"};
    assert_int_equal(dev_compile(&request, &image, &why), MLPBWD_COMPILE_ERROR);
    assert_non_null(strstr(why.text, "undeclared"));
    assert_non_null(strstr(why.text, "k7"));
    assert_non_null(strstr(image.log, "undeclared"));
    assert_null(image.bytes);
    dev_image_free(&image);
    request.target = "sm_9999";
    assert_int_equal(dev_compile(&request, &image, &why), MLPBWD_UNSUPPORTED);
    assert_non_null(strstr(why.text, "sm_9999"));
    dev_image_free(&image);
    static const char *const wrong[] = {"x86-64", "", "sm_", "compute_", "sm_80 --x", NULL};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        request.target = wrong[i];
        assert_int_equal(dev_compile(&request, &image, &why), MLPBWD_INVALID_ARGUMENT);
        dev_image_free(&image);
    }
}

static int make_folder(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/it's \"odd\" $(x) \xc3\xa4 XXXXXX", base && base[0] == '/' ? base : "/tmp");
    assert_non_null(mkdtemp(folder));
    const char *path = getenv("PATH");
    old_path = strdup(path ? path : "/usr/bin:/bin");
    assert_non_null(old_path);
    char text[64];
    unsetenv("CC");
    unsetenv("MLPBWD_COMPILE_CACHE"); /* every compilation is to happen */
    have_cc = dev_compiler_version("cc", text, sizeof text, NULL) == MLPBWD_OK;
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    free(old_path);
    return rmdir(folder); /* fails if something was left in it */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nvrtc_named, before_each),
        cmocka_unit_test_setup(test_version, before_each),
        cmocka_unit_test_setup(test_unknown_compiler, before_each),
        cmocka_unit_test_setup(test_odd_folder, before_each),
        cmocka_unit_test_setup(test_unusable_tmpdir, before_each),
        cmocka_unit_test_setup(test_errors, before_each),
        cmocka_unit_test_setup(test_no_compiler, before_each),
        cmocka_unit_test_setup(test_path_oddities, before_each),
        cmocka_unit_test_setup(test_broken_compilers, before_each),
        cmocka_unit_test_setup(test_ignored_children, before_each),
        cmocka_unit_test_setup(test_no_space, before_each),
        cmocka_unit_test_setup(test_reproducible, before_each),
        cmocka_unit_test_setup(test_nvrtc, before_each),
        cmocka_unit_test_setup(test_nvrtc_errors, before_each),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
