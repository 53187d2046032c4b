#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen.h"

static bool is_scalar(const json_t *value) {
    return json_is_integer(value) || json_is_boolean(value) || json_is_string(value);
}

static bool list_has(const json_t *values, const json_t *value) {
    for (size_t i = 0; i < json_array_size(values); i++) {
        if (json_equal(json_array_get(values, i), (json_t *)value)) {
            return true;
        }
    }
    return false;
}

/* One parameter's values and default, from its constants or its functions. */
static mlpbwd_status resolve(const kernel_use *use, size_t index, const json_t *param, json_t *list, mlp_message *why) {
    const char *name = json_string_value(json_object_get(param, "name"));
    json_t *values = json_incref(json_object_get(param, "values"));
    json_t *standard = json_incref(json_object_get(param, "default"));
    mlpbwd_status status = MLPBWD_OK;
    if (json_is_null(values)) {
        kernel_request request = {.member = "values", .index = (int)index};
        status = kernel_call(use, &request, &values, NULL, why);
    }
    if (status == MLPBWD_OK && json_is_null(standard)) {
        kernel_request request = {.member = "default", .index = (int)index};
        status = kernel_call(use, &request, &standard, NULL, why);
    }
    if (status == MLPBWD_OK && (!json_is_array(values) || json_array_size(values) == 0)) {
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                          "kernel %s: parameter %s: its values are no list, or an empty one", use->kernel, name);
    }
    for (size_t i = 0; status == MLPBWD_OK && i < json_array_size(values); i++) {
        const json_t *value = json_array_get(values, i);
        char text[64];
        bool twice = false;
        for (size_t k = 0; k < i; k++) {
            twice = twice || json_equal(json_array_get(values, k), (json_t *)value);
        }
        const json_t *first = json_array_get(values, 0);
        bool one_kind = json_typeof(value) == json_typeof(first) || (json_is_boolean(value) && json_is_boolean(first));
        if (!is_scalar(value) || !one_kind) {
            status =
                mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                         "kernel %s: parameter %s: the value %s; integers, booleans or texts, all of one kind, are "
                         "needed",
                         use->kernel, name, values_text(value, text, sizeof text));
        }
        if (status == MLPBWD_OK && twice) {
            status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "kernel %s: parameter %s: lists the value %s twice",
                              use->kernel, name, values_text(value, text, sizeof text));
        }
    }
    if (status == MLPBWD_OK && !list_has(values, standard)) {
        char text[64], all[256];
        status =
            mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "kernel %s: parameter %s: its default %s is not one of %s",
                     use->kernel, name, values_text(standard, text, sizeof text), values_text(values, all, sizeof all));
    }
    if (status == MLPBWD_OK && json_array_append_new(list, json_pack("{s:s, s:O, s:O}", "name", name, "values", values,
                                                                     "default", standard))) {
        status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    }
    json_decref(values);
    json_decref(standard);
    return status;
}

mlpbwd_status parameters_of(const kernel_use *use, const json_t **list, mlp_message *why) {
    char key[512];
    snprintf(key, sizeof key, "%s %s %s %d", use->kernel, use->role, use->target->arch, use->target->accuracy);
    *list = json_object_get(use->generator->parameters, key);
    if (*list) {
        return MLPBWD_OK;
    }
    const json_t *params = json_object_get(use->fields, "params");
    json_t *made = json_array();
    mlpbwd_status status = made ? MLPBWD_OK : mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    for (size_t i = 0; i < json_array_size(params) && status == MLPBWD_OK; i++) {
        const json_t *param = json_array_get(params, i), *roles = json_object_get(param, "roles");
        if (!roles || values_list_has(roles, use->role)) {
            status = resolve(use, i, param, made, why);
        }
    }
    if (status == MLPBWD_OK && json_object_set(use->generator->parameters, key, made) != 0) {
        status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    }
    json_decref(made);
    *list = status == MLPBWD_OK ? json_object_get(use->generator->parameters, key) : NULL;
    return status;
}

mlpbwd_status parameters_complete(const kernel_use *use, const json_t *given, json_t **parameters, mlp_message *why) {
    const json_t *list;
    char text[64], all[512];
    *parameters = NULL;
    mlpbwd_status status = parameters_of(use, &list, why);
    if (status != MLPBWD_OK) {
        return status;
    }
    if (given && !json_is_object(given)) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "kernel %s: parameters must be an object, not %s", use->kernel,
                        values_text(given, text, sizeof text));
    }
    json_t *made = json_object(), *names = json_object();
    for (size_t i = 0; i < json_array_size(list) && status == MLPBWD_OK; i++) {
        const json_t *row = json_array_get(list, i), *values = json_object_get(row, "values");
        const char *name = json_string_value(json_object_get(row, "name"));
        json_t *value = json_object_get(given, name);
        if (value && !list_has(values, value)) {
            status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "kernel %s: parameter %s cannot be %s; it can be one of %s",
                              use->kernel, name, values_text(value, text, sizeof text),
                              values_text(values, all, sizeof all));
        } else if (json_object_set(made, name, value ? value : json_object_get(row, "default")) != 0 ||
                   json_object_set_new(names, name, json_true()) != 0) {
            status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
        }
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)given, key, value) {
        if (status == MLPBWD_OK && strcmp(key, "kernel") != 0 && !json_object_get(names, key)) {
            status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "kernel %s has no parameter '%s' in role %s; it has: %s",
                              use->kernel, key, use->role, template_names(names, all, sizeof all));
        }
    }
    json_decref(names);
    if (status != MLPBWD_OK) {
        json_decref(made);
        made = NULL;
    }
    *parameters = made;
    return status;
}

