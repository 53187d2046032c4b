#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expression.h"
#include "gen.h"

enum { MAX_ARGUMENTS = 64, MAX_PARTS = 16 };

mlpbwd_status expression_text(const json_t *value, const char *label, json_t **text, mlp_message *why) {
    /* Any values do to find bad text; sizes that divide by zero or overflow are found when a plan is made. */
    static const expression_values sample = {
        .T = 256, .H = 2048, .I = 8192, .UNITS = 132, .ACTIVATION = 0, .ACCUMULATE = 0};
    char shown[64];
    int64_t result;
    mlp_message detail;
    *text = NULL;
    if (json_is_integer(value)) {
        snprintf(shown, sizeof shown, "%lld", (long long)json_integer_value(value));
        *text = json_string(shown);
    } else if (json_is_string(value)) {
        if (expression_evaluate(json_string_value(value), &sample, &result, &detail) == MLPBWD_INVALID_ARGUMENT) {
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: %s", label, detail.text);
        }
        *text = json_string(json_string_value(value));
    } else {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: an expression (a text or an integer) is needed, not %s",
                        label, values_text(value, shown, sizeof shown));
    }
    return *text ? MLPBWD_OK : mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
}

static bool is_access(const char *text) {
    return text && (strcmp(text, "in") == 0 || strcmp(text, "out") == 0 || strcmp(text, "inout") == 0);
}

static const json_t *find_named(const json_t *list, const char *name) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *other = json_string_value(json_object_get(json_array_get(list, i), "name"));
        if (other && strcmp(other, name) == 0) {
            return json_array_get(list, i);
        }
    }
    return NULL;
}

/* Result of a function that returns a list of tables; each with a name of its own. */
static mlpbwd_status named_list(const kernel_use *use, const char *member, const json_t *parameters, json_t *reads,
                                const field_rule *rules, size_t count, json_t **list, mlp_message *why) {
    kernel_request request = {.member = member, .index = -1, .parameters = parameters, .reads = reads};
    mlpbwd_status status = kernel_call(use, &request, list, NULL, why);
    if (status == MLPBWD_OK && !json_is_array(*list)) {
        status =
            mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "kernels/%s.lua: %s(c) must return a list", use->kernel, member);
    }
    for (size_t i = 0; status == MLPBWD_OK && i < json_array_size(*list); i++) {
        const json_t *item = json_array_get(*list, i);
        char label[256];
        snprintf(label, sizeof label, "kernels/%s.lua: %s(c)[%zu]", use->kernel, member, i + 1);
        status = values_check(item, label, rules, count, why);
        const char *name = json_string_value(json_object_get(item, "name"));
        if (status == MLPBWD_OK && (!values_is_name(name) || find_named(*list, name) != item)) {
            status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: '%s' is no name or stands there twice", label, name);
        }
    }
    if (status != MLPBWD_OK) {
        json_decref(*list);
        *list = NULL;
    }
    return status;
}

mlpbwd_status kernel_operands(const kernel_use *use, json_t **operands, mlp_message *why) {
    static const field_rule rules[] = {
        {"name", FIELD_TEXT | FIELD_REQUIRED}, {"access", FIELD_TEXT | FIELD_REQUIRED}, {"optional", FIELD_BOOLEAN}};
    mlpbwd_status status = named_list(use, "operands", NULL, NULL, rules, 3, operands, why);
    for (size_t i = 0; status == MLPBWD_OK && i < json_array_size(*operands); i++) {
        const json_t *item = json_array_get(*operands, i);
        const char *access = json_string_value(json_object_get(item, "access"));
        if (!is_access(access)) {
            status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                              "kernels/%s.lua: operand %s: access '%s' is neither in, out nor inout", use->kernel,
                              json_string_value(json_object_get(item, "name")), access);
            json_decref(*operands);
            *operands = NULL;
        }
    }
    return status;
}

