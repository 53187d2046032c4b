/* Texts of the public enums, in one place: databases, plans, templates and the command line all use them. */
#ifndef MLP_NAMES_H
#define MLP_NAMES_H

#include <stddef.h>

enum { ACCURACY_COUNT = 3, ACTIVATION_COUNT = 2 };
extern const char *const accuracy_names[ACCURACY_COUNT];     /* "tf32", ...: in the order of mlpbwd_accuracy */
extern const char *const activation_names[ACTIVATION_COUNT]; /* "gelu_tanh", ...: in the order of mlpbwd_activation */

/* NULL for a number outside the enum; -1 for an unknown name (or NULL). */
const char *accuracy_name(int accuracy);
int accuracy_from_name(const char *name);
const char *activation_name(int activation);

/* A copy of at most limit bytes of text in which every byte that is no UTF-8 is '?': JSON and terminals want UTF-8, but
 * paths and compilers' words may be in any encoding, or cut inside a letter. malloc'ed; NULL: no memory. */
char *text_utf8(const char *text, size_t limit);

#endif
