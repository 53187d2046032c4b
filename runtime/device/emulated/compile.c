/* The compiler "emulated": emitted CUDA C++ to a shared object for emulated devices, by the system's C++ compiler. Its
 * thread sanitizer puts a call before every load and store; what it calls stands in kernel/hooks.hpp, and the
 * sanitizer's own library is left out. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../backend.h"
#include "../cc_run.h"
#include "kernel_source.h"

static const char driver_name[] = "mlpbwd_kernel.cpp", object_name[] = "mlpbwd_kernel.so", log_name[] = "mlpbwd_log";

mlpbwd_status emulated_compiler_version(char *text, size_t capacity, mlp_message *why) {
    cc_command command;
    char version[48];
    mlpbwd_status status = cc_find_cxx(&command, why);
    if (!status)
        status = cc_command_version(&command, version, sizeof version, why);
    if (!status)
        snprintf(text, capacity, "%s", version);
    return status;
}

/* "fc1 dgrad" -> "fc1_dgrad.cu": a file name that needs no quoting anywhere, and is none of ours. */
static void file_name(const char *name, char *text, size_t capacity) {
    size_t length = 0;
    if (!name || !name[0] || strncmp(name, "mlpbwd_", 7) == 0)
        name = "kernel";
    for (; *name && length + 4 < capacity; name++)
        text[length++] = isalnum((unsigned char)*name) || strchr("_-.", *name) ? *name : '_';
    text[length] = 0;
    if (length < 3 || strcmp(text + length - 3, ".cu") != 0)
        snprintf(text + length, capacity - length, ".cu");
    if (text[0] == '.' || text[0] == '-')
        text[0] = '_';
}

static mlpbwd_status write_files(const char *folder, const char *source_name, const char *source, mlp_message *why) {
    char *driver = kernel_driver(source, source_name);
    if (!driver)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for a kernel's source");
    mlpbwd_status status = cc_folder_write(folder, driver_name, driver, why);
    free(driver);
    if (!status)
        status = cc_folder_write(folder, source_name, source, why);
    for (const emulated_header *header = emulated_headers; header->name && !status; header++)
        status = cc_folder_write(folder, header->name, header->text, why);
    return status;
}

static mlpbwd_status run(const char *folder, const cc_command *command, int architecture, int *exit_status,
                         mlp_message *why) {
    char prefix[PATH_MAX + 32], define[48];
    snprintf(prefix, sizeof prefix, "-ffile-prefix-map=%s=.", folder);
    snprintf(define, sizeof define, "-DMLPBWD_CAPABILITY=%d", architecture * 10);
    /* -w: warnings are for NVRTC's language, not for what the headers make of it. Products and sums are fused where the
     * processor can, as on the GPU; no C++ library, no thread sanitizer's library. Reports need lines, not where
     * variables are. */
    const char *arguments[32] = {"-x",
                                 "c++",
                                 "-std=gnu++17",
                                 "-O1",
                                 "-g1", /* lines and inlining: all that reports use */
                                 "-fno-var-tracking",
                                 "-w",
                                 "-fPIC",
                                 "-shared",
                                 "-fvisibility=hidden",
                                 "-fsanitize=thread,alignment",
                                 "-fno-exceptions",
                                 "-fno-rtti",
                                 "-fno-threadsafe-statics",
                                 "-fno-math-errno",
                                 define,
                                 prefix};
    size_t count = 17;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("fma"))
        arguments[count++] = "-mfma";
#endif
    const char *const last[] = {"-nodefaultlibs", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-o",
                                object_name,      driver_name,      "-lm",         "-lc"};
    for (size_t i = 0; i < sizeof last / sizeof last[0]; i++)
        arguments[count++] = last[i];
    arguments[count] = NULL;
    return cc_run(command, arguments, folder, log_name, exit_status, why);
}

static mlpbwd_status compile_in(const char *folder, const cc_command *command, const dev_compile_request *request,
                                int architecture, dev_image *image, mlp_message *why) {
    char source_name[128];
    int exit_status = -1;
    file_name(request->name, source_name, sizeof source_name);
    mlpbwd_status status = write_files(folder, source_name, request->source, why);
    if (!status)
        status = run(folder, command, architecture, &exit_status, why);
    if (status)
        return status;
    size_t log_size;
    image->log = cc_folder_read(folder, log_name, &log_size);
    if (exit_status <= 0)
        image->bytes = cc_folder_read(folder, object_name, &image->size);
    if (!image->bytes && exit_status > 128)
        return mlp_fail(why, MLPBWD_COMPILE_ERROR, "the C++ compiler %s was ended by signal %d while compiling %s",
                        command->program, exit_status - 128, source_name);
    if (!image->bytes)
        return compile_failed(why, request, command->program, image->log ? image->log : "");
    snprintf(image->format, sizeof image->format, "emulated-so");
    return MLPBWD_OK;
}

mlpbwd_status emulated_compile(const dev_compile_request *request, dev_image *image, mlp_message *why) {
    char ladder[DEV_MAX_LADDER][32], folder[PATH_MAX];
    int architecture;
    int64_t shared_bytes;
    if (!request->target || dev_architecture_ladder(request->target, ladder, &architecture, &shared_bytes) == 0)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "target \"%.64s\" is none that emulated devices know; a name such as sm_90a would be right",
                        request->target ? request->target : "");
    cc_command command;
    mlpbwd_status status = cc_find_cxx(&command, why);
    if (!status)
        status = cc_folder_make(folder, sizeof folder, why);
    if (status)
        return status;
    status = compile_in(folder, &command, request, architecture, image, why);
    cc_folder_remove(folder);
    return status;
}
