#include "values.h"
#include "names.h"

#include <ctype.h>
#include <lauxlib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 16 };

static json_t *convert(lua_State *L, int index, int depth, mlp_message *why);

static json_t *convert_list(lua_State *L, int index, size_t length, int depth, mlp_message *why) {
    json_t *list = json_array();
    for (size_t i = 1; list && i <= length; i++) {
        lua_rawgeti(L, index, (lua_Integer)i);
        json_t *item = convert(L, lua_gettop(L), depth, why);
        lua_pop(L, 1);
        if (!item) {
            mlp_prefix(why, "item %zu", i);
        }
        if (!item || json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

json_t *values_sorted(const json_t *value) {
    if (json_is_array(value)) {
        json_t *list = json_array();
        for (size_t i = 0; list && i < json_array_size(value); i++) {
            if (json_array_append_new(list, values_sorted(json_array_get(value, i))) != 0) {
                json_decref(list);
                return NULL;
            }
        }
        return list;
    }
    if (!json_is_object(value)) {
        return json_incref((json_t *)value);
    }
    size_t count = json_object_size(value), i = 0;
    const char **keys = malloc((count + 1) * sizeof *keys);
    json_t *object = json_object();
    const char *key;
    json_t *item;
    if (keys) {
        json_object_foreach((json_t *)value, key, item) {
            keys[i++] = key;
        }
        qsort(keys, count, sizeof *keys, by_text);
    }
    bool complete = keys && object;
    for (i = 0; i < count && complete; i++) {
        complete = json_object_set_new(object, keys[i], values_sorted(json_object_get(value, keys[i]))) == 0;
    }
    free(keys);
    if (!complete) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *convert_object(lua_State *L, int index, int depth, mlp_message *why) {
    json_t *object = json_object();
    lua_pushnil(L);
    while (object && lua_next(L, index)) {
        if (lua_type(L, -2) != LUA_TSTRING) {
            mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "a table has both a list part and named fields, or a key of type %s",
                     luaL_typename(L, -2));
            lua_pop(L, 2);
            json_decref(object);
            return NULL;
        }
        const char *key = lua_tostring(L, -2);
        json_t *value = convert(L, lua_gettop(L), depth, why);
        if (!value) {
            mlp_prefix(why, "field '%s'", key);
        }
        if (!value || json_object_set_new(object, key, value) != 0) {
            lua_pop(L, 2);
            json_decref(object);
            return NULL;
        }
        lua_pop(L, 1);
    }
    return object;
}

static json_t *convert(lua_State *L, int index, int depth, mlp_message *why) {
    size_t length;
    const char *text;
    mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory"); /* the only reason that the code below does not name */
    switch (lua_type(L, index)) {
    case LUA_TBOOLEAN:
        return json_boolean(lua_toboolean(L, index));
    case LUA_TNUMBER:
        if (lua_isinteger(L, index)) {
            return json_integer(lua_tointeger(L, index));
        }
        if (!isfinite(lua_tonumber(L, index))) {
            mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "a number is not finite");
            return NULL;
        }
        return json_real(lua_tonumber(L, index));
    case LUA_TSTRING: {
        text = lua_tolstring(L, index, &length);
        json_t *string = json_stringn(text, length);
        if (!string || strlen(text) != length) {
            mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "a text is not UTF-8 or has a zero byte");
            json_decref(string);
            return NULL;
        }
        return string;
    }
    case LUA_TFUNCTION:
        return json_null();
    case LUA_TTABLE:
        break;
    default:
        mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "a %s is no value for a template", luaL_typename(L, index));
        return NULL;
    }
    if (depth >= MAX_DEPTH || !lua_checkstack(L, 4)) {
        mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "tables are nested more than %d deep", MAX_DEPTH);
        return NULL;
    }
    size_t count = 0;
    lua_pushnil(L);
    while (lua_next(L, index)) {
        count++;
        lua_pop(L, 1);
    }
    return count == lua_rawlen(L, index) ? convert_list(L, index, count, depth + 1, why)
                                         : convert_object(L, index, depth + 1, why);
}

json_t *values_from_lua(lua_State *L, int index, mlp_message *why) {
    json_t *value = convert(L, lua_absindex(L, index), 0, why);
    json_t *result = value ? values_sorted(value) : NULL; /* Lua's own order depends on its hash seed */
    json_decref(value);
    return result;
}

