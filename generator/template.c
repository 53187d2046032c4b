#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "gen.h"
#include "script.h"

struct load_request {
    const char *path;
    json_t *fields;
    mlp_message why;
};

static int import_path(lua_State *L) {
    script_import(L, lua_tostring(L, 1));
    return 1;
}

static void load_body(lua_State *L, void *data) {
    struct load_request *request = data;
    lua_pushcfunction(L, import_path);
    lua_pushstring(L, request->path);
    sandbox_call(L, 1, 1);
    if (!lua_istable(L, -1)) {
        sandbox_fail(L, MLPBWD_INVALID_ARGUMENT, "%s: returns a %s; a template file returns one table", request->path,
                     luaL_typename(L, -1));
    }
    request->fields = values_from_lua(L, -1, &request->why);
    if (!request->fields) {
        sandbox_fail(L, MLPBWD_INVALID_ARGUMENT, "%s: %s", request->path, request->why.text);
    }
}

mlpbwd_status template_load(gen *generator, const char *path, json_t **fields, mlp_message *why) {
    struct load_request request = {.path = path};
    mlpbwd_status status = sandbox_run(generator->box, load_body, &request, why);
    *fields = request.fields;
    return status;
}

mlpbwd_status template_keep(json_t *fields, const char *path, const char *name, json_t *list, mlp_message *why) {
    if ((!json_object_get(fields, "rank") && json_object_set_new(fields, "rank", json_integer(100)) != 0) ||
        (!json_object_get(fields, "needs") && json_object_set_new(fields, "needs", json_array()) != 0) ||
        json_object_set(list, name, fields) != 0) {
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "%s: out of memory", path);
    }
    return MLPBWD_OK;
}

mlpbwd_status template_each(gen *generator, const char *folder,
                            mlpbwd_status (*visit)(gen *generator, const char *path, const char *name,
                                                   mlp_message *why),
                            mlp_message *why) {
    mlpbwd_status status = MLPBWD_OK;
    size_t prefix = strlen(folder);
    for (size_t i = 0; i < generator->files.count && status == MLPBWD_OK; i++) {
        const char *path = generator->files.items[i].path;
        size_t length = strlen(path);
        char name[128];
        if (strncmp(path, folder, prefix) != 0 || path[prefix] != '/' || strchr(path + prefix + 1, '/') ||
            length < prefix + 6 || strcmp(path + length - 4, ".lua") != 0) {
            continue;
        }
        size_t size = length - prefix - 5;
        if (size >= sizeof name) {
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: the name is longer than %zu letters", path,
                            sizeof name - 1);
        }
        memcpy(name, path + prefix + 1, size);
        name[size] = '\0';
        status = visit(generator, path, name, why);
    }
    return status;
}

const char *template_names(const json_t *object, char *text, size_t capacity) {
    size_t used = 0;
    const char *key;
    json_t *value;
    snprintf(text, capacity, "none");
    json_object_foreach((json_t *)object, key, value) {
        if (used < capacity) {
            used += (size_t)snprintf(text + used, capacity - used, "%s%s", used ? ", " : "", key);
        }
    }
    return text;
}
