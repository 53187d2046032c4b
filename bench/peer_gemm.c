/* The four GEMMs alone, by any BLAS. */
#include <stdlib.h>
#include <string.h>

#include "peers.h"

struct peer_gemm {
    peer_library library;
    const bench_data *data;
    void *half[6]; /* 16-bit operands */
    void *scratch; /* grad_act, [T,I] */
};

void peer_products(const tensor_sizes *sizes, void *const operands[6], void *const outputs[4],
                   peer_product products[PEER_PRODUCTS]) {
    int64_t t = sizes->tokens;
    int64_t h = sizes->hidden_size;
    int64_t i = sizes->intermediate_size;
    products[0] = (peer_product){false, t, i, h, operands[0], operands[3], outputs[0]};
    products[1] = (peer_product){true, h, i, t, operands[0], operands[5], outputs[1]};
    products[2] = (peer_product){false, t, h, i, operands[4], operands[2], outputs[2]};
    products[3] = (peer_product){true, i, h, t, operands[4], operands[1], outputs[3]};
}

static mlpbwd_status make_halves(peer_gemm *peer, mlp_message *why) {
    const tensor_sizes *sizes = &peer->data->sizes;
    static const int shaped_like[6] = {0, 1, 2, 4, 6, 7}; /* tensors of mlpbwd_tensors with the operand's shape */
    for (int i = 0; i < 6; i++) {
        size_t count = (size_t)(tensor_rows(shaped_like[i], sizes) * tensor_columns(shaped_like[i], sizes));
        mlpbwd_status status = dev_alloc(peer->data->context, count * 2, &peer->half[i], why);
        if (status == MLPBWD_OK) {
            /* Weights at 1/sqrt(K) stay normal numbers of the format. */
            bool weight = shaped_like[i] == 2 || shaped_like[i] == 4;
            status = bench_fill(peer->data->context, peer->half[i], count, weight ? 0.015625 : 1.0,
                                50000 * (uint64_t)(i + 1), true, why);
        }
        if (status != MLPBWD_OK) {
            return status;
        }
    }
    return MLPBWD_OK;
}

mlpbwd_status peer_gemm_open(const dev_info *device, const bench_data *data, peer_gemm **out, json_t *notes,
                             mlp_message *why) {
    *out = NULL;
    peer_gemm *peer = calloc(1, sizeof *peer);
    if (peer == NULL) {
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    }
    peer->data = data;
    mlpbwd_status status = strcmp(device->backend, "host") == 0
                               ? peer_openblas_open(&peer->library, notes, why)
                               : peer_cublas_open(data->context, &peer->library, notes, why);
    if (status == MLPBWD_OK) {
        size_t size = (size_t)(data->sizes.tokens * data->sizes.intermediate_size) * sizeof(float);
        status = dev_alloc(data->context, size, &peer->scratch, why);
    }
    bool halves = false;
    for (size_t i = 0; i < peer->library.variants; i++) {
        halves = halves || peer->library.half[i];
    }
    if (status == MLPBWD_OK && halves) {
        status = make_halves(peer, why);
    }
    if (status != MLPBWD_OK) {
        peer_gemm_close(peer);
        return status;
    }
    *out = peer;
    return MLPBWD_OK;
}

void peer_gemm_close(peer_gemm *peer) {
    if (peer == NULL) {
        return;
    }
    if (peer->library.close != NULL) {
        peer->library.close(&peer->library);
    }
    for (int i = 0; i < 6; i++) {
        if (peer->half[i] != NULL) {
            dev_free(peer->data->context, peer->half[i]);
        }
    }
    if (peer->scratch != NULL) {
        dev_free(peer->data->context, peer->scratch);
    }
    free(peer);
}

size_t peer_gemm_variants(const peer_gemm *peer) {
    return peer->library.variants;
}

const char *peer_gemm_name(const peer_gemm *peer, size_t variant) {
    return peer->library.names[variant];
}

const char *peer_gemm_doc(const peer_gemm *peer, size_t variant) {
    return peer->library.docs[variant];
}

typedef struct gemm_pass {
    peer_library *library;
    size_t variant;
    peer_product products[PEER_PRODUCTS];
} gemm_pass;

static mlpbwd_status enqueue(void *user, dev_stream stream, mlp_message *why) {
    gemm_pass *pass = user;
    mlpbwd_status status = pass->library->begin != NULL ? pass->library->begin(pass->library, stream, why) : MLPBWD_OK;
    for (int i = 0; status == MLPBWD_OK && i < PEER_PRODUCTS; i++) {
        status = pass->library->run(pass->library, pass->variant, &pass->products[i], stream, why);
    }
    return status;
}

mlpbwd_status peer_gemm_time(peer_gemm *peer, size_t variant, int64_t tokens, dev_timing *timing, mlp_message *why) {
    const bench_data *data = peer->data;
    void *const singles[6] = {data->tensor[0], data->tensor[1], data->tensor[2],
                              data->tensor[4], data->tensor[6], data->tensor[7]};
    void *const outputs[4] = {peer->scratch, data->tensor[11], data->tensor[8], data->tensor[9]};
    tensor_sizes sizes = data->sizes;
    sizes.tokens = tokens;
    gemm_pass pass = {.library = &peer->library, .variant = variant};
    peer_products(&sizes, peer->library.half[variant] ? peer->half : singles, outputs, pass.products);
    /* Once outside any capture: a library may load its kernels at their first use. */
    dev_stream stream = NULL;
    mlpbwd_status status = dev_stream_create(data->context, &stream, why);
    if (status != MLPBWD_OK) {
        return status;
    }
    status = enqueue(&pass, stream, why);
    mlpbwd_status waited = dev_synchronize(data->context, status == MLPBWD_OK ? why : NULL);
    status = status == MLPBWD_OK ? waited : status;
    dev_stream_destroy(data->context, stream);
    return status == MLPBWD_OK ? dev_time(data->context, enqueue, &pass, timing, why) : status;
}
