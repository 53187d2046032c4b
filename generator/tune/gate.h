/* The gate every candidate passes before it is timed, and what `mlpbwd verify` uses: the problem's buffers on a device
 * with canaries around each, outputs and workspace poisoned with NaN, and acceptance against float64.
 *
 * Acceptance, per output (design section 3; the one table of limits is in gate.c):
 *  (a) Frobenius relative error <= the class's limit;
 *  (b) each row and column of at least GATE_SHORTEST elements within 3 times that, plus the absolute term
 *      K * 2^-38 * max|A| * max|B| (classes tf32 and bf16) per element. With fewer than GATE_SHORTEST tokens a row's
 * own norm says little (one token: a row of grad_weight1 is one number times hidden_states), so the root mean square of
 * all rows counts if it is larger; (c) a row or column that is exactly zero in float64 is exactly zero; (d) every
 * element within 10 limits of the larger of its row's and its column's root mean square, so that one wrong element
 * fails however large the tensor is; (e) finite exactly where float64 (rounded to float32) is; grad_bias2 within 2^-20
 * * sum|x| per element, grad_bias1 allowed that on top of its class. */
#ifndef MLP_GATE_H
#define MLP_GATE_H

#include <jansson.h>

#include "device/device.h"
#include "reference.h"
#include "tune.h"

enum { GATE_SHORTEST = 32 };

/* The limit (a) of an accuracy class for output 0..4; grad_bias2 has none (0). */
double gate_limit(int accuracy, int output);

/* outputs: host arrays in full, in the order of mlpbwd_tensors (NULL: not computed, skipped). initial: NULL, or what
 * the outputs held before an accumulating pass (an entry may be NULL). Fills *errors; errors->failed says whether and
 * why not accepted. */
void gate_compare(const reference *r, int accuracy, const float *const outputs[TENSOR_OUTPUTS],
                  const float *const initial[TENSOR_OUTPUTS], gate_errors *errors);

/* {"grad_weight1":{"frobenius":..,"row":..,"column":..},...}; a figure that is not finite is null. New reference. */
json_t *gate_errors_json(const gate_errors *errors);

/* ---- the buffers of a problem on a device ---- */
typedef struct gate_arena gate_arena;

/* Allocates and fills the inputs (copied; `in` must outlive the arena, it is what gate_check compares with). */
mlpbwd_status gate_arena_create(dev_context *context, const inputs *in, gate_arena **out, mlp_message *why);
void gate_arena_free(gate_arena *arena);
/* Device pointers; the workspace pointer is NULL for size 0 and may move when a larger one is asked for. */
const mlpbwd_tensors *gate_arena_tensors(const gate_arena *arena);
mlpbwd_status gate_arena_workspace(gate_arena *arena, size_t size, void **workspace, mlp_message *why);
/* Outputs and workspace become NaN (initial != NULL: outputs become these host arrays), canaries whole again. */
mlpbwd_status gate_arena_prepare(gate_arena *arena, const float *const initial[TENSOR_OUTPUTS], mlp_message *why);
/* After the pass: waits for the device, then canaries, inputs (if check_inputs), then gate_compare on the outputs.
 * A verdict is in *errors; the status is about the device (DEVICE_ERROR: the pass itself went wrong). */
mlpbwd_status gate_check(gate_arena *arena, const reference *r, int accuracy, bool check_inputs,
                         const float *const initial[TENSOR_OUTPUTS], gate_errors *errors, mlp_message *why);

#endif