void values_push(lua_State *L, const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_INTEGER:
        lua_pushinteger(L, json_integer_value(value));
        break;
    case JSON_REAL:
        lua_pushnumber(L, json_real_value(value));
        break;
    case JSON_STRING:
        lua_pushstring(L, json_string_value(value));
        break;
    default:
        lua_pushboolean(L, json_is_true(value));
    }
}

const char *values_text(const json_t *value, char *text, size_t capacity) {
    if (!value) {
        snprintf(text, capacity, "nothing");
    } else if (json_is_null(value)) {
        snprintf(text, capacity, "a function");
    } else {
        size_t length = json_dumpb(value, text, capacity, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
        if (length < capacity) {
            text[length] = '\0';
        } else if (capacity >= 4) {
            memcpy(text + capacity - 4, "...", 4);
        }
    }
    return text;
}

static unsigned kind_of(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_STRING:
        return FIELD_TEXT;
    case JSON_INTEGER:
        return FIELD_INTEGER | FIELD_NUMBER;
    case JSON_REAL:
        return FIELD_NUMBER;
    case JSON_ARRAY: /* an empty table is both */
        return json_array_size(value) ? FIELD_LIST : FIELD_LIST | FIELD_TABLE;
    case JSON_OBJECT:
        return FIELD_TABLE;
    case JSON_NULL:
        return FIELD_FUNCTION;
    default:
        return FIELD_BOOLEAN;
    }
}

static void describe_kind(unsigned kind, char *text, size_t capacity) {
    static const char *const names[] = {"a text", "an integer",       "a number",  "true or false",
                                        "a list", "a table of names", "a function"};
    size_t used = 0;
    text[0] = '\0';
    for (unsigned bit = 0; bit < 7; bit++) {
        if (kind & (1U << bit) && used < capacity) {
            used += (size_t)snprintf(text + used, capacity - used, "%s%s", used ? " or " : "", names[bit]);
        }
    }
}

mlpbwd_status values_check(const json_t *object, const char *label, const field_rule *rules, size_t count,
                           mlp_message *why) {
    if (!(kind_of(object) & FIELD_TABLE)) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: a table of named fields is needed", label);
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        size_t i = 0;
        while (i < count && strcmp(rules[i].name, key) != 0) {
            i++;
        }
        if (i == count) {
            char known[512] = "";
            for (size_t k = 0, used = 0; k < count && used < sizeof known; k++) {
                used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", k ? ", " : "", rules[k].name);
            }
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: unknown field '%s'; known: %s", label, key, known);
        }
        if (!(rules[i].kind & kind_of(value))) {
            char wanted[128], got[64];
            describe_kind(rules[i].kind, wanted, sizeof wanted);
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: field '%s' must be %s, not %s", label, key, wanted,
                            values_text(value, got, sizeof got));
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (rules[i].kind & FIELD_REQUIRED && !json_object_get(object, rules[i].name)) {
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: field '%s' is missing", label, rules[i].name);
        }
    }
    return MLPBWD_OK;
}

mlpbwd_status values_check_names(const json_t *list, const char *label, const json_t *allowed, mlp_message *why) {
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) {
        char text[64];
        if (!json_is_string(item) || (allowed && !json_object_get(allowed, json_string_value(item)))) {
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: unknown name %s", label,
                            values_text(item, text, sizeof text));
        }
    }
    return MLPBWD_OK;
}

mlpbwd_status values_check_accuracies(const json_t *list, const char *label, mlp_message *why) {
    json_t *classes = json_object();
    for (int i = 0; i < ACCURACY_COUNT; i++) {
        json_object_set_new(classes, accuracy_names[i], json_true());
    }
    mlpbwd_status status = values_check_names(list, label, classes, why);
    json_decref(classes);
    return status;
}

bool values_list_has(const json_t *list, const char *name) {
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) {
        if (json_is_string(item) && strcmp(json_string_value(item), name) == 0) {
            return true;
        }
    }
    return false;
}

bool values_is_name(const char *text) {
    if (!isalpha((unsigned char)text[0]) && text[0] != '_') {
        return false;
    }
    for (; *text; text++) {
        if (!isalnum((unsigned char)*text) && *text != '_') {
            return false;
        }
    }
    return true;
}
