/* The buffers of a problem on a device, each between two canaries (see gate.h). */
#include "gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANARY = 4096, BUFFERS = TENSOR_COUNT + 1, WORKSPACE = TENSOR_COUNT };
/* A NaN as float and as two halves, so that what is read beyond an end shows too. */
static const unsigned CANARY_WORD = 0x7fdafeedU;

typedef struct buffer {
    unsigned char *base; /* canary, bytes, canary */
    size_t size;
} buffer;

struct gate_arena {
    dev_context *context;
    const inputs *in;
    buffer buffers[BUFFERS];
    mlpbwd_tensors tensors;
    unsigned canary[CANARY / sizeof(unsigned)];
    float *host[TENSOR_OUTPUTS]; /* where outputs are read to */
    unsigned char *scratch;      /* for reading inputs back */
};

static const char *buffer_name(int index) {
    return index == WORKSPACE ? "workspace" : tensor_name(index);
}

static mlpbwd_status buffer_create(gate_arena *arena, int index, size_t size, mlp_message *why) {
    void *base = NULL;
    mlpbwd_status status = dev_alloc(arena->context, size + 2 * (size_t)CANARY, &base, why);
    if (status != MLPBWD_OK) {
        mlp_prefix(why, "%s, %zu bytes", buffer_name(index), size);
        return status;
    }
    arena->buffers[index] = (buffer){base, size};
    return MLPBWD_OK;
}

static void *data_of(const gate_arena *arena, int index) {
    return arena->buffers[index].base + CANARY;
}

static mlpbwd_status write_canaries(gate_arena *arena, int index, mlp_message *why) {
    const buffer *b = &arena->buffers[index];
    if (!b->base)
        return MLPBWD_OK;
    mlpbwd_status status = dev_copy_in(arena->context, b->base, arena->canary, CANARY, why);
    if (status == MLPBWD_OK)
        status = dev_copy_in(arena->context, b->base + CANARY + b->size, arena->canary, CANARY, why);
    return status;
}

static size_t tensor_bytes(const gate_arena *arena, int tensor) {
    return (size_t)tensor_rows(tensor, &arena->in->sizes) * (size_t)tensor_columns(tensor, &arena->in->sizes) *
           sizeof(float);
}

static void set_tensors(gate_arena *arena) {
    const float *in[TENSOR_INPUTS];
    for (int t = 0; t < TENSOR_INPUTS; t++)
        in[t] = data_of(arena, t);
    arena->tensors = (mlpbwd_tensors){.grad_output = in[0],
                                      .hidden_states = in[1],
                                      .weight1 = in[2],
                                      .bias1 = in[3],
                                      .weight2 = in[4],
                                      .bias2 = in[5],
                                      .intermediate = in[6],
                                      .intermediate_activated = in[7],
                                      .grad_hidden_states = data_of(arena, 8),
                                      .grad_weight1 = data_of(arena, 9),
                                      .grad_bias1 = data_of(arena, 10),
                                      .grad_weight2 = data_of(arena, 11),
                                      .grad_bias2 = data_of(arena, 12)};
}

mlpbwd_status gate_arena_create(dev_context *context, const inputs *in, gate_arena **out, mlp_message *why) {
    *out = NULL;
    gate_arena *arena = calloc(1, sizeof *arena);
    if (!arena)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for the gate's buffers");
    arena->context = context;
    arena->in = in;
    for (size_t i = 0; i < CANARY / sizeof(unsigned); i++)
        arena->canary[i] = CANARY_WORD;
    mlpbwd_status status = MLPBWD_OK;
    size_t largest = 0;
    for (int t = 0; t < TENSOR_COUNT && status == MLPBWD_OK; t++) {
        size_t bytes = tensor_bytes(arena, t);
        status = buffer_create(arena, t, bytes, why);
        if (status == MLPBWD_OK && t < TENSOR_INPUTS && bytes > 0)
            status = dev_copy_in(context, data_of(arena, t), in->tensor[t], bytes, why);
        if (t < TENSOR_INPUTS)
            largest = bytes > largest ? bytes : largest;
        else if (status == MLPBWD_OK && !(arena->host[t - TENSOR_INPUTS] = malloc(bytes + 1)))
            status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory to read %s back", tensor_name(t));
    }
    if (status == MLPBWD_OK && !(arena->scratch = malloc(largest + CANARY)))
        status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory to read inputs back");
    if (status != MLPBWD_OK) {
        gate_arena_free(arena);
        return status;
    }
    set_tensors(arena);
    *out = arena;
    return MLPBWD_OK;
}

void gate_arena_free(gate_arena *arena) {
    if (!arena)
        return;
    for (int b = 0; b < BUFFERS; b++)
        if (arena->buffers[b].base)
            dev_free(arena->context, arena->buffers[b].base);
    for (int o = 0; o < TENSOR_OUTPUTS; o++)
        free(arena->host[o]);
    free(arena->scratch);
    free(arena);
}

const mlpbwd_tensors *gate_arena_tensors(const gate_arena *arena) {
    return &arena->tensors;
}

