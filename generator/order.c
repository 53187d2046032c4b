/* Does the order of a pipeline's steps, run on several streams, keep every write before the reads that need it? */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gen.h"

enum { MAX_STEPS = 64 };

static const char *text_of(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static int64_t stream_of(const json_t *step) {
    return json_integer_value(json_object_get(step, "stream")); /* 0 when there is none */
}

/* before[i]: bits of the steps that are complete when step i starts. */
static void find_order(const json_t *steps, uint64_t before[MAX_STEPS]) {
    size_t count = json_array_size(steps);
    for (size_t i = 0; i < count; i++) {
        const json_t *step = json_array_get(steps, i);
        bool first_of_stream = true;
        before[i] = 0;
        for (size_t k = 0; k < i; k++) {
            const json_t *earlier = json_array_get(steps, k);
            if (stream_of(earlier) == stream_of(step)) {
                first_of_stream = false;
                before[i] |= before[k] | UINT64_C(1) << k;
            } else if (values_list_has(json_object_get(step, "after"), text_of(earlier, "slot"))) {
                before[i] |= before[k] | UINT64_C(1) << k;
            }
        }
        /* A side stream is forked from the caller's where it first appears: behind all that is enqueued there. */
        for (size_t k = 0; k < i && first_of_stream; k++) {
            if (stream_of(json_array_get(steps, k)) == 0) {
                before[i] |= before[k] | UINT64_C(1) << k;
            }
        }
    }
}

/* How a step uses a buffer: bit 0 reads, bit 1 writes. */
static unsigned use_of(const json_t *uses, const char *buffer) {
    unsigned result = 0;
    for (size_t i = 0; i < json_array_size(uses); i++) {
        const json_t *use = json_array_get(uses, i);
        const char *access = text_of(use, "access");
        if (strcmp(text_of(use, "name"), buffer) == 0) {
            result |= strcmp(access, "in") == 0 ? 1 : strcmp(access, "out") == 0 ? 2 : 3;
        }
    }
    return result;
}

/* The buffer `name` at step i against all earlier steps. */
static mlpbwd_status check_use(const char *pipeline, const json_t *steps, const json_t *operands, size_t i,
                               const char *name, const uint64_t *before, mlp_message *why) {
    unsigned now = use_of(json_array_get(operands, i), name);
    const char *slot = text_of(json_array_get(steps, i), "slot");
    bool written = pipeline_tensor(name) != 0;
    for (size_t k = 0; k < i; k++) {
        unsigned then = use_of(json_array_get(operands, k), name);
        const char *other = text_of(json_array_get(steps, k), "slot");
        written = written || then & 2;
        if (((now | then) & 2) && now && then && !(before[i] >> k & 1)) {
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                            "pipeline %s: slot %s %s '%s', which slot %s %s on another stream; add after = {\"%s\"}",
                            pipeline, slot, now & 2 ? "writes" : "reads", name, other, then & 2 ? "writes" : "reads",
                            other);
        }
    }
    return now & 1 && !written ? mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                                          "pipeline %s: slot %s reads the buffer '%s', which no earlier step writes",
                                          pipeline, slot, name)
                               : MLPBWD_OK;
}

mlpbwd_status order_check(const char *pipeline, const json_t *steps, const json_t *operands, mlp_message *why) {
    uint64_t before[MAX_STEPS] = {0};
    if (json_array_size(steps) > MAX_STEPS) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "pipeline %s: more than %d steps", pipeline, MAX_STEPS);
    }
    find_order(steps, before);
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *uses = json_array_get(operands, i);
        for (size_t k = 0; k < json_array_size(uses); k++) {
            mlpbwd_status status =
                check_use(pipeline, steps, operands, i, text_of(json_array_get(uses, k), "name"), before, why);
            if (status != MLPBWD_OK) {
                return status;
            }
        }
    }
    return MLPBWD_OK;
}
