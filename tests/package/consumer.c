/* What an outside program does: opens the host device with the shipped database, plans and executes one small problem,
 * and compares grad_bias2, whose value is known (column sums of grad_output). */
#include <mlpbwd.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 7, SIZE = 64 };

static float *filled(size_t count, float value) {
    float *values = aligned_alloc(64, count * sizeof(float));
    for (size_t i = 0; values && i < count; i++)
        values[i] = value;
    return values;
}

int main(void) {
    mlpbwd_library *library = NULL;
    mlpbwd_plan *plan = NULL;
    mlpbwd_problem problem = {.batch_size = 1, .seq_len = TOKENS, .hidden_size = SIZE, .intermediate_size = SIZE};
    mlpbwd_tensors tensors = {.grad_output = filled(TOKENS * SIZE, 0.5F),
                              .hidden_states = filled(TOKENS * SIZE, 1),
                              .weight1 = filled(SIZE * SIZE, 1),
                              .weight2 = filled(SIZE * SIZE, 1),
                              .intermediate = filled(TOKENS * SIZE, 1),
                              .intermediate_activated = filled(TOKENS * SIZE, 1),
                              .grad_hidden_states = filled(TOKENS * SIZE, -1),
                              .grad_weight1 = filled(SIZE * SIZE, -1),
                              .grad_bias1 = filled(SIZE, -1),
                              .grad_weight2 = filled(SIZE * SIZE, -1),
                              .grad_bias2 = filled(SIZE, -1)};
    mlpbwd_status status = mlpbwd_open(NULL, "host", &library);
    if (status == MLPBWD_OK)
        status = mlpbwd_plan_create(library, &problem, &plan);
    if (status == MLPBWD_OK) {
        size_t size = (mlpbwd_plan_workspace_size(plan) + 255) / 256 * 256;
        status = mlpbwd_execute(plan, &tensors, size ? aligned_alloc(256, size) : NULL, size, NULL);
    }
    if (status != MLPBWD_OK) {
        fprintf(stderr, "%s: %s\n", mlpbwd_status_string(status), mlpbwd_last_error());
        return 1;
    }
    for (int i = 0; i < SIZE; i++)
        if (tensors.grad_bias2[i] != 0.5F * TOKENS) {
            fprintf(stderr, "grad_bias2[%d] is %g, not %g\n", i, (double)tensors.grad_bias2[i], 0.5 * TOKENS);
            return 1;
        }
    mlpbwd_plan_destroy(plan);
    mlpbwd_close(library);
    printf("mlpbwd %s works\n", mlpbwd_version());
    return 0;
}
