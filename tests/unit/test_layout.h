/* Reading tests/vectors: what the test_layout programs share. Every function fails the test with a message when the
 * files are not as it expects. */
#ifndef TEST_LAYOUT_H
#define TEST_LAYOUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device/emulated/layout.h"

/* A file of tests/vectors; json_decref. The count is that of its rows: no row may come or go unnoticed. */
static inline json_t *vectors_open(const char *name, size_t count) {
    char path[1024];
    json_error_t error;
    snprintf(path, sizeof path, "%s/tests/vectors/%s", SOURCE_DIR, name);
    json_t *file = json_load_file(path, 0, &error);
    if (!file)
        fail_msg("%s: line %d: %s", path, error.line, error.text);
    assert_int_equal(json_array_size(json_object_get(file, "rows")), count);
    return file;
}

static inline const json_t *vector_get(const json_t *row, const char *name) {
    const json_t *value = json_object_get(row, name);
    if (!value)
        fail_msg("a row has no field \"%s\"", name);
    return value;
}

static inline const char *vector_text(const json_t *row, const char *name) {
    const char *text = json_string_value(vector_get(row, name));
    if (!text)
        fail_msg("field \"%s\" is no string", name);
    return text;
}

static inline unsigned vector_integer(const json_t *value) {
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        fail_msg("a value is no natural number");
    return (unsigned)json_integer_value(value);
}

static inline unsigned vector_number(const json_t *row, const char *name) {
    return vector_integer(vector_get(row, name));
}

/* Element of a nested array. */
static inline unsigned vector_at(const json_t *array, size_t i) {
    return vector_integer(json_array_get(array, i));
}

static inline uint64_t vector_hex(const json_t *value) {
    const char *text = json_string_value(value);
    char *end = NULL;
    uint64_t number = text ? strtoull(text, &end, 16) : 0;
    if (!text || end == text || *end)
        fail_msg("\"%s\" is no hexadecimal number", text ? text : "(no string)");
    return number;
}

static inline enum layout_swizzle vector_swizzle(const char *name) {
    static const struct {
        const char *name;
        enum layout_swizzle swizzle;
    } names[] = {{"none", LAYOUT_SWIZZLE_NONE},
                 {"32B", LAYOUT_SWIZZLE_32B},
                 {"64B", LAYOUT_SWIZZLE_64B},
                 {"128B", LAYOUT_SWIZZLE_128B},
                 {"128B_base32B", LAYOUT_SWIZZLE_128B_ATOM_32B},
                 {"128B_atom32B", LAYOUT_SWIZZLE_128B_ATOM_32B}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i].name) == 0)
            return names[i].swizzle;
    fail_msg("unknown swizzle \"%s\"", name);
    return LAYOUT_SWIZZLE_NONE;
}

static inline enum layout_major vector_major(const json_t *row, const char *name) {
    const char *major = vector_text(row, name);
    if (strcmp(major, "K") != 0 && strcmp(major, "MN") != 0)
        fail_msg("unknown major \"%s\"", major);
    return strcmp(major, "K") == 0 ? LAYOUT_K_MAJOR : LAYOUT_MN_MAJOR;
}

#endif
