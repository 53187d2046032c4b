/* What an outside program does: opens the host device with the shipped database, plans and executes one small problem,
 * and compares grad_bias2, whose value is known (column sums of grad_output). */
#include <mlpbwd.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 7, SIZE = 64 };

_Alignas(64) static float grad_output[TOKENS * SIZE], hidden_states[TOKENS * SIZE], weight1[SIZE * SIZE],
    weight2[SIZE * SIZE], intermediate[TOKENS * SIZE], activated[TOKENS * SIZE];
_Alignas(64) static float grad_hidden_states[TOKENS * SIZE], grad_weight1[SIZE * SIZE], grad_bias1[SIZE],
    grad_weight2[SIZE * SIZE], grad_bias2[SIZE];

static int failed(mlpbwd_status status) {
    if (status != MLPBWD_OK)
        fprintf(stderr, "%s: %s\n", mlpbwd_status_string(status), mlpbwd_last_error());
    return status != MLPBWD_OK;
}

int main(void) {
    mlpbwd_library *library = NULL;
    mlpbwd_plan *plan = NULL;
    mlpbwd_problem problem = {.batch_size = 1, .seq_len = TOKENS, .hidden_size = SIZE, .intermediate_size = SIZE};
    mlpbwd_tensors tensors = {
        grad_output, hidden_states,      weight1,      NULL,       weight2,      NULL,      intermediate,
        activated,   grad_hidden_states, grad_weight1, grad_bias1, grad_weight2, grad_bias2};
    for (int i = 0; i < TOKENS * SIZE; i++)
        grad_output[i] = 0.5F;
    if (failed(mlpbwd_open(NULL, "host", &library)) || failed(mlpbwd_plan_create(library, &problem, &plan)))
        return 1;
    size_t size = mlpbwd_plan_workspace_size(plan);
    void *workspace = aligned_alloc(256, (size + 256) / 256 * 256);
    if (!workspace || failed(mlpbwd_execute(plan, &tensors, workspace, size, NULL)))
        return 1;
    free(workspace);
    mlpbwd_plan_destroy(plan);
    mlpbwd_close(library);
    for (int i = 0; i < SIZE; i++)
        if (grad_bias2[i] != 0.5F * TOKENS) {
            fprintf(stderr, "grad_bias2[%d] is %g, not %g\n", i, (double)grad_bias2[i], 0.5 * TOKENS);
            return 1;
        }
    printf("mlpbwd %s works\n", mlpbwd_version());
    return 0;
}
