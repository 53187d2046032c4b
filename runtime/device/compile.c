/* The table of compilers, and what they share. */
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "compile_cache.h"

static const struct {
    const char *name;
    mlpbwd_status (*compile)(const dev_compile_request *request, dev_image *image, mlp_message *why);
    mlpbwd_status (*version)(char *text, size_t capacity, mlp_message *why);
} compilers[] = {{"nvrtc", nvrtc_compile, nvrtc_version},
#if MLPBWD_EMULATED
                 {"emulated", emulated_compile, emulated_compiler_version},
#endif
                 {"cc", cc_compile, cc_version}};
enum { COMPILERS = sizeof compilers / sizeof compilers[0] };

static mlpbwd_status unknown_compiler(const char *name, mlp_message *why) {
    return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "compiler \"%.64s\" is not known; \"nvrtc\" or \"cc\" would be right",
                    name ? name : "");
}

mlpbwd_status dev_compile(const dev_compile_request *request, dev_image *image, mlp_message *why) {
    memset(image, 0, sizeof *image);
    for (size_t i = 0; i < COMPILERS; i++) {
        if (!request->compiler || strcmp(request->compiler, compilers[i].name) != 0)
            continue;
        char cached[PATH_MAX];
        bool caches = compile_cache_path(request, cached);
        if (caches && compile_cache_get(cached, image))
            return MLPBWD_OK;
        mlpbwd_status status = compilers[i].compile(request, image, why);
        if (!image->log)
            image->log = strdup("");
        if (!status && !image->log) {
            dev_image_free(image);
            return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for the compiler's log");
        }
        if (!status && caches)
            compile_cache_put(cached, image);
        return status;
    }
    return unknown_compiler(request->compiler, why);
}

void dev_image_free(dev_image *image) {
    free(image->bytes);
    free(image->log);
    memset(image, 0, sizeof *image);
}

mlpbwd_status dev_compiler_version(const char *compiler, char *text, size_t capacity, mlp_message *why) {
    if (capacity)
        text[0] = 0;
    for (size_t i = 0; i < COMPILERS; i++)
        if (compiler && strcmp(compiler, compilers[i].name) == 0)
            return compilers[i].version(text, capacity, why);
    return unknown_compiler(compiler, why);
}

mlpbwd_status compile_failed(mlp_message *why, const dev_compile_request *request, const char *compiler,
                             const char *log) {
    enum { SHOWN = 1200 }; /* the whole log is in image->log */
    while (*log == '\n' || *log == ' ')
        log++;
    size_t length = strlen(log);
    bool cut = length > SHOWN;
    if (cut) {
        length = SHOWN;
        while (length > 0 && log[length] != '\n')
            length--;
        if (length == 0)
            length = SHOWN;
    }
    while (length > 0 && log[length - 1] == '\n')
        length--;
    return mlp_fail(why, MLPBWD_COMPILE_ERROR, "%s could not compile %s for %s: %.*s%s", compiler,
                    request->name ? request->name : "the kernel", request->target,
                    length ? (int)length : (int)strlen("it gave no reason"), length ? log : "it gave no reason",
                    cut ? "\n(the log goes on)" : "");
}
