/* OpenBLAS through dlopen: cblas_sgemm, the four GEMMs alone, on as many threads as it takes by itself. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peers.h"

static const char file_name[] = "libopenblas.so.0";

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };

typedef struct openblas {
    void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
} openblas;

static mlpbwd_status run(peer_library *library, size_t variant, const peer_product *product, dev_stream stream,
                         mlp_message *why) {
    (void)variant;
    (void)stream;
    (void)why;
    const openblas *blas = library->handle;
    int m = (int)product->m;
    int n = (int)product->n;
    int k = (int)product->k;
    blas->sgemm(ROW_MAJOR, product->transpose_a ? TRANSPOSE : NO_TRANSPOSE, NO_TRANSPOSE, m, n, k, 1.0F, product->a,
                product->transpose_a ? m : k, product->b, n, 0.0F, product->c, n);
    return MLPBWD_OK;
}

static void close_library(peer_library *library) {
    free(library->handle); /* the library stays loaded: its threads do not end */
}

/* What OpenBLAS takes this processor for, asked in a child process, since it decides once, when it is loaded. */
static void detected_core(char *name, size_t capacity) {
    int ends[2];
    name[0] = '\0';
    if (pipe(ends) != 0) {
        return;
    }
    (void)fflush(NULL);
    pid_t process = fork();
    if (process == 0) {
        void *handle = dlopen(file_name, RTLD_NOW | RTLD_LOCAL);
        void *address = handle != NULL ? dlsym(handle, "openblas_get_corename") : NULL;
        char *(*core)(void) = NULL;
        memcpy(&core, &address, sizeof address);
        const char *text = core != NULL ? core() : "";
        _exit(write(ends[1], text, strlen(text)) >= 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    (void)close(ends[1]);
    ssize_t got = process > 0 ? read(ends[0], name, capacity - 1) : 0;
    name[got > 0 ? got : 0] = '\0';
    (void)close(ends[0]);
    if (process > 0) {
        (void)waitpid(process, NULL, 0);
    }
}

/* Releases before a processor was made take it for an old one (Prescott), which would be no fair comparison: then the
 * best kernels that it can run are asked for by name. */
static void correct_core(json_t *notes) {
#if defined(__x86_64__)
    static const char *const old[] = {"Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Sandybridge", "Atom"};
    char name[64];
    const char *better = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") ? "SkylakeX"
                         : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")        ? "Haswell"
                                                                                                  : NULL;
    detected_core(name, sizeof name);
    for (size_t i = 0; better != NULL && i < sizeof old / sizeof old[0]; i++) {
        if (strcasecmp(name, old[i]) == 0 && setenv("OPENBLAS_CORETYPE", better, 1) == 0) {
            (void)json_array_append_new(notes, json_sprintf("OpenBLAS takes this processor for %s; it was told "
                                                            "OPENBLAS_CORETYPE=%s.",
                                                            name, better));
        }
    }
#else
    (void)notes;
#endif
}

/* Settings that would make it slower than it is by itself. They are read when it is loaded. */
static void clean_environment(json_t *notes) {
    static const char *const names[] = {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL) {
            (void)json_array_append_new(
                notes, json_sprintf("%s=%s was taken out of the environment for OpenBLAS.", names[i], value));
            (void)unsetenv(names[i]);
        }
    }
}

mlpbwd_status peer_openblas_open(peer_library *library, json_t *notes, mlp_message *why) {
    *library =
        (peer_library){.run = run, .variants = 1, .names = {"openblas"}, .docs = {"four GEMMs alone: OpenBLAS, fp32"}};
    clean_environment(notes);
    correct_core(notes);
    void *handle = dlopen(file_name, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        return mlp_fail(why, MLPBWD_UNSUPPORTED,
                        "libopenblas.so.0 was not found; Debian's package is libopenblas0-pthread");
    }
    void *address = dlsym(handle, "cblas_sgemm");
    openblas *blas = calloc(1, sizeof *blas);
    if (address == NULL || blas == NULL) {
        free(blas);
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "libopenblas.so.0 has no cblas_sgemm");
    }
    memcpy(&blas->sgemm, &address, sizeof address);
    library->handle = blas;
    library->close = close_library;
    char *(*config)(void) = NULL;
    int (*threads)(void) = NULL;
    address = dlsym(handle, "openblas_get_config");
    memcpy(&config, &address, sizeof address);
    address = dlsym(handle, "openblas_get_num_threads");
    memcpy(&threads, &address, sizeof address);
    if (config != NULL && threads != NULL) {
        (void)json_array_append_new(notes, json_sprintf("%s, %d threads.", config(), threads()));
    }
    return MLPBWD_OK;
}
