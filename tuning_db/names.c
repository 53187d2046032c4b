#include "names.h"

#include <jansson.h>
#include <stdlib.h>
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

char *text_utf8(const char *text, size_t limit) {
    size_t length = strnlen(text, limit);
    char *clean = malloc(length + 1);
    if (!clean)
        return NULL;
    size_t at = 0;
    while (at < length) {
        unsigned char lead = (unsigned char)text[at];
        size_t letter = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
        json_t *valid = at + letter <= length ? json_stringn(text + at, letter) : NULL;
        if (!valid)
            letter = 1;
        memcpy(clean + at, valid ? text + at : "?", letter);
        json_decref(valid);
        at += letter;
    }
    clean[length] = 0;
    return clean;
}
