#include "names.h"

#include <stddef.h>
#include <string.h>

const char *const accuracy_names[ACCURACY_COUNT] = {"tf32", "fp32", "bf16"};
const char *const activation_names[ACTIVATION_COUNT] = {"gelu_tanh", "gelu_erf"};

const char *accuracy_name(int accuracy) {
    return accuracy >= 0 && accuracy < ACCURACY_COUNT ? accuracy_names[accuracy] : NULL;
}

int accuracy_from_name(const char *name) {
    for (int i = 0; name && i < ACCURACY_COUNT; ++i)
        if (strcmp(name, accuracy_names[i]) == 0)
            return i;
    return -1;
}

const char *activation_name(int activation) {
    return activation >= 0 && activation < ACTIVATION_COUNT ? activation_names[activation] : NULL;
}
