/* The compiler "nvrtc": emitted CUDA C++ to a cubin (sm_*) or PTX (compute_*). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "cuda_api.h"

mlpbwd_status nvrtc_version(char *text, size_t capacity, mlp_message *why) {
    const nvrtc_functions *api = nvrtc_library(why);
    int major, minor;
    if (!api)
        return MLPBWD_UNSUPPORTED;
    cuda_enum result = api->nvrtcVersion(&major, &minor);
    if (result)
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "NVRTC does not tell its version: %s",
                        api->nvrtcGetErrorString(result));
    snprintf(text, capacity, "NVRTC %d.%d", major, minor);
    return MLPBWD_OK;
}

static mlpbwd_status failed(const nvrtc_functions *api, cuda_enum result, const char *action, mlp_message *why) {
    return mlp_fail(why, result == MLP_NVRTC_ERROR_OUT_OF_MEMORY ? MLPBWD_OUT_OF_MEMORY : MLPBWD_COMPILE_ERROR,
                    "NVRTC %s: %s", action, api->nvrtcGetErrorString(result));
}

/* The log as malloc'ed text; NULL if there is none or no memory for it. */
static char *get_log(const nvrtc_functions *api, nvrtcProgram program) {
    size_t size;
    if (api->nvrtcGetProgramLogSize(program, &size) != MLP_NVRTC_SUCCESS || size == 0)
        return NULL;
    char *log = malloc(size + 1);
    if (log && api->nvrtcGetProgramLog(program, log) != MLP_NVRTC_SUCCESS) {
        free(log);
        return NULL;
    }
    if (log)
        log[size] = 0;
    return log;
}

static mlpbwd_status get_code(const nvrtc_functions *api, nvrtcProgram program, bool cubin, dev_image *image,
                              mlp_message *why) {
    size_t size = 0;
    cuda_enum result = cubin ? api->nvrtcGetCUBINSize(program, &size) : api->nvrtcGetPTXSize(program, &size);
    if (result)
        return failed(api, result, "gave no machine code", why);
    if (size == 0)
        return mlp_fail(why, MLPBWD_COMPILE_ERROR, "NVRTC gave empty machine code");
    image->bytes = malloc(size);
    if (!image->bytes)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for %zu bytes of machine code", size);
    result = cubin ? api->nvrtcGetCUBIN(program, image->bytes) : api->nvrtcGetPTX(program, image->bytes);
    if (result) {
        free(image->bytes);
        image->bytes = NULL;
        return failed(api, result, "gave no machine code", why);
    }
    image->size = size;
    snprintf(image->format, sizeof image->format, "%s", cubin ? "cubin" : "ptx");
    return MLPBWD_OK;
}

static mlpbwd_status run(const nvrtc_functions *api, nvrtcProgram program, const dev_compile_request *request,
                         dev_image *image, mlp_message *why) {
    char architecture[64], version[64];
    bool cubin = strncmp(request->target, "sm_", 3) == 0;
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s", request->target);
    /* -default-device: helpers need no __device__. The verbose assembler puts registers and spills into the log. */
    const char *options[] = {architecture, "--std=c++17", "-default-device", "--ptxas-options=-v"};
    cuda_enum result = api->nvrtcCompileProgram(program, cubin ? 4 : 3, options);
    image->log = get_log(api, program);
    const char *log = image->log ? image->log : "";
    if (result == MLP_NVRTC_ERROR_COMPILATION)
        return compile_failed(why, request, "NVRTC", log);
    if (nvrtc_version(version, sizeof version, NULL))
        snprintf(version, sizeof version, "NVRTC");
    if (result == MLP_NVRTC_ERROR_INVALID_OPTION)
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "%s does not know the target %s (%.*s); a newer toolkit may", version,
                        request->target, (int)strcspn(log, "\n"), log);
    if (result == MLP_NVRTC_ERROR_BUILTIN_OPERATION_FAILURE)
        return mlp_fail(why, MLPBWD_UNSUPPORTED,
                        "%s could not open its builtins library (libnvrtc-builtins), which must lie beside it: %.300s",
                        version, log);
    if (result)
        return failed(api, result, "could not compile", why);
    return get_code(api, program, cubin, image, why);
}

static bool is_target(const char *target) {
    size_t prefix = !target ? 0 : strncmp(target, "sm_", 3) == 0 ? 3 : strncmp(target, "compute_", 8) == 0 ? 8 : 0;
    return prefix && target[prefix] && strlen(target) < 32 &&
           target[prefix + strspn(target + prefix, "0123456789abcdefghijklmnopqrstuvwxyz")] == 0;
}

mlpbwd_status nvrtc_compile(const dev_compile_request *request, dev_image *image, mlp_message *why) {
    if (!is_target(request->target))
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "target \"%.64s\" is not one of NVRTC's: sm_ or compute_ and a number would be right",
                        request->target ? request->target : "");
    const nvrtc_functions *api = nvrtc_library(why);
    if (!api)
        return MLPBWD_UNSUPPORTED;
    nvrtcProgram program;
    cuda_enum result = api->nvrtcCreateProgram(&program, request->source, request->name, 0, NULL, NULL);
    if (result)
        return failed(api, result, "could not take the source", why);
    mlpbwd_status status = run(api, program, request, image, why);
    result = api->nvrtcDestroyProgram(&program);
    if (result && !status) {
        dev_image_free(image);
        return failed(api, result, "could not end", why);
    }
    return status;
}
