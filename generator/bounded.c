#include "bounded.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

#include "pattern.h"
#include "sandbox.h"

/* ---- patterns ---- */

static void begin_match(lua_State *L, pattern_match *m, const char *text, size_t text_size, const char *pattern,
                        size_t pattern_size) {
    *m = (pattern_match){.L = L, .text = text, .text_end = text + text_size, .pattern_end = pattern + pattern_size};
}

static bool has_specials(const char *pattern, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (pattern[i] == '\0' || strchr("^$*+?.([%-", pattern[i])) {
            return true;
        }
    }
    return false;
}

/* Lua's rule for start positions: 1-based, negative from the end. Gives the 0-based offset. */
static size_t start_offset(lua_Integer position, size_t size) {
    if (position > 0) {
        return (size_t)position - 1;
    }
    if (position == 0 || position < -(lua_Integer)size) {
        return 0;
    }
    return size + (size_t)position;
}

static int find_or_match(lua_State *L, bool find) {
    size_t size, pattern_size;
    const char *text = luaL_checklstring(L, 1, &size), *pattern = luaL_checklstring(L, 2, &pattern_size);
    size_t offset = start_offset(luaL_optinteger(L, 3, 1), size);
    if (offset > size) {
        lua_pushnil(L);
        return 1;
    }
    if (find && (lua_toboolean(L, 4) || !has_specials(pattern, pattern_size))) {
        sandbox_charge(L, (int64_t)(size - offset) / 16);
        const char *found = memmem(text + offset, size - offset, pattern, pattern_size);
        if (!found) {
            lua_pushnil(L);
            return 1;
        }
        lua_pushinteger(L, found - text + 1);
        lua_pushinteger(L, found - text + (lua_Integer)pattern_size);
        return 2;
    }
    pattern_match m;
    bool anchored = pattern_size > 0 && *pattern == '^';
    begin_match(L, &m, text, size, pattern, pattern_size);
    for (const char *at = text + offset; at <= m.text_end; at++) {
        const char *end = pattern_at(&m, at, pattern + anchored);
        if (end && find) {
            lua_pushinteger(L, at - text + 1);
            lua_pushinteger(L, end - text);
            return pattern_push_captures(&m, NULL, NULL) + 2;
        }
        if (end) {
            return pattern_push_captures(&m, at, end);
        }
        if (anchored) {
            break;
        }
    }
    lua_pushnil(L);
    return 1;
}

static int string_find(lua_State *L) {
    return find_or_match(L, true);
}

static int string_match(lua_State *L) {
    return find_or_match(L, false);
}

/* upvalues: text, pattern, offset of the next try, end of the last match (-1: none) */
static int gmatch_next(lua_State *L) {
    size_t size, pattern_size;
    const char *text = lua_tolstring(L, lua_upvalueindex(1), &size);
    const char *pattern = lua_tolstring(L, lua_upvalueindex(2), &pattern_size);
    lua_Integer last = lua_tointeger(L, lua_upvalueindex(4));
    pattern_match m;
    begin_match(L, &m, text, size, pattern, pattern_size);
    for (const char *at = text + lua_tointeger(L, lua_upvalueindex(3)); at <= m.text_end; at++) {
        const char *end = pattern_at(&m, at, pattern);
        if (end && end - text != last) { /* not empty right behind the last one */
            lua_pushinteger(L, end - text);
            lua_copy(L, -1, lua_upvalueindex(3));
            lua_replace(L, lua_upvalueindex(4));
            return pattern_push_captures(&m, at, end);
        }
    }
    return 0;
}

static int string_gmatch(lua_State *L) {
    size_t size;
    luaL_checklstring(L, 1, &size);
    luaL_checkstring(L, 2);
    size_t offset = start_offset(luaL_optinteger(L, 3, 1), size);
    lua_settop(L, 2);
    lua_pushinteger(L, offset > size ? (lua_Integer)size + 1 : (lua_Integer)offset);
    lua_pushinteger(L, -1);
    lua_pushcclosure(L, gmatch_next, 4);
    return 1;
}

/* The replacement text's %0 to %9 and %%. */
static void add_text(pattern_match *m, luaL_Buffer *buffer, const char *start, const char *end) {
    lua_State *L = m->L;
    size_t size;
    const char *text = lua_tolstring(L, 3, &size);
    for (size_t i = 0; i < size; i++) {
        if (text[i] != '%') {
            luaL_addchar(buffer, text[i]);
            continue;
        }
        char kind = ++i < size ? text[i] : '\0';
        if (kind == '%') {
            luaL_addchar(buffer, '%');
        } else if (kind == '0') {
            luaL_addlstring(buffer, start, (size_t)(end - start));
        } else if (kind >= '1' && kind <= '9') {
            pattern_push_capture(m, kind - '1', start, end);
            luaL_tolstring(L, -1, NULL);
            lua_remove(L, -2);
            luaL_addvalue(buffer);
        } else {
            luaL_error(L, "invalid use of '%%' in replacement string");
        }
    }
}

static void add_replacement(pattern_match *m, luaL_Buffer *buffer, const char *start, const char *end) {
    lua_State *L = m->L;
    switch (lua_type(L, 3)) {
    case LUA_TFUNCTION: {
        lua_pushvalue(L, 3);
        lua_call(L, pattern_push_captures(m, start, end), 1);
        break;
    }
    case LUA_TTABLE:
        pattern_push_capture(m, 0, start, end);
        lua_gettable(L, 3);
        break;
    default:
        add_text(m, buffer, start, end);
        return;
    }
    if (!lua_toboolean(L, -1)) { /* false or nil: keep what was there */
        lua_pop(L, 1);
        luaL_addlstring(buffer, start, (size_t)(end - start));
    } else if (!lua_isstring(L, -1)) {
        luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    } else {
        luaL_addvalue(buffer);
    }
}