/* The workspace is as large as asked for, not larger, so that its canary stands where the pass must not write. */
mlpbwd_status gate_arena_workspace(gate_arena *arena, size_t size, void **workspace, mlp_message *why) {
    buffer *b = &arena->buffers[WORKSPACE];
    if (b->base && b->size != size) {
        dev_free(arena->context, b->base);
        *b = (buffer){NULL, 0};
    }
    if (!b->base && size > 0) {
        mlpbwd_status status = buffer_create(arena, WORKSPACE, size, why);
        if (status != MLPBWD_OK)
            return status;
    }
    *workspace = size > 0 ? data_of(arena, WORKSPACE) : NULL;
    return MLPBWD_OK;
}

mlpbwd_status gate_arena_prepare(gate_arena *arena, const float *const initial[TENSOR_OUTPUTS], mlp_message *why) {
    mlpbwd_status status = MLPBWD_OK;
    for (int b = 0; b < BUFFERS && status == MLPBWD_OK; b++)
        status = write_canaries(arena, b, why);
    for (int b = TENSOR_INPUTS; b < BUFFERS && status == MLPBWD_OK; b++) {
        size_t size = arena->buffers[b].size;
        if (!arena->buffers[b].base || size == 0)
            continue;
        const float *start = initial && b < TENSOR_COUNT ? initial[b - TENSOR_INPUTS] : NULL;
        status = start ? dev_copy_in(arena->context, data_of(arena, b), start, size, why)
                       : dev_fill(arena->context, data_of(arena, b), 0xff, size, NULL, why);
    }
    return status == MLPBWD_OK ? dev_synchronize(arena->context, why) : status;
}

static void fail(gate_errors *errors, const char *what, const char *name, long long at, const char *where) {
    snprintf(errors->failed_text, sizeof errors->failed_text, "%s%s, %s %lld", what, name, where, at);
    errors->failed = errors->failed_text;
}

static mlpbwd_status check_canary(gate_arena *arena, int index, bool end, gate_errors *errors, mlp_message *why) {
    const buffer *b = &arena->buffers[index];
    const unsigned char *from = end ? b->base + CANARY + b->size : b->base;
    mlpbwd_status status = dev_copy_out(arena->context, arena->scratch, from, CANARY, why);
    if (status != MLPBWD_OK || memcmp(arena->scratch, arena->canary, CANARY) == 0)
        return status;
    const unsigned char *expected = (const unsigned char *)arena->canary;
    long long at = 0;
    if (end)
        while (arena->scratch[at] == expected[at])
            at++;
    else
        while (arena->scratch[CANARY - 1 - at] == expected[CANARY - 1 - at])
            at++;
    fail(errors, end ? "memory was written beyond the end of " : "memory was written before the start of ",
         buffer_name(index), end ? at : at + 1, "distance in bytes:");
    return status;
}

static mlpbwd_status check_input(gate_arena *arena, int tensor, gate_errors *errors, mlp_message *why) {
    size_t bytes = arena->buffers[tensor].size;
    if (bytes == 0)
        return MLPBWD_OK;
    mlpbwd_status status = dev_copy_out(arena->context, arena->scratch, data_of(arena, tensor), bytes, why);
    if (status != MLPBWD_OK || memcmp(arena->scratch, arena->in->tensor[tensor], bytes) == 0)
        return status;
    const unsigned char *expected = (const unsigned char *)arena->in->tensor[tensor];
    size_t at = 0;
    while (arena->scratch[at] == expected[at])
        at++;
    fail(errors, "a kernel wrote into the input ", tensor_name(tensor), (long long)(at / sizeof(float)),
         "first at element");
    /* whole again for the next candidate */
    return dev_copy_in(arena->context, data_of(arena, tensor), arena->in->tensor[tensor], bytes, why);
}

mlpbwd_status gate_check(gate_arena *arena, const reference *r, int accuracy, bool check_inputs,
                         const float *const initial[TENSOR_OUTPUTS], gate_errors *errors, mlp_message *why) {
    *errors = (gate_errors){.failed = NULL};
    mlpbwd_status status = dev_synchronize(arena->context, why);
    for (int b = 0; b < BUFFERS && status == MLPBWD_OK && !errors->failed; b++)
        for (int end = 0; end < 2 && status == MLPBWD_OK && !errors->failed; end++)
            if (arena->buffers[b].base)
                status = check_canary(arena, b, end, errors, why);
    for (int t = 0; t < TENSOR_INPUTS && check_inputs && status == MLPBWD_OK; t++)
        status = check_input(arena, t, errors, why);
    for (int o = 0; o < TENSOR_OUTPUTS && status == MLPBWD_OK; o++)
        if (arena->buffers[TENSOR_INPUTS + o].size > 0)
            status = dev_copy_out(arena->context, arena->host[o], data_of(arena, TENSOR_INPUTS + o),
                                  arena->buffers[TENSOR_INPUTS + o].size, why);
    if (status != MLPBWD_OK)
        return status;
    const float *outputs[TENSOR_OUTPUTS];
    for (int o = 0; o < TENSOR_OUTPUTS; o++)
        outputs[o] = arena->host[o];
    gate_errors compared;
    gate_compare(r, accuracy, outputs, initial, &compared);
    if (errors->failed) { /* a wild write is the better message, the figures are kept all the same */
        memcpy(compared.failed_text, errors->failed_text, sizeof compared.failed_text);
        compared.failed = compared.failed_text;
    }
    *errors = compared;
    errors->failed = compared.failed ? errors->failed_text : NULL;
    return MLPBWD_OK;
}
