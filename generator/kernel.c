#include <stdio.h>
#include <string.h>

#include "gen.h"
#include "script.h"

static const field_rule kernel_rules[] = {
    {"name", FIELD_TEXT | FIELD_REQUIRED},
    {"doc", FIELD_TEXT | FIELD_REQUIRED},
    {"roles", FIELD_LIST | FIELD_REQUIRED},
    {"needs", FIELD_LIST},
    {"accuracies", FIELD_LIST | FIELD_REQUIRED},
    {"rank", FIELD_INTEGER},
    {"operands", FIELD_FUNCTION | FIELD_REQUIRED},
    {"params", FIELD_LIST | FIELD_REQUIRED},
    {"valid", FIELD_FUNCTION | FIELD_REQUIRED},
    {"prune", FIELD_FUNCTION},
    {"tile", FIELD_FUNCTION},
    {"workspace", FIELD_FUNCTION},
    {"source", FIELD_FUNCTION | FIELD_REQUIRED},
    {"launches", FIELD_FUNCTION | FIELD_REQUIRED},
};
static const field_rule param_rules[] = {
    {"name", FIELD_TEXT | FIELD_REQUIRED},
    {"doc", FIELD_TEXT | FIELD_REQUIRED},
    {"values", FIELD_LIST | FIELD_FUNCTION | FIELD_REQUIRED},
    {"default", FIELD_TEXT | FIELD_INTEGER | FIELD_BOOLEAN | FIELD_FUNCTION | FIELD_REQUIRED},
    {"roles", FIELD_LIST},
};

static mlpbwd_status check_params(const json_t *fields, const char *path, const json_t *roles, mlp_message *why) {
    const json_t *params = json_object_get(fields, "params");
    mlpbwd_status status = MLPBWD_OK;
    for (size_t i = 0; i < json_array_size(params) && status == MLPBWD_OK; i++) {
        const json_t *param = json_array_get(params, i);
        char label[256];
        snprintf(label, sizeof label, "%s: params[%zu]", path, i + 1);
        status = values_check(param, label, param_rules, sizeof param_rules / sizeof *param_rules, why);
        const char *name = json_string_value(json_object_get(param, "name"));
        if (status == MLPBWD_OK && (!values_is_name(name) || strcmp(name, "kernel") == 0)) {
            status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: '%s' is no name for a parameter", label, name);
        }
        for (size_t k = 0; k < i && status == MLPBWD_OK; k++) {
            if (strcmp(json_string_value(json_object_get(json_array_get(params, k), "name")), name) == 0) {
                status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: the parameter '%s' is listed twice", label, name);
            }
        }
        if (status == MLPBWD_OK) {
            status = values_check_names(json_object_get(param, "roles"), label, roles, why);
        }
    }
    return status;
}

static mlpbwd_status check_kernel(const gen *generator, const char *path, const char *name, json_t *fields,
                                  mlp_message *why) {
    char label[256];
    mlpbwd_status status = values_check(fields, path, kernel_rules, sizeof kernel_rules / sizeof *kernel_rules, why);
    if (status == MLPBWD_OK && strcmp(json_string_value(json_object_get(fields, "name")), name) != 0) {
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: its name is '%s', not the file's", path,
                          json_string_value(json_object_get(fields, "name")));
    }
    if (status == MLPBWD_OK) {
        snprintf(label, sizeof label, "%s: roles", path);
        status = values_check_names(json_object_get(fields, "roles"), label, generator->roles, why);
    }
    if (status == MLPBWD_OK) {
        snprintf(label, sizeof label, "%s: needs", path);
        status = values_check_names(json_object_get(fields, "needs"), label, generator->features, why);
    }
    if (status == MLPBWD_OK) {
        snprintf(label, sizeof label, "%s: accuracies", path);
        status = values_check_accuracies(json_object_get(fields, "accuracies"), label, why);
    }
    return status == MLPBWD_OK ? check_params(fields, path, generator->roles, why) : status;
}

static mlpbwd_status load_kernel(gen *generator, const char *path, const char *name, mlp_message *why) {
    json_t *fields = NULL;
    mlpbwd_status status = template_load(generator, path, &fields, why);
    if (status == MLPBWD_OK) {
        status = check_kernel(generator, path, name, fields, why);
    }
    if (status == MLPBWD_OK) {
        status = template_keep(fields, path, name, generator->kernels, why);
    }
    json_decref(fields);
    return status;
}

mlpbwd_status kernel_load_all(gen *generator, mlp_message *why) {
    return template_each(generator, "kernels", load_kernel, why);
}

mlpbwd_status kernel_use_init(kernel_use *use, gen *generator, const char *kernel, const char *role,
                              const gen_target *target, mlp_message *why) {
    char text[512];
    *use = (kernel_use){.generator = generator, .kernel = kernel, .role = role, .target = target};
    mlpbwd_status status = arch_find(generator, target, &use->arch, why);
    if (status != MLPBWD_OK) {
        return status;
    }
    use->fields = kernel ? json_object_get(generator->kernels, kernel) : NULL;
    if (!use->fields) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "there is no kernel '%s'; there are: %s", kernel ? kernel : "",
                        template_names(generator->kernels, text, sizeof text));
    }
    if (!role || !values_list_has(json_object_get(use->fields, "roles"), role)) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "kernel %s does not have the role '%s'; its roles: %s", kernel,
                        role ? role : "", values_text(json_object_get(use->fields, "roles"), text, sizeof text));
    }
    const char *refusal = arch_refuses(use->arch, target->accuracy, json_object_get(use->fields, "needs"),
                                       json_object_get(use->fields, "accuracies"), text, sizeof text);
    return refusal ? mlp_fail(why, MLPBWD_UNSUPPORTED, "kernel %s %s", kernel, refusal) : MLPBWD_OK;
}

