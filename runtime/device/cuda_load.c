/* Opening libcuda.so.1. Nothing of CUDA is linked. */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "cuda_api.h"

bool load_functions(void *library, const api_name *names, size_t count, void *table, const char **missing) {
    for (size_t i = 0; i < count; i++) {
        void *address = dlsym(library, names[i].name);
        if (!address && !names[i].optional) {
            *missing = names[i].name;
            return false;
        }
        memcpy((char *)table + names[i].offset, &address, sizeof address);
    }
    return true;
}

static const api_name names[] = {
#define CUDA_FUNCTION(name, parameters) {#name, offsetof(cuda_functions, name), false},
#define CUDA_OPTIONAL(name, parameters) {#name, offsetof(cuda_functions, name), true},
#include "cuda_api.def"
#undef CUDA_FUNCTION
#undef CUDA_OPTIONAL
};

static pthread_once_t load_once = PTHREAD_ONCE_INIT, init_once = PTHREAD_ONCE_INIT;
static cuda_functions functions;
static mlp_message load_failure, init_failure;
static bool loaded, initialised;

static void load(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); /* never closed: the driver has threads of its own */
    const char *missing;
    if (!library) {
        const char *reason = dlerror();
        mlp_fail(&load_failure, MLPBWD_NO_DEVICE,
                 "no NVIDIA driver: libcuda.so.1 cannot be opened (%s). The driver brings it (Debian: libcuda1; in a "
                 "container: the NVIDIA container toolkit)",
                 reason ? reason : "no reason given");
    } else if (!load_functions(library, names, sizeof names / sizeof names[0], &functions, &missing)) {
        mlp_fail(&load_failure, MLPBWD_NO_DEVICE,
                 "the NVIDIA driver is too old: its libcuda.so.1 has no %s. A driver for CUDA 12.0 or later is needed",
                 missing);
    } else {
        loaded = true;
    }
}

static void initialise(void) {
    cuda_enum result = functions.cuInit(0);
    const char *name = NULL, *text = NULL;
    if (result == MLP_CUDA_SUCCESS) {
        initialised = true;
    } else if (result == MLP_CUDA_ERROR_NO_DEVICE) {
        mlp_fail(&init_failure, MLPBWD_NO_DEVICE,
                 "the NVIDIA driver is there but shows no CUDA device (is CUDA_VISIBLE_DEVICES empty, or /dev/nvidia* "
                 "not accessible?)");
    } else {
        if (functions.cuGetErrorName(result, &name) != MLP_CUDA_SUCCESS || !name)
            name = "an unknown error";
        if (functions.cuGetErrorString(result, &text) != MLP_CUDA_SUCCESS || !text)
            text = "no text";
        mlp_fail(&init_failure, MLPBWD_NO_DEVICE, "the NVIDIA driver cannot be used: cuInit gave %s (%u): %s", name,
                 result, text);
    }
}

const cuda_functions *cuda_library(mlp_message *why) {
    pthread_once(&load_once, load);
    if (loaded)
        return &functions;
    if (why)
        *why = load_failure;
    return NULL;
}

const cuda_functions *cuda_driver(mlp_message *why) {
    if (!cuda_library(why))
        return NULL;
    pthread_once(&init_once, initialise);
    if (initialised)
        return &functions;
    if (why)
        *why = init_failure;
    return NULL;
}