static mlpbwd_status make_workspace(const kernel_use *use, kernel_variant *variant, json_t *reads, mlp_message *why) {
    static const field_rule rules[] = {{"name", FIELD_TEXT | FIELD_REQUIRED},
                                       {"size", FIELD_TEXT | FIELD_INTEGER | FIELD_REQUIRED}};
    if (!json_object_get(use->fields, "workspace")) {
        variant->workspace = json_array();
        return variant->workspace ? MLPBWD_OK : mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    }
    mlpbwd_status status = named_list(use, "workspace", variant->parameters, reads, rules, 2, &variant->workspace, why);
    for (size_t i = 0; status == MLPBWD_OK && i < json_array_size(variant->workspace); i++) {
        json_t *item = json_array_get(variant->workspace, i), *size;
        const char *name = json_string_value(json_object_get(item, "name"));
        char label[256];
        snprintf(label, sizeof label, "kernels/%s.lua: workspace %s", use->kernel, name);
        status = expression_text(json_object_get(item, "size"), label, &size, why);
        if (status == MLPBWD_OK && json_object_set_new(item, "size", size) != 0) {
            status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
        }
        if (status == MLPBWD_OK && find_named(variant->operands, name)) {
            status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: is also an operand's name", label);
        }
    }
    return status;
}

/* The map of {name, map}: its numbers become expressions. What they come to is checked where a plan is made. */
static mlpbwd_status make_map(json_t *map, const char *label, mlp_message *why) {
    static const field_rule rules[] = {{"element", FIELD_TEXT | FIELD_REQUIRED},
                                       {"size", FIELD_LIST | FIELD_REQUIRED},
                                       {"stride", FIELD_LIST | FIELD_REQUIRED},
                                       {"box", FIELD_LIST | FIELD_REQUIRED},
                                       {"swizzle", FIELD_INTEGER},
                                       {"l2", FIELD_INTEGER}};
    static const char *const lists[] = {"size", "stride", "box"}, *const defaults[] = {"swizzle", "l2"};
    mlpbwd_status status = values_check(map, label, rules, 6, why);
    for (size_t i = 0; i < 3 && status == MLPBWD_OK; i++) {
        json_t *list = json_object_get(map, lists[i]);
        for (size_t k = 0; k < json_array_size(list) && status == MLPBWD_OK; k++) {
            json_t *text = NULL;
            status = expression_text(json_array_get(list, k), label, &text, why);
            if (status == MLPBWD_OK && json_array_set_new(list, k, text) != 0) {
                status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
            }
        }
    }
    for (size_t i = 0; i < 2 && status == MLPBWD_OK; i++) {
        if (!json_object_get(map, defaults[i]) && json_object_set_new(map, defaults[i], json_integer(0)) != 0) {
            status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
        }
    }
    return status;
}

/* One argument: {name} with its access and part filled in, {i32}, {i64} or {f32}. */
static mlpbwd_status make_argument(const kernel_variant *variant, json_t *argument, const char *label,
                                   mlp_message *why) {
    static const field_rule rules[] = {{"name", FIELD_TEXT},    {"access", FIELD_TEXT},
                                       {"part", FIELD_INTEGER}, {"i32", FIELD_TEXT | FIELD_INTEGER},
                                       {"f32", FIELD_NUMBER},   {"i64", FIELD_TEXT | FIELD_INTEGER},
                                       {"map", FIELD_TABLE}};
    static const char *const kinds[] = {"name", "i32", "i64", "f32"};
    mlpbwd_status status = values_check(argument, label, rules, 7, why);
    if (status != MLPBWD_OK) {
        return status;
    }
    int given = 0;
    for (size_t i = 0; i < 4; i++) {
        given += json_object_get(argument, kinds[i]) != NULL;
    }
    const char *name = json_string_value(json_object_get(argument, "name"));
    if (given != 1 || (!name && json_object_size(argument) != 1)) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "%s: exactly one of name, i32, i64 and f32 is needed; access, part and map go with name",
                        label);
    }
    for (size_t i = 1; i < 3 && !name; i++) {
        json_t *text, *value = json_object_get(argument, kinds[i]);
        if (value) {
            status = expression_text(value, label, &text, why);
            return status == MLPBWD_OK && json_object_set_new(argument, kinds[i], text) != 0
                       ? mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory")
                       : status;
        }
    }
    if (!name) {
        return MLPBWD_OK;
    }
    const json_t *operand = find_named(variant->operands, name);
    if (!operand && !find_named(variant->workspace, name)) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: '%s' is neither an operand nor a workspace buffer", label,
                        name);
    }
    const char *declared = operand ? json_string_value(json_object_get(operand, "access")) : "inout";
    const json_t *access = json_object_get(argument, "access");
    if (access && !is_access(json_string_value(access))) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: access '%s' is neither in, out nor inout", label,
                        json_string_value(access));
    }
    /* An input of the kernel may be a caller's tensor: never written. */
    if (access && strcmp(declared, "in") == 0 && strcmp(json_string_value(access), "in") != 0) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: the operand '%s' is declared as an input", label, name);
    }
    const json_t *part = json_object_get(argument, "part");
    if (part && (json_integer_value(part) < 0 || json_integer_value(part) >= MAX_PARTS)) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: part %lld is not in 0..%d", label,
                        (long long)json_integer_value(part), MAX_PARTS - 1);
    }
    if ((!access && json_object_set_new(argument, "access", json_string(declared)) != 0) ||
        (!part && json_object_set_new(argument, "part", json_integer(1)) != 0)) {
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    }
    json_t *map = json_object_get(argument, "map");
    return map ? make_map(map, label, why) : MLPBWD_OK;
}

