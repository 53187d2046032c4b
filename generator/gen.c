#include "gen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "script.h"

static void register_functions(lua_State *L, void *data) {
    (void)data;
    script_register(L);
}

static json_t *make_roles(void) {
    json_t *roles = json_object();
    int failed = 0;
#define ROLE(name, doc) failed |= json_object_set_new(roles, #name, json_string(doc));
#include "roles.def"
#undef ROLE
    if (failed) {
        json_decref(roles);
        return NULL;
    }
    return roles;
}

mlpbwd_status gen_open(const char *const *folders, size_t count, const gen_limits *limits, gen **out,
                       mlp_message *why) {
    *out = NULL;
    gen *generator = calloc(1, sizeof *generator);
    if (!generator) {
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory for the generator");
    }
    generator->roles = make_roles();
    generator->archs = json_object();
    generator->kernels = json_object();
    generator->pipelines = json_object();
    generator->parameters = json_object();
    generator->checked = json_object();
    mlpbwd_status status = files_read(folders, count, &generator->files, why);
    if (status == MLPBWD_OK) {
        status = sandbox_create(limits, generator, &generator->box, why);
    }
    if (status == MLPBWD_OK) {
        status = sandbox_run(generator->box, register_functions, NULL, why);
    }
    if (status == MLPBWD_OK) {
        status = arch_load_all(generator, why);
    }
    if (status == MLPBWD_OK) {
        status = kernel_load_all(generator, why);
    }
    if (status == MLPBWD_OK) {
        status = pipeline_load_all(generator, why);
    }
    if (status != MLPBWD_OK) {
        gen_close(generator);
        return status;
    }
    *out = generator;
    return MLPBWD_OK;
}

void gen_close(gen *generator) {
    if (!generator) {
        return;
    }
    sandbox_destroy(generator->box);
    files_free(&generator->files);
    json_decref(generator->features);
    json_decref(generator->roles);
    json_decref(generator->archs);
    json_decref(generator->kernels);
    json_decref(generator->pipelines);
    json_decref(generator->parameters);
    json_decref(generator->checked);
    free(generator);
}

const char *gen_templates_hash(const gen *generator) {
    return generator->files.hash;
}

json_t *gen_describe_archs(gen *generator) {
    return values_sorted(generator->archs);
}

/* The fields of every template whose values are not functions; in a list of tables too. */
static json_t *without_functions(const json_t *value) {
    json_t *copy = json_is_object(value) ? json_object() : json_is_array(value) ? json_array() : NULL;
    const char *key;
    json_t *item;
    if (!copy) {
        return json_incref((json_t *)value);
    }
    json_object_foreach((json_t *)value, key, item) {
        if (!json_is_null(item) && json_object_set_new(copy, key, without_functions(item)) != 0) {
            json_decref(copy);
            return NULL;
        }
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (json_array_append_new(copy, without_functions(json_array_get(value, i))) != 0) {
            json_decref(copy);
            return NULL;
        }
    }
    return copy;
}

json_t *gen_describe_kernels(gen *generator) {
    return without_functions(generator->kernels);
}

json_t *gen_describe_pipelines(gen *generator) {
    json_t *all = json_object();
    const char *name;
    json_t *fields;
    json_object_foreach(generator->pipelines, name, fields) {
        json_t *slots = json_array(), *steps = json_object_get(fields, "steps");
        for (size_t i = 0; i < json_array_size(steps); i++) {
            const json_t *step = json_array_get(steps, i), *kernel = json_object_get(step, "kernel");
            json_t *slot =
                json_pack("{s:O, s:O}", "role", json_object_get(step, "role"), "slot", json_object_get(step, "slot"));
            if (kernel) {
                json_object_set(slot, "kernel", (json_t *)kernel);
            }
            json_array_append_new(slots, slot);
        }
        json_object_set_new(all, name,
                            json_pack("{s:O, s:O, s:O, s:O, s:o}", "accuracies", json_object_get(fields, "accuracies"),
                                      "doc", json_object_get(fields, "doc"), "needs", json_object_get(fields, "needs"),
                                      "rank", json_object_get(fields, "rank"), "slots", slots));
    }
    return all;
}