static int string_gsub(lua_State *L) {
    size_t size, pattern_size;
    const char *text = luaL_checklstring(L, 1, &size), *pattern = luaL_checklstring(L, 2, &pattern_size);
    int kind = lua_type(L, 3);
    luaL_argexpected(L, kind == LUA_TNUMBER || kind == LUA_TSTRING || kind == LUA_TFUNCTION || kind == LUA_TTABLE, 3,
                     "string/function/table");
    lua_Integer most = luaL_optinteger(L, 4, (lua_Integer)size + 1), count = 0;
    if (kind == LUA_TNUMBER) {
        lua_tolstring(L, 3, NULL); /* in place: add_text reads it as text */
    }
    bool anchored = pattern_size > 0 && *pattern == '^';
    pattern_match m;
    luaL_Buffer buffer;
    lua_settop(L, 4);
    begin_match(L, &m, text, size, pattern, pattern_size);
    luaL_buffinit(L, &buffer);
    const char *at = text, *last = NULL;
    while (count < most) {
        const char *end = pattern_at(&m, at, pattern + anchored);
        if (end && end != last) {
            count++;
            add_replacement(&m, &buffer, at, end);
            at = last = end;
        } else if (at < m.text_end) {
            luaL_addchar(&buffer, *at++);
        } else {
            break;
        }
        if (anchored) {
            break;
        }
    }
    luaL_addlstring(&buffer, at, (size_t)(m.text_end - at));
    luaL_pushresult(&buffer);
    lua_pushinteger(L, count);
    return 2;
}

static int string_rep(lua_State *L) {
    size_t size, separator_size;
    const char *text = luaL_checklstring(L, 1, &size);
    lua_Integer count = luaL_checkinteger(L, 2);
    const char *separator = luaL_optlstring(L, 3, "", &separator_size);
    if (count <= 0 || size + separator_size == 0) { /* the library's would count up to any number of empty texts */
        lua_pushliteral(L, "");
        return 1;
    }
    if ((size_t)count > ((size_t)PTRDIFF_MAX - size) / (size + separator_size)) {
        return luaL_error(L, "resulting string too large");
    }
    sandbox_charge(L, count);
    luaL_Buffer buffer;
    size_t total = (size_t)count * size + (size_t)(count - 1) * separator_size;
    char *to = luaL_buffinitsize(L, &buffer, total);
    for (lua_Integer i = 0; i < count; i++) {
        if (i > 0) {
            memcpy(to, separator, separator_size);
            to += separator_size;
        }
        memcpy(to, text, size);
        to += size;
    }
    luaL_pushresultsize(&buffer, total);
    return 1;
}

/* ---- tables ---- */

/* The library's own function (upvalue 1), after its work has been charged. A table with a __len or __index of its own
 * could make that any number: only plain tables. */
static int charged_table_function(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    if (lua_getmetatable(L, 1)) {
        return luaL_error(L, "a table without a metatable is needed");
    }
    int64_t cost = 1 + (int64_t)lua_rawlen(L, 1) / (int64_t)lua_tointeger(L, lua_upvalueindex(2));
    /* concat(t, sep, i, j), unpack(t, i, j) and move(t, from, to, at) have ranges of their own */
    int first = (int)lua_tointeger(L, lua_upvalueindex(3));
    for (int i = first; first > 0 && i <= lua_gettop(L); i++) {
        lua_Integer bound = lua_tointeger(L, i); /* of 1e9 and "1e9" too, as the library does; else 0 */
        luaL_argcheck(L, bound > -(1LL << 24) && bound < 1LL << 24, i, "more than 2^24");
        cost += bound > 0 ? bound : -bound;
    }
    sandbox_charge(L, cost);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

/* The library's own function (upvalue 1), after its pass over the texts it is given has been charged. */
static int charged_text_function(lua_State *L) {
    int64_t cost = 1;
    for (int i = 1; i <= lua_gettop(L); i++) {
        cost += lua_type(L, i) == LUA_TSTRING ? (int64_t)lua_rawlen(L, i) / 16 : 0;
    }
    sandbox_charge(L, cost);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

void bounded_charge_texts(lua_State *L, int library, const char *const *names) {
    for (; *names; names++) {
        lua_getfield(L, library, *names);
        lua_pushcclosure(L, charged_text_function, 1);
        lua_setfield(L, library, *names);
    }
}

void bounded_replace(lua_State *L, int string_library, int table_library) {
    static const luaL_Reg strings[] = {{"find", string_find}, {"match", string_match}, {"gmatch", string_gmatch},
                                       {"gsub", string_gsub}, {"rep", string_rep},     {NULL, NULL}};
    static const struct {
        const char *name;
        int items_per_step, first_bound; /* arguments from this one on are a range; 0: none */
    } tables[] = {{"concat", 1, 3}, {"insert", 8, 0}, {"move", 8, 2},
                  {"remove", 8, 0}, {"sort", 1, 0},   {"unpack", 1, 2}};
    lua_pushvalue(L, string_library);
    luaL_setfuncs(L, strings, 0);
    lua_pop(L, 1);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        lua_getfield(L, table_library, tables[i].name);
        lua_pushinteger(L, tables[i].items_per_step);
        lua_pushinteger(L, tables[i].first_bound);
        lua_pushcclosure(L, charged_table_function, 3);
        lua_setfield(L, table_library, tables[i].name);
    }
}