/* Grid: expressions; block: positive integers. Both padded to three. */
static mlpbwd_status make_extents(json_t *launch, const char *key, bool expressions, int64_t most, const char *label,
                                  mlp_message *why) {
    const json_t *given = json_object_get(launch, key);
    size_t count = json_array_size(given);
    int64_t product = 1;
    if (count < 1 || count > 3) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: %s must have one to three entries", label, key);
    }
    json_t *made = json_array();
    mlpbwd_status status = MLPBWD_OK;
    for (size_t i = 0; i < 3 && status == MLPBWD_OK; i++) {
        const json_t *value = json_array_get(given, i);
        json_t *item = NULL;
        if (expressions) {
            if (value) {
                status = expression_text(value, label, &item, why);
            } else {
                item = json_string("1");
            }
        } else if (!value ||
                   (json_is_integer(value) && json_integer_value(value) > 0 && json_integer_value(value) <= most)) {
            product *= value ? json_integer_value(value) : 1;
            item = json_integer(value ? json_integer_value(value) : 1);
        } else {
            char text[64];
            status =
                mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: %s has the entry %s; integers from 1 to %lld are needed",
                         label, key, values_text(value, text, sizeof text), (long long)most);
        }
        if (status == MLPBWD_OK && json_array_append_new(made, item) != 0) {
            status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
        }
    }
    if (status == MLPBWD_OK && !expressions && product > most) {
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: %lld threads, but the architecture allows %lld", label,
                          (long long)product, (long long)most);
    }
    if (status != MLPBWD_OK || json_object_set(launch, key, made) != 0) {
        json_decref(made);
        return status == MLPBWD_OK ? mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory") : status;
    }
    json_decref(made);
    return MLPBWD_OK;
}

