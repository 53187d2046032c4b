/* Kinds of inputs that `verify` tries beside the suite's: the accuracy class holds for any finite input. */
#ifndef MLP_VERIFY_INPUTS_H
#define MLP_VERIFY_INPUTS_H

#include "inputs.h"

enum { VERIFY_INPUT_KINDS = 4 };
extern const char *const verify_input_names[VERIFY_INPUT_KINDS]; /* "suite", "small", "large", "outliers" */

/* Turns the suite's inputs into those of a kind: small = gradients of size 1e-8; large = activations of 1e5; outliers =
 * one element of 1e6 in intermediate and intermediate_activated. (In grad_output or hidden_states it would multiply
 * single elements of grad_intermediate, and where the sum behind one cancels, the row or column that it fills misses
 * the per-row limit in cuBLAS as well.) */
void verify_inputs_shape(inputs *in, int kind);

#endif
