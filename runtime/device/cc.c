/* The compiler "cc": emitted C to a shared object, by the system's compiler. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "cc_run.h"

static const char source_name[] = "kernel.c", object_name[] = "kernel.so", log_name[] = "log";

/* Printed by the preprocessor, so that it tells what the compiler is and not what it is called. */
static const char version_source[] = "#if defined(__clang__)\n"
                                     "clang __clang_major__ . __clang_minor__ . __clang_patchlevel__\n"
                                     "#elif defined(__GNUC__)\n"
                                     "gcc __GNUC__ . __GNUC_MINOR__ . __GNUC_PATCHLEVEL__\n"
                                     "#else\n"
                                     "compiler\n"
                                     "#endif\n";

/* The last line with text in it, "gcc 12 . 2 . 0", as "gcc 12.2.0". */
static void tidy_version(const char *output, char *text, size_t capacity) {
    const char *line = "";
    size_t length = 0;
    while (*output) {
        size_t this_length = strcspn(output, "\n");
        if (this_length > 0 && *output != '#') {
            line = output;
            length = this_length;
        }
        output += this_length + (output[this_length] == '\n');
    }
    size_t used = 0;
    for (size_t i = 0; i < length && used + 1 < capacity; i++) {
        bool around_dot = line[i] == ' ' && ((i + 1 < length && line[i + 1] == '.') || (i > 0 && line[i - 1] == '.'));
        if (!around_dot && line[i] != '\r')
            text[used++] = line[i];
    }
    if (capacity)
        text[used] = 0;
}

static mlpbwd_status version_in(const char *folder, const cc_command *command, char *text, size_t capacity,
                                mlp_message *why) {
    const char *const arguments[] = {"-x", "c", "-E", "-P", source_name, NULL};
    int exit_status;
    mlpbwd_status status = cc_folder_write(folder, source_name, version_source, why);
    if (!status)
        status = cc_run(command, arguments, folder, log_name, &exit_status, why);
    if (status)
        return status;
    size_t size;
    char *output = cc_folder_read(folder, log_name, &size);
    if (!output || exit_status > 0 || size == 0) {
        status = mlp_fail(why, MLPBWD_UNSUPPORTED, "the %s compiler %s does not work (exit status %d): %.300s",
                          command->language, command->program, exit_status, output ? output : "");
    } else {
        tidy_version(output, text, capacity);
    }
    free(output);
    return status;
}

mlpbwd_status cc_command_version(const cc_command *command, char *text, size_t capacity, mlp_message *why) {
    char folder[PATH_MAX];
    mlpbwd_status status = cc_folder_make(folder, sizeof folder, why);
    if (status)
        return status;
    status = version_in(folder, command, text, capacity, why);
    cc_folder_remove(folder);
    return status;
}

mlpbwd_status cc_version(char *text, size_t capacity, mlp_message *why) {
    cc_command command;
    mlpbwd_status status = cc_find(&command, why);
    return status ? status : cc_command_version(&command, text, capacity, why);
}

/* The source, preceded by a #line that shows the kernel's name in diagnostics if it can be written there. NULL: no
 * memory. */
static char *named_source(const dev_compile_request *request) {
    const char *name = request->name;
    for (const char *c = name ? name : ""; *c; c++)
        if (*c < ' ' || *c == '"' || *c == '\\' || *c == 0x7f)
            name = NULL;
    size_t capacity = strlen(request->source) + (name ? strlen(name) : 0) + 32;
    char *text = malloc(capacity);
    if (text && name)
        snprintf(text, capacity, "#line 1 \"%s\"\n%s", name, request->source);
    else if (text)
        snprintf(text, capacity, "%s", request->source);
    return text;
}

static mlpbwd_status compile_in(const char *folder, const cc_command *command, const dev_compile_request *request,
                                dev_image *image, mlp_message *why) {
    char march[80];
    /* -Bsymbolic, -z defs: a kernel's helpers are its own, and what it lacks is an error now and not when loading. */
    const char *arguments[] = {"-O3",
                               "-fPIC",
                               "-shared",
                               "-std=gnu11",
                               "-ffp-contract=fast",
                               "-fno-math-errno",
                               "-fno-trapping-math",
                               "-s",
                               "-Wl,-Bsymbolic",
                               "-Wl,-z,defs",
                               "-o",
                               object_name,
                               source_name,
                               "-lm",
                               NULL,
                               NULL};
    if (strcmp(request->target, "generic") != 0) {
        snprintf(march, sizeof march, "-march=%s", request->target);
        arguments[sizeof arguments / sizeof arguments[0] - 2] = march;
    }
    char *source = named_source(request);
    if (!source)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for a kernel's source");
    mlpbwd_status status = cc_folder_write(folder, source_name, source, why);
    free(source);
    int exit_status;
    if (!status)
        status = cc_run(command, arguments, folder, log_name, &exit_status, why);
    if (status)
        return status;
    size_t log_size;
    image->log = cc_folder_read(folder, log_name, &log_size);
    if (exit_status <= 0)
        image->bytes = cc_folder_read(folder, object_name, &image->size);
    if (!image->bytes && exit_status > 128)
        return mlp_fail(why, MLPBWD_COMPILE_ERROR, "the C compiler %s was ended by signal %d while compiling %s",
                        command->program, exit_status - 128, request->name ? request->name : "the kernel");
    if (!image->bytes)
        return compile_failed(why, request, command->program, image->log ? image->log : "");
    snprintf(image->format, sizeof image->format, "elf-so");
    return MLPBWD_OK;
}

mlpbwd_status cc_compile(const dev_compile_request *request, dev_image *image, mlp_message *why) {
    cc_command command;
    char folder[PATH_MAX];
    if (!request->target || !request->target[0] ||
        request->target[strspn(request->target, "abcdefghijklmnopqrstuvwxyz"
                                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                "0123456789-_.+")] ||
        strlen(request->target) > 64)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "target \"%.64s\" is not a processor name that a C compiler can know (letters, digits, -_.+)",
                        request->target ? request->target : "");
    mlpbwd_status status = cc_find(&command, why);
    if (!status)
        status = cc_folder_make(folder, sizeof folder, why);
    if (status)
        return status;
    status = compile_in(folder, &command, request, image, why);
    cc_folder_remove(folder);
    return status;
}
