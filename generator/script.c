#include "script.h"

#include <ctype.h>
#include <lauxlib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gen.h"
#include "sandbox.h"

static const char modules_key; /* registry: path -> value of an imported file */
static const char texts_key;   /* registry: text -> path, so that fill can name the file */

static const template_file *find_file(lua_State *L, const char *path) {
    if (path[0] == '/' || strstr(path, "..")) {
        luaL_error(L, "'%s': a path under the templates folder is needed, without '..'", path);
    }
    const gen *generator = sandbox_user(L);
    const template_file *file = files_find(&generator->files, path);
    if (!file) {
        luaL_error(L, "'%s': no such file in arch/, kernels/, pipelines/ or lib/ of the templates folders", path);
    }
    return file;
}

/* The table at a registry key, made on first use. */
static void push_table(lua_State *L, const void *key) {
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, key) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, key);
    }
}

static int text_function(lua_State *L) {
    const template_file *file = find_file(L, luaL_checkstring(L, 1));
    push_table(L, &texts_key);
    lua_pushlstring(L, file->bytes, file->size);
    lua_pushvalue(L, -1);
    lua_pushstring(L, file->path);
    lua_rawset(L, -4);
    return 1;
}

void script_import(lua_State *L, const char *path) {
    luaL_checkstack(L, 8, "imports are nested too deep");
    const template_file *file = find_file(L, path);
    push_table(L, &modules_key);
    int modules = lua_gettop(L);
    int type = lua_getfield(L, modules, path);
    if (type == LUA_TLIGHTUSERDATA) {
        luaL_error(L, "'%s': imports itself (directly or through others), or failed when it was imported before", path);
    }
    if (type == LUA_TNIL) {
        lua_pop(L, 1);
        sandbox_load(L, path, file->bytes, file->size);
        lua_pushlightuserdata(L, NULL); /* being run */
        lua_setfield(L, modules, path);
        lua_call(L, 0, 1);
        if (lua_isnil(L, -1)) {
            luaL_error(L, "%s: returns nothing; a template file ends with `return`", path);
        }
        lua_pushvalue(L, -1);
        lua_setfield(L, modules, path);
    }
    lua_remove(L, modules);
}

static int import_function(lua_State *L) {
    script_import(L, luaL_checkstring(L, 1));
    return 1;
}

/* Appends a value as text. Reals keep 17 digits and a point, so that they stay reals in C. */
static void add_value(lua_State *L, luaL_Buffer *buffer, int value, const char *origin, const char *name) {
    char number[48];
    switch (lua_type(L, value)) {
    case LUA_TSTRING:
        lua_pushvalue(L, value);
        luaL_addvalue(buffer);
        return;
    case LUA_TBOOLEAN:
        luaL_addchar(buffer, lua_toboolean(L, value) ? '1' : '0');
        return;
    case LUA_TNUMBER:
        if (lua_isinteger(L, value)) {
            snprintf(number, sizeof number, "%lld", (long long)lua_tointeger(L, value));
        } else if (isfinite(lua_tonumber(L, value))) {
            snprintf(number, sizeof number, "%.17g", lua_tonumber(L, value));
            if (!strpbrk(number, ".e")) {
                strcat(number, ".0");
            }
        } else {
            luaL_error(L, "fill: %s: the value of '%s' is not finite", origin, name);
        }
        luaL_addstring(buffer, number);
        return;
    default:
        luaL_error(L, "fill: %s: the value of '%s' is a %s; text, a number or a boolean is needed", origin, name,
                   luaL_typename(L, value));
    }
}

/* fill(text, values): stack 1 text, 2 values, 3 names used, 4 origin; slot 5 takes the value of the hole at hand. */
static int fill_function(lua_State *L) {
    size_t length;
    const char *text = luaL_checklstring(L, 1, &length);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    sandbox_charge(L, (int64_t)length / 16 + 1);
    lua_newtable(L);
    push_table(L, &texts_key);
    lua_pushvalue(L, 1);
    lua_rawget(L, -2);
    lua_remove(L, -2);
    if (lua_isnil(L, 4)) {
        lua_pop(L, 1);
        lua_pushliteral(L, "the text");
    }
    const char *origin = lua_tostring(L, 4);
    lua_pushnil(L);

    luaL_Buffer buffer;
    luaL_buffinit(L, &buffer);
    const char *end = text + length;
    for (const char *hole; (hole = strstr(text, "${"));) {
        char name[64];
        const char *close = memchr(hole, '}', (size_t)(end - hole));
        size_t size = close ? (size_t)(close - hole - 2) : 0;
        if (!close || size == 0 || size >= sizeof name || strcspn(hole + 2, "\n}") != size) {
            return luaL_error(L, "fill: %s: '${' without a name and '}' in the same line", origin);
        }
        memcpy(name, hole + 2, size);
        name[size] = '\0';
        if (!values_is_name(name)) {
            return luaL_error(L, "fill: %s: '${%s}' is no name", origin, name);
        }
        luaL_addlstring(&buffer, text, (size_t)(hole - text));
        lua_pushstring(L, name);
        lua_pushvalue(L, -1);
        lua_rawget(L, 2);
        if (lua_isnil(L, -1)) {
            return luaL_error(L, "fill: %s: no value for '${%s}'", origin, name);
        }
        lua_replace(L, 5);
        lua_pushboolean(L, 1);
        lua_rawset(L, 3);
        add_value(L, &buffer, 5, origin, name);
        text = close + 1;
    }
    luaL_addlstring(&buffer, text, (size_t)(end - text));
    luaL_pushresult(&buffer);
    lua_pushnil(L);
    while (lua_next(L, 2)) {
        lua_pop(L, 1);
        lua_pushvalue(L, -1);
        if (lua_rawget(L, 3) == LUA_TNIL) {
            lua_pop(L, 1);
            return luaL_error(L, "fill: %s: has no hole for the value '%s'", origin, luaL_tolstring(L, -1, NULL));
        }
        lua_pop(L, 1);
    }
    return 1;
}

void script_register(lua_State *L) {
    sandbox_register(L, "text", text_function);
    sandbox_register(L, "import", import_function);
    sandbox_register(L, "fill", fill_function);
}

/* upvalues: fields, label, names used or nil */
static int sealed_index(lua_State *L) {
    lua_settop(L, 2);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) == LUA_TNIL) {
        return luaL_error(L, "%s has no field '%s'", lua_tostring(L, lua_upvalueindex(2)), luaL_tolstring(L, 2, NULL));
    }
    if (lua_istable(L, lua_upvalueindex(3))) {
        lua_pushvalue(L, 2);
        lua_pushboolean(L, 1);
        lua_rawset(L, lua_upvalueindex(3));
    }
    return 1;
}

static int sealed_newindex(lua_State *L) {
    return luaL_error(L, "%s cannot be written (field '%s')", lua_tostring(L, lua_upvalueindex(1)),
                      luaL_tolstring(L, 2, NULL));
}

void script_seal(lua_State *L, const char *label, int used) {
    used = used ? lua_absindex(L, used) : 0;
    int fields = lua_gettop(L);
    lua_newtable(L);
    lua_newtable(L);
    lua_pushvalue(L, fields);
    lua_pushstring(L, label);
    if (used) {
        lua_pushvalue(L, used);
    } else {
        lua_pushnil(L);
    }
    lua_pushcclosure(L, sealed_index, 3);
    lua_setfield(L, -2, "__index");
    lua_pushstring(L, label);
    lua_pushcclosure(L, sealed_newindex, 1);
    lua_setfield(L, -2, "__newindex");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
    lua_remove(L, fields);
}
