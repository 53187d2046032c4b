/* cuBLAS through dlopen, from a few own declarations: the build needs no CUDA. */
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cublas_constants.h"
#include "peers.h"

static const size_t workspace_size = (size_t)64 << 20;

typedef struct cublas_api {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, void *stream);
    int (*set_workspace)(void *handle, void *workspace, size_t size);
    int (*get_version)(void *handle, int *version);
    const char *(*status_string)(int status);
    int (*gemm)(void *handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha, const void *a,
                int a_type, int lda, const void *b, int b_type, int ldb, const void *beta, void *c, int c_type, int ldc,
                int compute_type, int algorithm);
} cublas_api;

typedef struct cublas {
    cublas_api api;
    void *library, *handle, *workspace;
    dev_context *context;
} cublas;

static mlpbwd_status check(const cublas *blas, int result, const char *what, mlp_message *why) {
    if (result == 0) {
        return MLPBWD_OK;
    }
    return mlp_fail(why, MLPBWD_DEVICE_ERROR, "%s: %s", what,
                    blas->api.status_string != NULL ? blas->api.status_string(result) : "cuBLAS error");
}

/* Opens `folder`/libcublas.so.N; its companion first by full path, since a wheel's folder is on no search path. */
static void *open_in(const char *folder, int major) {
    char path[PATH_MAX];
    if (folder[0] != '\0') {
        (void)snprintf(path, sizeof path, "%s/libcublasLt.so.%d", folder, major);
        if (dlopen(path, RTLD_NOW | RTLD_GLOBAL) == NULL) {
            return NULL;
        }
    }
    (void)snprintf(path, sizeof path, "%s%slibcublas.so.%d", folder, folder[0] != '\0' ? "/" : "", major);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *open_below(const char *pattern, int major) {
    glob_t found = {0};
    void *library = NULL;
    if (glob(pattern, GLOB_TILDE, NULL, &found) == 0) {
        for (size_t i = 0; library == NULL && i < found.gl_pathc; i++) {
            library = open_in(found.gl_pathv[i], major);
        }
    }
    globfree(&found);
    return library;
}

/* PyTorch's wheels bring cuBLAS along: .../site-packages/nvidia/cu13/lib (nvidia/cublas/lib for CUDA 12). */
static void *open_in_wheels(int major) {
    FILE *paths = popen("python3 -c 'import sys; print(*filter(None, sys.path), sep=chr(10))' 2>/dev/null", "re");
    char line[PATH_MAX - 64];
    void *library = NULL;
    while (paths != NULL && fgets(line, sizeof line, paths) != NULL) {
        static const char *const folders[] = {"nvidia/cu*/lib", "nvidia/cublas/lib"};
        line[strcspn(line, "\n")] = '\0';
        for (size_t i = 0; library == NULL && i < sizeof folders / sizeof folders[0]; i++) {
            char pattern[PATH_MAX];
            (void)snprintf(pattern, sizeof pattern, "%s/%s", line, folders[i]);
            library = open_below(pattern, major);
        }
    }
    if (paths != NULL) {
        (void)pclose(paths);
    }
    return library;
}

static void *open_library(void) {
    const char *named = getenv("MLPBWD_CUBLAS");
    if (named != NULL && named[0] != '\0') {
        return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    }
    void *library = NULL;
    for (int major = 13; library == NULL && major >= 12; major--) {
        library = open_in("", major);
        library = library != NULL ? library : open_below("/usr/local/cuda/lib64", major);
        library = library != NULL ? library : open_below("/usr/local/cuda-*/lib64", major);
        library = library != NULL ? library : open_in_wheels(major);
    }
    return library;
}

static mlpbwd_status bind_all(cublas *blas, mlp_message *why) {
    const struct {
        const char *name;
        void *slot;
    } symbols[] = {
        {"cublasCreate_v2", &blas->api.create},
        {"cublasDestroy_v2", &blas->api.destroy},
        {"cublasSetStream_v2", &blas->api.set_stream},
        {"cublasSetWorkspace_v2", &blas->api.set_workspace},
        {"cublasGetVersion_v2", &blas->api.get_version},
        {"cublasGetStatusString", &blas->api.status_string},
        {"cublasGemmEx", &blas->api.gemm},
    };
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *address = dlsym(blas->library, symbols[i].name);
        if (address == NULL) {
            return mlp_fail(why, MLPBWD_UNSUPPORTED, "cuBLAS has no %s", symbols[i].name);
        }
        memcpy(symbols[i].slot, &address, sizeof address);
    }
    return MLPBWD_OK;
}

