/* Peers that `bench --peers` times beside our plan, with the same protocol in the same run. */
#ifndef MLP_PEERS_H
#define MLP_PEERS_H

#include <jansson.h>

#include "bench_data.h"

typedef struct peer_gemm peer_gemm; /* a BLAS library, the four GEMMs alone */

/* Variants of a library: "cublas_fp16", "cublas_tf32", "cublas_fp32", or "openblas". */
enum { PEER_MAX_VARIANTS = 3 };

/* Finds the library for the device's backend and makes its operands (data's tensors, and 16-bit copies). *notes is
 * given sentences (a library version, what was changed in the environment). UNSUPPORTED: not found, with where it was
 * looked for. */
mlpbwd_status peer_gemm_open(const dev_info *device, const bench_data *data, peer_gemm **out, json_t *notes,
                             mlp_message *why);
void peer_gemm_close(peer_gemm *peer); /* NULL is harmless */
size_t peer_gemm_variants(const peer_gemm *peer);
const char *peer_gemm_name(const peer_gemm *peer, size_t variant);
const char *peer_gemm_doc(const peer_gemm *peer, size_t variant);
/* Times the four GEMMs at T = tokens. */
mlpbwd_status peer_gemm_time(peer_gemm *peer, size_t variant, int64_t tokens, dev_timing *timing, mlp_message *why);

/* One product of the backward pass, row-major: C[m,n] = op(A) * op(B), summed over k. */
typedef struct peer_product {
    bool transpose_a; /* A is stored [k,m] */
    int64_t m, n, k;
    const void *a, *b;
    void *c;
} peer_product;
enum { PEER_PRODUCTS = 4 };
/* The four GEMMs on operands in the order grad_output, hidden_states, weight1, weight2, grad_intermediate,
 * intermediate_activated, and outputs grad_act, grad_weight2, grad_hidden_states, grad_weight1. */
void peer_products(const tensor_sizes *sizes, void *const operands[6], void *const outputs[4],
                   peer_product products[PEER_PRODUCTS]);

/* Libraries behind peer_gemm. */
typedef struct peer_library {
    void *handle;
    mlpbwd_status (*run)(struct peer_library *library, size_t variant, const peer_product *product, dev_stream stream,
                         mlp_message *why);
    mlpbwd_status (*begin)(struct peer_library *library, dev_stream stream, mlp_message *why); /* may be NULL */
    void (*close)(struct peer_library *library);
    size_t variants;
    const char *names[PEER_MAX_VARIANTS], *docs[PEER_MAX_VARIANTS];
    bool half[PEER_MAX_VARIANTS]; /* operands are 16-bit */
} peer_library;
mlpbwd_status peer_cublas_open(dev_context *context, peer_library *library, json_t *notes, mlp_message *why);
mlpbwd_status peer_openblas_open(peer_library *library, json_t *notes, mlp_message *why);

/* bench/peers_torch.py, one child process a peer. Adds {"name","doc","mode","times":{"T":{...}},"error"} to peers. */
typedef struct torch_request {
    const char *python, *script, *mode;
    int ordinal; /* of the CUDA device */
    const int64_t *tokens;
    size_t token_count;
    int64_t hidden_size, intermediate_size;
    int activation, repetitions, warmup;
    double limit_seconds; /* per peer */
    const volatile int *interrupted;
} torch_request;
extern const char *const torch_peer_names[]; /* ends in NULL */
extern const char *const torch_peer_docs[];
/* Runs one peer; returns {"times":{"256":{"median_us",..}},"versions":{..}} and, if something went wrong, "error". */
json_t *torch_peer_run(const torch_request *request, const char *name);

#endif