static mlpbwd_status make_launch(const kernel_use *use, const kernel_variant *variant, json_t *launch, size_t index,
                                 mlp_message *why) {
    static const field_rule rules[] = {{"entry", FIELD_TEXT | FIELD_REQUIRED},
                                       {"grid", FIELD_LIST | FIELD_REQUIRED},
                                       {"block", FIELD_LIST | FIELD_REQUIRED},
                                       {"shared", FIELD_TEXT | FIELD_INTEGER},
                                       {"args", FIELD_LIST | FIELD_REQUIRED}};
    char label[256];
    snprintf(label, sizeof label, "kernels/%s.lua: launches(c)[%zu]", use->kernel, index + 1);
    mlpbwd_status status = values_check(launch, label, rules, 5, why);
    if (status == MLPBWD_OK && !values_is_name(json_string_value(json_object_get(launch, "entry")))) {
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: entry '%s' is no name", label,
                          json_string_value(json_object_get(launch, "entry")));
    }
    int64_t threads = json_integer_value(json_object_get(json_object_get(use->arch, "limits"), "threads_per_block"));
    if (status == MLPBWD_OK) {
        status = make_extents(launch, "grid", true, 0, label, why);
    }
    if (status == MLPBWD_OK) {
        status = make_extents(launch, "block", false, threads, label, why);
    }
    if (status == MLPBWD_OK) {
        json_t *shared = json_object_get(launch, "shared"), *text = NULL;
        if (shared) {
            status = expression_text(shared, label, &text, why);
        } else {
            text = json_string("0");
        }
        if (status == MLPBWD_OK && json_object_set_new(launch, "shared", text) != 0) {
            status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
        }
    }
    const json_t *arguments = json_object_get(launch, "args");
    if (status == MLPBWD_OK && json_array_size(arguments) > MAX_ARGUMENTS) {
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: more than %d arguments", label, MAX_ARGUMENTS);
    }
    for (size_t i = 0; status == MLPBWD_OK && i < json_array_size(arguments); i++) {
        char argument_label[320];
        snprintf(argument_label, sizeof argument_label, "%s: args[%zu]", label, i + 1);
        status = make_argument(variant, json_array_get(arguments, i), argument_label, why);
    }
    return status;
}

static mlpbwd_status make_launches(const kernel_use *use, kernel_variant *variant, json_t *reads, mlp_message *why) {
    kernel_request request = {.member = "launches", .index = -1, .parameters = variant->parameters, .reads = reads};
    mlpbwd_status status = kernel_call(use, &request, &variant->launches, NULL, why);
    if (status == MLPBWD_OK && json_array_size(variant->launches) == 0) {
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "kernels/%s.lua: launches(c) must return a list of launches",
                          use->kernel);
    }
    for (size_t i = 0; status == MLPBWD_OK && i < json_array_size(variant->launches); i++) {
        /* A table that the script uses twice is one table in Lua, but converted separately: safe to change here. */
        status = make_launch(use, variant, json_array_get(variant->launches, i), i, why);
    }
    return status;
}

static mlpbwd_status make_source(const kernel_use *use, kernel_variant *variant, json_t *reads, mlp_message *why) {
    kernel_request request = {.member = "source", .index = -1, .parameters = variant->parameters, .reads = reads};
    json_t *text = NULL;
    mlpbwd_status status = kernel_call(use, &request, &text, NULL, why);
    if (status == MLPBWD_OK && !json_is_string(text)) {
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "kernels/%s.lua: source(c) must return a text", use->kernel);
    }
    if (status == MLPBWD_OK && !(variant->source = strdup(json_string_value(text)))) {
        status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    }
    json_decref(text);
    return status;
}

mlpbwd_status kernel_variant_make(const kernel_use *use, const json_t *given, json_t *reads, kernel_variant *variant,
                                  mlp_message *why) {
    json_t *refusal = NULL;
    *variant = (kernel_variant){0};
    mlpbwd_status status = parameters_complete(use, given, &variant->parameters, why);
    if (status == MLPBWD_OK) {
        status = parameters_valid(use, variant->parameters, reads, &refusal, why);
    }
    if (refusal) {
        char text[512];
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "kernel %s, role %s, %s: the parameters %s are not valid: %s",
                          use->kernel, use->role, use->target->arch,
                          values_text(variant->parameters, text, sizeof text), json_string_value(refusal));
        json_decref(refusal);
    }
    if (status == MLPBWD_OK) {
        status = kernel_operands(use, &variant->operands, why);
    }
    if (status == MLPBWD_OK) {
        status = make_workspace(use, variant, reads, why);
    }
    if (status == MLPBWD_OK) {
        status = make_source(use, variant, reads, why);
    }
    if (status == MLPBWD_OK) {
        status = make_launches(use, variant, reads, why);
    }
    if (status != MLPBWD_OK) {
        kernel_variant_free(variant);
    }
    return status;
}

void kernel_variant_free(kernel_variant *variant) {
    json_decref(variant->parameters);
    json_decref(variant->operands);
    json_decref(variant->workspace);
    json_decref(variant->launches);
    free(variant->source);
    *variant = (kernel_variant){0};
}
