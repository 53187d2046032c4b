/* Lua values as JSON, and the check of a table's fields against a list of rules. */
#ifndef MLP_VALUES_H
#define MLP_VALUES_H

#include <jansson.h>
#include <lua.h>
#include <stdbool.h>

#include "message.h"

/* A new reference, or NULL with *why filled. Never raises. Lists become arrays (an empty table too), tables with text
 * keys objects with sorted keys; a function becomes JSON null (nil never shows up inside a table); userdata, mixed
 * keys, NaN and infinities and more than 16 levels are errors. */
json_t *values_from_lua(lua_State *L, int index, mlp_message *why);
/* A copy whose objects, at every level, have their keys in order: equal values give equal text. NULL: out of memory. */
json_t *values_sorted(const json_t *value);
/* Pushes a scalar (integer, real, boolean, string). */
void values_push(lua_State *L, const json_t *value);
/* "true", "12", "text": for messages, into text. */
const char *values_text(const json_t *value, char *text, size_t capacity);

/* What a field may be; bits. */
enum {
    FIELD_TEXT = 1,
    FIELD_INTEGER = 2,
    FIELD_NUMBER = 4, /* integer or real */
    FIELD_BOOLEAN = 8,
    FIELD_LIST = 16,
    FIELD_TABLE = 32, /* names to values */
    FIELD_FUNCTION = 64,
    FIELD_REQUIRED = 128
};

typedef struct field_rule {
    const char *name;
    unsigned kind;
} field_rule;

/* Every field of object stands in rules and has its kind; none that is required is missing. label starts messages. */
mlpbwd_status values_check(const json_t *object, const char *label, const field_rule *rules, size_t count,
                           mlp_message *why);
/* A list of texts, each of them in allowed (an object's keys) if that is given. */
mlpbwd_status values_check_names(const json_t *list, const char *label, const json_t *allowed, mlp_message *why);
/* The same for names of accuracy classes. */
mlpbwd_status values_check_accuracies(const json_t *list, const char *label, mlp_message *why);
bool values_list_has(const json_t *list, const char *name);
/* A C identifier. */
bool values_is_name(const char *text);

#endif