/* Setting a stream puts the workspace back to the library's own, so both are set each time. */
static mlpbwd_status begin(peer_library *library, dev_stream stream, mlp_message *why) {
    cublas *blas = library->handle;
    mlpbwd_status status = check(blas, blas->api.set_stream(blas->handle, stream), "cublasSetStream", why);
    if (status != MLPBWD_OK) {
        return status;
    }
    return check(blas, blas->api.set_workspace(blas->handle, blas->workspace, workspace_size), "cublasSetWorkspace",
                 why);
}

/* cuBLAS is column-major: a row-major C = op(A) op(B) is its C^T = op(B)^T op(A)^T. */
static mlpbwd_status run(peer_library *library, size_t variant, const peer_product *product, dev_stream stream,
                         mlp_message *why) {
    (void)stream;
    cublas *blas = library->handle;
    static const float one = 1.0F;
    static const float zero = 0.0F;
    int type = library->half[variant] ? REAL_16F : REAL_32F;
    int compute = variant == 1 ? COMPUTE_32F_FAST_TF32 : COMPUTE_32F;
    int m = (int)product->m;
    int n = (int)product->n;
    int k = (int)product->k;
    int result = blas->api.gemm(blas->handle, OPERATION_N, product->transpose_a ? OPERATION_T : OPERATION_N, n, m, k,
                                &one, product->b, type, n, product->a, type, product->transpose_a ? m : k, &zero,
                                product->c, REAL_32F, n, compute, GEMM_DEFAULT);
    return check(blas, result, "cublasGemmEx", why);
}

static void close_library(peer_library *library) {
    cublas *blas = library->handle;
    if (blas->handle != NULL) {
        (void)blas->api.destroy(blas->handle);
    }
    if (blas->workspace != NULL) {
        dev_free(blas->context, blas->workspace);
    }
    free(blas); /* the library stays loaded: its static objects outlive any handle */
}

mlpbwd_status peer_cublas_open(dev_context *context, peer_library *library, json_t *notes, mlp_message *why) {
    cublas *blas = calloc(1, sizeof *blas);
    if (blas == NULL) {
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    }
    blas->context = context;
    *library = (peer_library){
        .handle = blas,
        .run = run,
        .begin = begin,
        .close = close_library,
        .variants = 3,
        .names = {"cublas_fp16", "cublas_tf32", "cublas_fp32"},
        .docs = {"four GEMMs alone: fp16 operands, fp32 output", "four GEMMs alone: fp32 tensors, TF32",
                 "four GEMMs alone: fp32"},
        .half = {true, false, false},
    };
    blas->library = open_library();
    if (blas->library == NULL) {
        return mlp_fail(why, MLPBWD_UNSUPPORTED,
                        "libcublas.so.13 and .12 were not found on the library path, under /usr/local/cuda*, nor among "
                        "python3's packages; name the file with MLPBWD_CUBLAS");
    }
    mlpbwd_status status = bind_all(blas, why);
    if (status == MLPBWD_OK && blas->api.create != NULL) {
        status = check(blas, blas->api.create(&blas->handle), "cublasCreate", why);
    }
    if (status == MLPBWD_OK) {
        status = dev_alloc(context, workspace_size, &blas->workspace, why);
    }
    int version = 0;
    if (status == MLPBWD_OK && blas->api.get_version(blas->handle, &version) == 0) {
        (void)json_array_append_new(notes, json_sprintf("cuBLAS %d.%d.%d, workspace 64 MiB.", version / 10000,
                                                        version / 100 % 100, version % 100));
    }
    return status;
}
