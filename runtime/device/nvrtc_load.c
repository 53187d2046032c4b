/* Finding NVRTC: $MLPBWD_NVRTC, the loader's own search, CUDA toolkits, Python packages. */
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_api.h"

static const api_name names[] = {
#define NVRTC_FUNCTION(type, name, parameters) {#name, offsetof(nvrtc_functions, name), false},
#include "cuda_api.def"
#undef NVRTC_FUNCTION
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static nvrtc_functions functions;
static mlp_message failure;
static bool loaded;

/* NVRTC opens its builtins by name and finds them only on the loader's path. Opened before by full path they are there
 * already, whatever folder both are in. */
static void load_builtins(void) {
    Dl_info where;
    void *address;
    char path[PATH_MAX], real[PATH_MAX];
    int major, minor;
    memcpy(&address, &functions.nvrtcVersion, sizeof address);
    if (functions.nvrtcVersion(&major, &minor) != MLP_NVRTC_SUCCESS || !dladdr(address, &where) || !where.dli_fname)
        return;
    const char *candidates[] = {where.dli_fname, realpath(where.dli_fname, real) ? real : ""};
    for (size_t i = 0; i < 2; i++) {
        const char *slash = strrchr(candidates[i], '/');
        if (!slash)
            continue;
        int length = snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so.%d.%d", (int)(slash - candidates[i]),
                              candidates[i], major, minor);
        if (length > 0 && (size_t)length < sizeof path && dlopen(path, RTLD_NOW | RTLD_LOCAL))
            return;
    }
}

static bool try_library(const char *path) {
    const char *missing;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    if (!load_functions(library, names, sizeof names / sizeof names[0], &functions, &missing)) {
        dlclose(library);
        return false;
    }
    load_builtins();
    loaded = true; /* and never closed: NVRTC registers destructors */
    return true;
}

/* Machine code of a newer toolkit than the driver knows may not load, so the driver's own major version comes first. */
static void order_versions(const char *ordered[3]) {
    const cuda_functions *api = cuda_library(NULL);
    int version = 0;
    bool old = api && api->cuDriverGetVersion(&version) == MLP_CUDA_SUCCESS && version / 1000 == 12;
    ordered[0] = old ? "libnvrtc.so.12" : "libnvrtc.so.13";
    ordered[1] = old ? "libnvrtc.so.13" : "libnvrtc.so.12";
    ordered[2] = "libnvrtc.so";
}

static bool try_pattern(const char *folder, const char *name) {
    char pattern[PATH_MAX];
    glob_t found;
    bool good = false;
    int length = snprintf(pattern, sizeof pattern, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof pattern || glob(pattern, 0, NULL, &found) != 0)
        return false;
    for (size_t i = found.gl_pathc; i > 0 && !good; i--) /* the latest version of several */
        good = try_library(found.gl_pathv[i - 1]);
    globfree(&found);
    return good;
}

static bool try_below(const char *variable, const char *below, const char *const ordered[3]) {
    char folder[PATH_MAX];
    const char *value = getenv(variable);
    if (!value || value[0] != '/')
        return false;
    int length = snprintf(folder, sizeof folder, "%s/%s", value, below);
    for (size_t i = 0; i < 3 && length > 0 && (size_t)length < sizeof folder; i++)
        if (try_pattern(folder, ordered[i]))
            return true;
    return false;
}

/* Folders that the loader does not search. */
static bool try_folders(const char *const ordered[3]) {
    static const struct {
        const char *variable, *below;
    } rooted[] = {
        {"CUDA_HOME", "lib64"},
        {"CUDA_PATH", "lib64"},
        {"CONDA_PREFIX", "lib"},
        {"CONDA_PREFIX", "lib/python3*/site-packages/nvidia/c*/lib"},
        {"VIRTUAL_ENV", "lib/python3*/site-packages/nvidia/c*/lib"},
        {"HOME", ".local/lib/python3*/site-packages/nvidia/c*/lib"},
        {"HOME", ".pyenv/versions/*/lib/python3*/site-packages/nvidia/c*/lib"},
    };
    static const char *const folders[] = {
        "/usr/local/cuda/lib64",
        "/usr/local/cuda/targets/*/lib",
        "/usr/local/cuda-*/lib64",
        "/usr/local/cuda-*/targets/*/lib",
        "/opt/cuda/lib64",
        "/usr/local/lib/python3*/dist-packages/nvidia/c*/lib",
        "/usr/local/lib/python3*/site-packages/nvidia/c*/lib",
        "/usr/lib/python3*/site-packages/nvidia/c*/lib",
        "/usr/lib/python3/dist-packages/nvidia/c*/lib",
    };
    for (size_t i = 0; i < sizeof rooted / sizeof rooted[0]; i++)
        if (try_below(rooted[i].variable, rooted[i].below, ordered))
            return true;
    for (size_t version = 0; version < 3; version++)
        for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
            if (try_pattern(folders[i], ordered[version]))
                return true;
    return false;
}

static void load(void) {
    const char *ordered[3];
    const char *named = getenv("MLPBWD_NVRTC");
    order_versions(ordered);
    if (named && named[0]) {
        if (!try_library(named)) {
            const char *reason = dlerror();
            mlp_fail(&failure, MLPBWD_UNSUPPORTED,
                     "MLPBWD_NVRTC names \"%.300s\", which is not a usable NVRTC library: %s", named,
                     reason ? reason : "it lacks functions of NVRTC 12");
        }
        return;
    }
    for (size_t i = 0; i < 3; i++)
        if (try_library(ordered[i]))
            return;
    if (!try_folders(ordered))
        mlp_fail(&failure, MLPBWD_UNSUPPORTED,
                 "NVRTC was not found: new CUDA kernels cannot be compiled. NVIDIA's packages cuda-nvrtc-13-0 or "
                 "cuda-nvrtc-12-8 bring libnvrtc, so does `pip install nvidia-cuda-nvrtc` (or Debian's libnvrtc12); "
                 "MLPBWD_NVRTC may name the library's file");
}

const nvrtc_functions *nvrtc_library(mlp_message *why) {
    pthread_once(&once, load);
    if (loaded)
        return &functions;
    if (why)
        *why = failure;
    return NULL;
}
