/* Error details travel up as text beside an mlpbwd_status: every internal function that can fail takes an mlp_message
 * and fills it on failure. Only the public entry points turn it into mlpbwd_last_error(). */
#ifndef MLP_MESSAGE_H
#define MLP_MESSAGE_H

#include "mlpbwd.h"

enum { MLP_MESSAGE_CAPACITY = 2048 };

typedef struct mlp_message {
    char text[MLP_MESSAGE_CAPACITY];
} mlp_message;

/* Formats into *why (may be NULL; longer text is cut and ends in "...") and returns status:
 * `return mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s: ...", path);` */
mlpbwd_status mlp_fail(mlp_message *why, mlpbwd_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the text already in *why. */
void mlp_prefix(mlp_message *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
