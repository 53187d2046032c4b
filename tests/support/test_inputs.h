/* Deterministic inputs for one problem: the suite's (standard normal, weights over the root of their last dimension)
 * and the wide-range ones of design section 3. Everything is a function of the problem, the kind and the seed. */
#ifndef TEST_INPUTS_H
#define TEST_INPUTS_H

#include <stddef.h>
#include <stdint.h>

typedef struct test_sizes {
    int64_t tokens, hidden, intermediate; /* T, H, I */
} test_sizes;

/* Only what the backward pass reads, in the order of mlpbwd_tensors without the biases. */
enum { IN_GRAD_OUTPUT, IN_HIDDEN, IN_WEIGHT1, IN_WEIGHT2, IN_INTERMEDIATE, IN_ACTIVATED, IN_COUNT };

typedef enum test_input_kind {
    INPUT_NORMAL,                /* the suite's */
    INPUT_POSITIVE,              /* absolute values of those: sums without cancellation */
    INPUT_TINY_GRADIENT,         /* grad_output of size 1e-8 */
    INPUT_LARGE_ACTIVATION,      /* hidden_states, intermediate and intermediate_activated of size 1e5 */
    INPUT_OUTLIERS,              /* some values of 1e6 among ones in every input but the weights */
    INPUT_TAIL,                  /* intermediate in the tails of gelu', where a row has nothing else */
    INPUT_ZERO_ROWS,             /* zero tokens, zero channels, zero rows and columns of the weights */
    INPUT_ZERO_GRADIENT,         /* grad_output is all zero */
    INPUT_ZERO_WEIGHT,           /* weight2 is all zero */
    INPUT_INFINITE_TOKEN,        /* Inf and NaN in one token of grad_output */
    INPUT_INFINITE_ACTIVATION,   /* Inf and NaN in one place each of hidden_states and intermediate_activated */
    INPUT_INFINITE_INTERMEDIATE, /* +Inf, -Inf, NaN and +-3e38 in intermediate */
    INPUT_INFINITE_WEIGHT,       /* Inf in one place each of weight1 and weight2 */
    INPUT_KINDS
} test_input_kind;

typedef struct test_inputs {
    test_sizes sizes;
    test_input_kind kind;
    int64_t count[IN_COUNT]; /* elements */
    float *tensor[IN_COUNT]; /* malloc'ed; never NULL, also where count is 0 */
} test_inputs;

const char *test_input_name(test_input_kind kind);

/* Aborts the program when memory runs out, as every helper of the tests does. */
void test_inputs_make(test_inputs *inputs, test_sizes sizes, test_input_kind kind, uint64_t seed);
void test_inputs_free(test_inputs *inputs);

/* The generator behind them: uniform 64 bits, standard normal. */
uint64_t test_random(uint64_t *state);
double test_normal(uint64_t *state);

/* malloc that aborts with a message instead of returning NULL; never NULL, also for 0. */
void *test_alloc(size_t size);

#endif
