/* What the worker holds for one problem size: inputs, buffers on the device, float64 reference. */
#ifndef MLP_WORKER_PROBLEM_H
#define MLP_WORKER_PROBLEM_H

#include "gate.h"
#include "plan_image.h"

typedef struct worker_problem {
    mlpbwd_problem problem;
    inputs in;
    gate_arena *arena;
    reference expected;
    float *initial[TENSOR_OUTPUTS]; /* for a problem that accumulates; else NULL */
} worker_problem;

/* samples as in reference_create. results: of reference_results for the same problem, which saves most of the time;
 * NULL: computed. With MLPBWD_FLAG_ACCUMULATE in the flags the weight and bias gradients start as
 * random numbers. */
mlpbwd_status worker_problem_create(dev_context *context, const mlpbwd_problem *problem, int64_t samples, unsigned seed,
                                    const void *results, size_t results_size, worker_problem **out, mlp_message *why);
void worker_problem_free(worker_problem *p); /* NULL is harmless */

/* Poisons, runs the whole pass and checks it (gate.h). */
mlpbwd_status worker_problem_gate(worker_problem *p, const plan_image *image, bool check_inputs, gate_errors *errors,
                                  mlp_message *why);
/* Runs the whole pass once, so that every buffer holds what a slot's launches read. */
mlpbwd_status worker_problem_run(worker_problem *p, dev_context *context, const plan_image *image, mlp_message *why);
/* slot NULL: the whole pass. */
mlpbwd_status worker_problem_time(worker_problem *p, dev_context *context, const plan_image *image, const char *slot,
                                  dev_timing *timing, mlp_message *why);

#endif
