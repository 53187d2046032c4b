/* The benchmark's 16 shapes: problem 073_feedforward_mlp_backward of SOL-ExecBench. */
#ifndef MLP_SUITE_H
#define MLP_SUITE_H

#include <stddef.h>
#include <stdint.h>

typedef struct suite_shape {
    int64_t batch, seq_len; /* T = batch * seq_len */
} suite_shape;

enum { SUITE_SHAPES = 16, SUITE_HIDDEN_SIZE = 2048, SUITE_INTERMEDIATE_SIZE = 8192 };
extern const suite_shape suite_shapes[SUITE_SHAPES];

/* The distinct T of the suite, ascending, into tokens (room for SUITE_SHAPES); returns how many. */
size_t suite_tokens(int64_t *tokens);

#endif
