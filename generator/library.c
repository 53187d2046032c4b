#include "library.h"

#include <lauxlib.h>
#include <lualib.h>
#include <string.h>

#include "bounded.h"

/* pairs in one order (type, then value), so that emitted text never depends on Lua's hash seed. */
static const char ordered_pairs[] =
    "local next, type, sort, error, tostring, metatable = ...\n"
    "local function before(a, b)\n"
    "    local x, y = type(a), type(b)\n"
    "    if x ~= y then return x < y end\n"
    "    if x == 'boolean' then return tostring(a) < tostring(b) end\n"
    "    return a < b\n"
    "end\n"
    "return function(t)\n"
    "    if type(t) ~= 'table' then error('pairs: a table is needed, not a ' .. type(t), 2) end\n"
    "    if metatable(t) == false then error('pairs: this table can only be read by name', 2) end\n"
    "    local keys, n = {}, 0\n"
    "    for k in next, t do\n"
    "        local kind = type(k)\n"
    "        if kind ~= 'string' and kind ~= 'number' and kind ~= 'boolean' then\n"
    "            error('pairs: a key is a ' .. kind .. ', which has no order', 2)\n"
    "        end\n"
    "        n = n + 1\n"
    "        keys[n] = k\n"
    "    end\n"
    "    sort(keys, before)\n"
    "    local i = 0\n"
    "    return function()\n"
    "        i = i + 1\n"
    "        local k = keys[i]\n"
    "        if k ~= nil then return k, t[k] end\n"
    "    end\n"
    "end\n";

/* A finalizer would run with hooks off: no limit could end it. */
static int set_metatable(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_argexpected(L, lua_type(L, 2) == LUA_TTABLE || lua_isnoneornil(L, 2), 2, "nil or table");
    if (lua_istable(L, 2)) {
        lua_pushliteral(L, "__gc");
        if (lua_rawget(L, 2) != LUA_TNIL) {
            return luaL_error(L, "setmetatable: templates have no finalizers (__gc)");
        }
    }
    if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL) {
        return luaL_error(L, "setmetatable: cannot change a protected metatable");
    }
    lua_settop(L, 2);
    lua_setmetatable(L, 1);
    return 1;
}

static int unknown_global(lua_State *L) {
    return luaL_error(L, "unknown name '%s'", luaL_tolstring(L, 2, NULL));
}

static int new_global(lua_State *L) {
    return luaL_error(L, "assignment to the global '%s': say local", luaL_tolstring(L, 2, NULL));
}

static void copy_names(lua_State *L, int from, int to, const char *const *names) {
    for (; *names; names++) {
        lua_getfield(L, from, *names);
        lua_setfield(L, to, *names);
    }
}

/* No xpcall: a message handler for an error that a hook raises runs with hooks off, so no limit could end it. */
static const char *const base_names[] = {"assert",   "error",    "getmetatable", "ipairs", "next",
                                         "pcall",    "rawequal", "rawget",       "rawlen", "select",
                                         "tonumber", "tostring", "type",         NULL};
static const char *const string_names[] = {"byte",  "char",  "find",     "format",  "gmatch", "gsub",
                                           "len",   "lower", "match",    "reverse", "rep",    "sub",
                                           "upper", "pack",  "packsize", "unpack",  NULL};
static const char *const table_names[] = {"concat", "insert", "move", "pack", "remove", "sort", "unpack", NULL};
static const char *const math_names[] = {"abs", "acos",       "asin", "atan", "ceil", "cos", "deg",
                                         "exp", "floor",      "fmod", "huge", "log",  "max", "maxinteger",
                                         "min", "mininteger", "modf", "pi",   "rad",  "sin", "sqrt",
                                         "tan", "tointeger",  "type", "ult",  NULL};
static const char *const utf8_names[] = {"char", "charpattern", "codepoint", "codes", "len", "offset", NULL};

static void push_library(lua_State *L, const char *name, lua_CFunction open, const char *const *names) {
    lua_pushcfunction(L, open);
    lua_pushstring(L, name);
    lua_call(L, 1, 1);
    lua_newtable(L);
    copy_names(L, lua_absindex(L, -2), lua_absindex(L, -1), names);
    lua_remove(L, -2);
}

void library_push_base(lua_State *L) {
    lua_newtable(L);
    int base = lua_gettop(L);
    lua_pushcfunction(L, luaopen_base);
    lua_call(L, 0, 1);
    int full = lua_gettop(L);
    copy_names(L, full, base, base_names);
    push_library(L, "string", luaopen_string, string_names);
    lua_setfield(L, base, "string");
    push_library(L, "table", luaopen_table, table_names);
    lua_setfield(L, base, "table");
    lua_getfield(L, base, "string");
    lua_getfield(L, base, "table");
    bounded_replace(L, lua_gettop(L) - 1, lua_gettop(L));
    lua_settop(L, full);
    push_library(L, "math", luaopen_math, math_names);
    lua_setfield(L, base, "math");
    static const char *const walks_text[] = {"codepoint", "len", "offset", NULL};
    push_library(L, "utf8", luaopen_utf8, utf8_names);
    bounded_charge_texts(L, lua_gettop(L), walks_text);
    lua_setfield(L, base, "utf8");
    static const char *const reads_number[] = {"tonumber", NULL};
    bounded_charge_texts(L, base, reads_number);
    lua_pushcfunction(L, set_metatable);
    lua_setfield(L, base, "setmetatable");

    /* "x":rep(3) finds its methods in the metatable of strings: give it the reduced library, and lock it. */
    lua_pushliteral(L, "");
    if (lua_getmetatable(L, -1)) {
        lua_getfield(L, base, "string");
        lua_setfield(L, -2, "__index");
        lua_pushboolean(L, 0);
        lua_setfield(L, -2, "__metatable");
        lua_pop(L, 1);
    }
    lua_pop(L, 1);

    if (luaL_loadbufferx(L, ordered_pairs, sizeof ordered_pairs - 1, "=pairs", "t") != LUA_OK) {
        lua_error(L);
    }
    lua_getfield(L, base, "next");
    lua_getfield(L, base, "type");
    lua_getfield(L, base, "table");
    lua_getfield(L, -1, "sort");
    lua_remove(L, -2);
    lua_getfield(L, base, "error");
    lua_getfield(L, base, "tostring");
    lua_getfield(L, base, "getmetatable");
    lua_call(L, 6, 1);
    lua_setfield(L, base, "pairs");
    lua_settop(L, base);
}

/* The environment itself stays empty, so that every assignment to a global is noticed. */
void library_push_environment(lua_State *L) {
    int base = lua_gettop(L);
    lua_newtable(L);
    lua_newtable(L); /* its metatable */
    lua_newtable(L); /* the names */
    int names = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, base)) {
        if (lua_istable(L, -1)) {
            lua_newtable(L);
            lua_pushnil(L);
            while (lua_next(L, -3)) {
                lua_pushvalue(L, -2);
                lua_insert(L, -2);
                lua_rawset(L, -4);
            }
            lua_remove(L, -2);
        }
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, names);
    }
    lua_newtable(L);
    lua_pushcfunction(L, unknown_global);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, names);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, new_global);
    lua_setfield(L, -2, "__newindex");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
}
