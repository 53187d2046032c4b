#include "worker_problem.h"

#include <stdlib.h>

static mlpbwd_status create_initial(worker_problem *p, unsigned seed, mlp_message *why) {
    for (int o = 1; o < TENSOR_OUTPUTS; o++) { /* grad_hidden_states is never accumulated */
        size_t count = (size_t)tensor_rows(TENSOR_INPUTS + o, &p->in.sizes) *
                       (size_t)tensor_columns(TENSOR_INPUTS + o, &p->in.sizes);
        p->initial[o] = malloc(count * sizeof(float) + 1);
        if (!p->initial[o])
            return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for what %s holds before the pass",
                            tensor_name(TENSOR_INPUTS + o));
        inputs_normal(p->initial[o], count, 1, seed + 100 + (unsigned)o);
    }
    return MLPBWD_OK;
}

mlpbwd_status worker_problem_create(dev_context *context, const mlpbwd_problem *problem, int64_t samples, unsigned seed,
                                    const void *results, size_t results_size, worker_problem **out, mlp_message *why) {
    *out = NULL;
    worker_problem *p = calloc(1, sizeof *p);
    if (!p)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for a problem");
    p->problem = *problem;
    tensor_sizes sizes = {problem->batch_size * problem->seq_len, problem->hidden_size, problem->intermediate_size};
    mlpbwd_status status = inputs_create(&sizes, seed, &p->in, why);
    if (status == MLPBWD_OK)
        status = results ? reference_restore(&p->in, problem->activation, samples, seed, results, results_size,
                                             &p->expected, why)
                         : reference_create(&p->in, problem->activation, samples, seed, &p->expected, why);
    if (status == MLPBWD_OK && problem->flags & MLPBWD_FLAG_ACCUMULATE)
        status = create_initial(p, seed, why);
    if (status == MLPBWD_OK)
        status = gate_arena_create(context, &p->in, &p->arena, why);
    if (status != MLPBWD_OK) {
        worker_problem_free(p);
        return status;
    }
    *out = p;
    return MLPBWD_OK;
}

void worker_problem_free(worker_problem *p) {
    if (!p)
        return;
    gate_arena_free(p->arena);
    reference_free(&p->expected);
    inputs_free(&p->in);
    for (int o = 0; o < TENSOR_OUTPUTS; o++)
        free(p->initial[o]);
    free(p);
}

static const float *const *initial_of(const worker_problem *p) {
    return p->problem.flags & MLPBWD_FLAG_ACCUMULATE ? (const float *const *)p->initial : NULL;
}

mlpbwd_status worker_problem_gate(worker_problem *p, const plan_image *image, bool check_inputs, gate_errors *errors,
                                  mlp_message *why) {
    void *workspace = NULL;
    mlpbwd_status status = gate_arena_workspace(p->arena, plan_image_workspace(image), &workspace, why);
    if (status == MLPBWD_OK)
        status = gate_arena_prepare(p->arena, initial_of(p), why);
    if (status == MLPBWD_OK)
        status = plan_image_run(image, gate_arena_tensors(p->arena), workspace, NULL, NULL, why);
    if (status == MLPBWD_OK)
        status = gate_check(p->arena, &p->expected, p->problem.accuracy, check_inputs, initial_of(p), errors, why);
    return status;
}

mlpbwd_status worker_problem_run(worker_problem *p, dev_context *context, const plan_image *image, mlp_message *why) {
    void *workspace = NULL;
    mlpbwd_status status = gate_arena_workspace(p->arena, plan_image_workspace(image), &workspace, why);
    if (status == MLPBWD_OK)
        status = plan_image_run(image, gate_arena_tensors(p->arena), workspace, NULL, NULL, why);
    return status == MLPBWD_OK ? dev_synchronize(context, why) : status;
}

typedef struct timed_run {
    worker_problem *problem;
    const plan_image *image;
    void *workspace;
    const char *slot;
} timed_run;

static mlpbwd_status enqueue(void *user, dev_stream stream, mlp_message *why) {
    const timed_run *run = user;
    return plan_image_run(run->image, gate_arena_tensors(run->problem->arena), run->workspace, run->slot, stream, why);
}

mlpbwd_status worker_problem_time(worker_problem *p, dev_context *context, const plan_image *image, const char *slot,
                                  dev_timing *timing, mlp_message *why) {
    timed_run run = {p, image, NULL, slot};
    mlpbwd_status status = gate_arena_workspace(p->arena, plan_image_workspace(image), &run.workspace, why);
    return status == MLPBWD_OK ? dev_time(context, enqueue, &run, timing, why) : status;
}