/* ---- calling a kernel's functions ---- */

struct call {
    const kernel_use *use;
    const kernel_request *request;
    json_t *result, *reason;
    mlp_message why;
};

static void push_scalars(lua_State *L, const json_t *object) {
    const char *key;
    json_t *value;
    lua_createtable(L, 0, (int)json_object_size(object));
    json_object_foreach((json_t *)object, key, value) {
        if (json_is_object(value) || json_is_array(value)) {
            continue;
        }
        values_push(L, value);
        lua_setfield(L, -2, key);
    }
}

/* c.arch; made once per architecture, since enumerating calls a kernel thousands of times. */
static void push_arch(lua_State *L, const kernel_use *use) {
    static const char *const tables[] = {"features", "limits", "rates"};
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, use->arch) == LUA_TTABLE) {
        return;
    }
    lua_pop(L, 1);
    push_scalars(L, use->arch);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        char label[32];
        snprintf(label, sizeof label, "c.arch.%s", tables[i]);
        push_scalars(L, json_object_get(use->arch, tables[i]));
        script_seal(L, label, 0);
        lua_setfield(L, -2, tables[i]);
    }
    script_seal(L, "c.arch", 0);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, use->arch);
}

/* c: role, accuracy, arch and p, all read by name only. used: index of the table that notes what is read of p. */
static void push_context(lua_State *L, const kernel_use *use, const json_t *parameters, int used) {
    lua_createtable(L, 0, 4);
    lua_pushstring(L, use->role);
    lua_setfield(L, -2, "role");
    lua_pushstring(L, accuracy_name(use->target->accuracy));
    lua_setfield(L, -2, "accuracy");
    push_arch(L, use);
    lua_setfield(L, -2, "arch");
    push_scalars(L, parameters);
    script_seal(L, parameters ? "c.p" : "c.p (not known here: only role, accuracy and arch are)", used);
    lua_setfield(L, -2, "p");
    script_seal(L, "c", 0);
}

static void push_problem(lua_State *L, const gen_problem *problem) {
    lua_createtable(L, 0, 4);
    lua_pushinteger(L, problem->tokens);
    lua_setfield(L, -2, "T");
    lua_pushinteger(L, problem->hidden_size);
    lua_setfield(L, -2, "H");
    lua_pushinteger(L, problem->intermediate_size);
    lua_setfield(L, -2, "I");
    lua_pushinteger(L, problem->units);
    lua_setfield(L, -2, "units");
    script_seal(L, "problem", 0);
}

static void note_reads(lua_State *L, int used, json_t *reads) {
    lua_pushnil(L);
    while (lua_next(L, used)) {
        if (lua_type(L, -2) == LUA_TSTRING && json_object_set_new(reads, lua_tostring(L, -2), json_true()) != 0) {
            sandbox_fail(L, MLPBWD_OUT_OF_MEMORY, "out of memory");
        }
        lua_pop(L, 1);
    }
}

static void call_body(lua_State *L, void *data) {
    struct call *call = data;
    const kernel_request *request = call->request;
    char path[192];
    snprintf(path, sizeof path, "kernels/%s.lua", call->use->kernel);
    lua_newtable(L);
    int used = lua_gettop(L);
    script_import(L, path);
    if (request->index >= 0) {
        lua_getfield(L, -1, "params");
        lua_rawgeti(L, -1, request->index + 1);
    }
    lua_getfield(L, -1, request->member);
    push_context(L, call->use, request->parameters, used);
    if (request->problem) {
        push_problem(L, request->problem);
    }
    sandbox_call(L, request->problem ? 2 : 1, 2);
    if (lua_isnil(L, -2)) {
        sandbox_fail(L, MLPBWD_INVALID_ARGUMENT, "%s: %s(c) returns nothing", path, request->member);
    }
    call->result = values_from_lua(L, -2, &call->why);
    if (!call->result) {
        sandbox_fail(L, MLPBWD_INVALID_ARGUMENT, "%s: %s(c): %s", path, request->member, call->why.text);
    }
    if (lua_type(L, -1) == LUA_TSTRING) {
        call->reason = values_from_lua(L, -1, &call->why);
    }
    if (request->reads) {
        note_reads(L, used, request->reads);
    }
}

mlpbwd_status kernel_call(const kernel_use *use, const kernel_request *request, json_t **result, json_t **reason,
                          mlp_message *why) {
    struct call call = {.use = use, .request = request};
    mlpbwd_status status = sandbox_run(use->generator->box, call_body, &call, why);
    if (status != MLPBWD_OK) {
        mlp_prefix(why, "kernel %s, role %s, %s, %s", use->kernel, use->role, use->target->arch,
                   accuracy_name(use->target->accuracy));
        json_decref(call.result);
        call.result = NULL;
    }
    *result = call.result;
    if (reason && status == MLPBWD_OK) {
        *reason = call.reason;
    } else {
        json_decref(call.reason);
    }
    return status;
}