mlpbwd_status parameters_valid(const kernel_use *use, const json_t *parameters, json_t *reads, json_t **refusal,
                               mlp_message *why) {
    kernel_request request = {.member = "valid", .index = -1, .parameters = parameters, .reads = reads};
    json_t *answer = NULL, *reason = NULL;
    *refusal = NULL;
    mlpbwd_status status = kernel_call(use, &request, &answer, &reason, why);
    if (status == MLPBWD_OK && !json_is_boolean(answer)) {
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                          "kernels/%s.lua: valid(c) must return true, or false and a reason", use->kernel);
    }
    if (status == MLPBWD_OK && json_is_false(answer)) {
        *refusal = reason ? json_incref(reason) : json_string("valid gave no reason");
    }
    json_decref(answer);
    json_decref(reason);
    return status;
}

/* ---- every parameter is read ---- */

static bool all_read(const json_t *list, const json_t *reads, const char **unread) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(list, i), "name"));
        if (!json_object_get(reads, name)) {
            *unread = name;
            return false;
        }
    }
    return true;
}

static mlpbwd_status read_variant(const kernel_use *use, const json_t *given, json_t *reads, mlp_message *why) {
    kernel_variant variant;
    json_t *complete = NULL, *refusal = NULL;
    mlpbwd_status status = parameters_complete(use, given, &complete, why);
    if (status == MLPBWD_OK) {
        status = parameters_valid(use, complete, reads, &refusal, why);
    }
    if (status == MLPBWD_OK && !refusal) {
        status = kernel_variant_make(use, complete, reads, &variant, why);
        if (status == MLPBWD_OK) {
            kernel_variant_free(&variant);
        }
    }
    json_decref(complete);
    json_decref(refusal);
    return status;
}

/* The default, then each other value of each parameter in turn, until every parameter has been read. */
static mlpbwd_status read_target(const kernel_use *use, json_t *reads, const char **unread, mlp_message *why) {
    const json_t *list;
    mlpbwd_status status = parameters_of(use, &list, why);
    if (status == MLPBWD_OK) {
        status = read_variant(use, NULL, reads, why);
    }
    for (size_t i = 0; i < json_array_size(list) && status == MLPBWD_OK; i++) {
        const json_t *row = json_array_get(list, i), *values = json_object_get(row, "values");
        for (size_t k = 0; k < json_array_size(values) && status == MLPBWD_OK && !all_read(list, reads, unread); k++) {
            json_t *given =
                json_pack("{s:O}", json_string_value(json_object_get(row, "name")), json_array_get(values, k));
            status =
                given ? read_variant(use, given, reads, why) : mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
            json_decref(given);
        }
    }
    if (status == MLPBWD_OK && all_read(list, reads, unread)) {
        *unread = NULL;
    }
    return status;
}

mlpbwd_status parameters_check_read(const kernel_use *use, mlp_message *why) {
    char key[384];
    snprintf(key, sizeof key, "%s %s", use->kernel, use->role);
    if (json_object_get(use->generator->checked, key)) {
        return MLPBWD_OK;
    }
    json_t *reads = json_object();
    const char *unread = NULL;
    mlpbwd_status status = read_target(use, reads, &unread, why);
    const char *arch;
    json_t *fields;
    json_object_foreach(use->generator->archs, arch, fields) {
        for (int accuracy = 0; accuracy_name(accuracy) && status == MLPBWD_OK && unread; accuracy++) {
            gen_target target = {arch, accuracy};
            kernel_use other;
            if (kernel_use_init(&other, use->generator, use->kernel, use->role, &target, NULL) == MLPBWD_OK) {
                status = read_target(&other, reads, &unread, why);
            }
        }
    }
    if (status == MLPBWD_OK && unread) {
        status = mlp_fail(
            why, MLPBWD_INVALID_ARGUMENT,
            "kernels/%s.lua: in role %s neither valid, workspace, source nor launches reads the parameter '%s'",
            use->kernel, use->role, unread);
    }
    if (status == MLPBWD_OK && json_object_set_new(use->generator->checked, key, json_true()) != 0) {
        status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    }
    json_decref(reads);
    return status;
}
