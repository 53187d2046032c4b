/* Integer expressions of stored plans (templates/README.md, "Expressions"). */
#ifndef MLP_EXPRESSION_H
#define MLP_EXPRESSION_H

#include <stdint.h>

#include "message.h"

typedef struct expression_values {
    int64_t T, H, I, UNITS, ACTIVATION, ACCUMULATE;
} expression_values;

/* UNSUPPORTED on overflow or division by zero, INVALID_ARGUMENT on bad text (naming the text and the position). */
mlpbwd_status expression_evaluate(const char *text, const expression_values *values, int64_t *result, mlp_message *why);

#endif
