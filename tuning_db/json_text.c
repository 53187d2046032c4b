#include <stdlib.h>
#include <string.h>

#include "rows.h"

json_t *json_parse_object(const char *text, mlp_message *why) {
    json_error_t error;
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!value) {
        mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "no JSON: %s (line %d, column %d)", error.text, error.line,
                 error.column);
        return NULL;
    }
    if (!json_is_object(value)) {
        json_decref(value);
        mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "JSON, but no object");
        return NULL;
    }
    return value;
}

/* Equal including the signs of zeros and the types of numbers, which json_equal does not promise: compared as text. */
static bool same_value(const json_t *value, const char *short_text, const char *full_text) {
    json_t *back = json_loads(short_text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!back)
        return false;
    char *again = json_dumps(back, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    bool same = again && strcmp(again, full_text) == 0 && json_equal(value, back);
    free(again);
    json_decref(back);
    return same;
}

char *json_canonical(const json_t *value) {
    const size_t flags = JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY;
    char *full = json_dumps(value, flags | JSON_REAL_PRECISION(17));
    if (!full)
        return NULL;
    char *shorter = json_dumps(value, flags | JSON_REAL_PRECISION(15));
    if (shorter && same_value(value, shorter, full)) {
        free(full);
        return shorter;
    }
    free(shorter);
    return full;
}

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_encode(const void *bytes, size_t size) {
    const unsigned char *in = bytes;
    char *text = malloc((size + 2) / 3 * 4 + 1);
    if (!text)
        return NULL;
    char *out = text;
    for (size_t i = 0; i < size; i += 3) {
        unsigned group = (unsigned)in[i] << 16;
        if (i + 1 < size)
            group |= (unsigned)in[i + 1] << 8;
        if (i + 2 < size)
            group |= in[i + 2];
        *out++ = alphabet[group >> 18];
        *out++ = alphabet[group >> 12 & 63];
        *out++ = i + 1 < size ? alphabet[group >> 6 & 63] : '=';
        *out++ = i + 2 < size ? alphabet[group & 63] : '=';
    }
    *out = 0;
    return text;
}

static int sextet(unsigned char letter) {
    const char *found = letter ? strchr(alphabet, letter) : NULL;
    return found ? (int)(found - alphabet) : -1;
}

void *base64_decode(const char *text, size_t length, size_t *size) {
    *size = 0;
    if (length % 4 != 0)
        return NULL;
    unsigned char *bytes = malloc(length / 4 * 3 + 1);
    if (!bytes)
        return NULL;
    size_t padding = 0;
    while (padding < 2 && padding < length && text[length - 1 - padding] == '=')
        ++padding;
    size_t used = 0;
    unsigned group = 0;
    for (size_t i = 0; i < length; ++i) {
        int value = i < length - padding ? sextet((unsigned char)text[i]) : 0;
        if (value < 0) {
            free(bytes);
            return NULL;
        }
        group = group << 6 | (unsigned)value;
        if (i % 4 == 3) {
            bytes[used++] = (unsigned char)(group >> 16);
            bytes[used++] = (unsigned char)(group >> 8 & 255);
            bytes[used++] = (unsigned char)(group & 255);
            group &= 0xffffff;
            if (i + 1 < length)
                group = 0;
        }
    }
    /* Bits behind the end must be zero: one text for one content. */
    if (padding > 0 && (group & (padding == 1 ? 0xffu : 0xffffu))) {
        free(bytes);
        return NULL;
    }
    *size = used - padding;
    bytes[*size] = 0;
    return bytes;
}
