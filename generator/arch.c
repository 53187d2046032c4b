#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "gen.h"

static const field_rule arch_rules[] = {
    {"name", FIELD_TEXT | FIELD_REQUIRED},
    {"doc", FIELD_TEXT | FIELD_REQUIRED},
    {"backend", FIELD_TEXT | FIELD_REQUIRED},
    {"compiler", FIELD_TEXT | FIELD_REQUIRED},
    {"target", FIELD_TEXT | FIELD_REQUIRED},
    {"parent", FIELD_TEXT},
    {"compute_capability", FIELD_INTEGER | FIELD_REQUIRED},
    {"ship", FIELD_BOOLEAN | FIELD_REQUIRED},
    {"features", FIELD_TABLE},
    {"limits", FIELD_TABLE},
    {"rates", FIELD_TABLE},
    {"memory_bandwidth", FIELD_NUMBER},
    {"units", FIELD_INTEGER},
    {"l2_bandwidth", FIELD_NUMBER},
    {"l2_bytes", FIELD_NUMBER},
    {"max_clock_mhz", FIELD_NUMBER},
};
static const field_rule limit_rules[] = {
    {"shared_bytes", FIELD_INTEGER | FIELD_REQUIRED},
    {"registers_per_thread", FIELD_INTEGER | FIELD_REQUIRED},
    {"threads_per_block", FIELD_INTEGER | FIELD_REQUIRED},
    {"vector_bytes", FIELD_INTEGER},
};
static const field_rule rate_rules[] = {
    {"tf32", FIELD_NUMBER | FIELD_REQUIRED},
    {"fp32", FIELD_NUMBER | FIELD_REQUIRED},
    {"bf16", FIELD_NUMBER | FIELD_REQUIRED},
};

static mlpbwd_status load_arch(gen *generator, const char *path, const char *name, mlp_message *why) {
    json_t *fields = NULL;
    mlpbwd_status status = template_load(generator, path, &fields, why);
    if (status == MLPBWD_OK) {
        status = values_check(fields, path, arch_rules, sizeof arch_rules / sizeof *arch_rules, why);
    }
    if (status == MLPBWD_OK && strcmp(json_string_value(json_object_get(fields, "name")), name) != 0) {
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: its name is '%s', not the file's", path,
                          json_string_value(json_object_get(fields, "name")));
    }
    const char *backend = json_string_value(json_object_get(fields, "backend"));
    const char *compiler = json_string_value(json_object_get(fields, "compiler"));
    if (status == MLPBWD_OK && strcmp(backend, "cuda") != 0 && strcmp(backend, "host") != 0) {
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: backend '%s' is neither 'cuda' nor 'host'", path, backend);
    }
    if (status == MLPBWD_OK && strcmp(compiler, "nvrtc") != 0 && strcmp(compiler, "cc") != 0) {
        status =
            mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: compiler '%s' is neither 'nvrtc' nor 'cc'", path, compiler);
    }
    const char *feature;
    json_t *value;
    json_object_foreach(json_object_get(fields, "features"), feature, value) {
        if (status == MLPBWD_OK && (!json_object_get(generator->features, feature) || !json_is_boolean(value))) {
            status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                              "%s: feature '%s' must stand in lib/features.lua and be true or false", path, feature);
        }
    }
    if (status == MLPBWD_OK && json_object_set(generator->archs, name, fields) != 0) {
        status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "%s: out of memory", path);
    }
    json_decref(fields);
    return status;
}

/* The first NEEDED ones must be known of every architecture; the others are 0 where nobody states them. */
static const char *const inherited_numbers[] = {"memory_bandwidth", "units", "l2_bandwidth", "l2_bytes",
                                                "max_clock_mhz"};
enum { NEEDED = 2, INHERITED = sizeof inherited_numbers / sizeof *inherited_numbers };

/* Own fields over the parent's; the parent is resolved first. depth bounds a chain that bites its tail. */
static mlpbwd_status inherit(gen *generator, const char *name, size_t depth, mlp_message *why) {
    static const char *const tables[] = {"features", "limits", "rates"};
    json_t *fields = json_object_get(generator->archs, name);
    const char *parent = json_string_value(json_object_get(fields, "parent"));
    if (json_object_get(fields, "resolved")) {
        return MLPBWD_OK;
    }
    if (depth > json_object_size(generator->archs)) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "arch/%s.lua: is its own ancestor", name);
    }
    if (parent && !json_object_get(generator->archs, parent)) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "arch/%s.lua: there is no parent '%s'", name, parent);
    }
    mlpbwd_status status = parent ? inherit(generator, parent, depth + 1, why) : MLPBWD_OK;
    if (status != MLPBWD_OK) {
        return status;
    }
    json_t *from = parent ? json_object_get(generator->archs, parent) : NULL;
    int failed = 0;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const char *key;
        json_t *value, *merged = json_object();
        json_object_foreach(i == 0 ? generator->features : NULL, key, value) {
            failed |= json_object_set_new(merged, key, json_false());
        }
        json_object_foreach(json_object_get(from, tables[i]), key, value) {
            failed |= json_object_set(merged, key, value);
        }
        json_object_foreach(json_object_get(fields, tables[i]), key, value) {
            failed |= json_object_set(merged, key, value);
        }
        failed |= json_object_set_new(fields, tables[i], merged);
    }
    for (size_t i = 0; i < INHERITED; i++) {
        json_t *number = json_object_get(from, inherited_numbers[i]);
        if (json_object_get(fields, inherited_numbers[i])) {
            continue;
        }
        if (number) {
            failed |= json_object_set(fields, inherited_numbers[i], number);
        } else if (i >= NEEDED) {
            failed |= json_object_set_new(fields, inherited_numbers[i], json_integer(0));
        }
    }
    failed |= json_object_set_new(fields, "resolved", json_true());
    return failed ? mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "arch/%s.lua: out of memory", name) : MLPBWD_OK;
}

static mlpbwd_status check_resolved(const char *name, json_t *fields, mlp_message *why) {
    char label[192];
    json_object_del(fields, "resolved");
    snprintf(label, sizeof label, "arch/%s.lua: limits", name);
    mlpbwd_status status = values_check(json_object_get(fields, "limits"), label, limit_rules,
                                        sizeof limit_rules / sizeof *limit_rules, why);
    if (status == MLPBWD_OK) {
        snprintf(label, sizeof label, "arch/%s.lua: rates", name);
        status = values_check(json_object_get(fields, "rates"), label, rate_rules,
                              sizeof rate_rules / sizeof *rate_rules, why);
    }
    for (size_t i = 0; i < INHERITED && status == MLPBWD_OK; i++) {
        if (!json_object_get(fields, inherited_numbers[i])) {
            status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "arch/%s.lua: field '%s' is missing", name,
                              inherited_numbers[i]);
        }
    }
    bool host = strcmp(json_string_value(json_object_get(fields, "backend")), "host") == 0;
    json_int_t units = json_integer_value(json_object_get(fields, "units"));
    if (status == MLPBWD_OK && (units < (host ? 0 : 1) || units > INT_MAX)) {
        status =
            mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                     "arch/%s.lua: units is %lld; it must be a number of multiprocessors, or 0 for \"those of this "
                     "machine\" on a host",
                     name, (long long)units);
    }
    if (status == MLPBWD_OK && host && !json_object_get(json_object_get(fields, "limits"), "vector_bytes")) {
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "arch/%s.lua: limits: field 'vector_bytes' is missing", name);
    }
    return status;
}

mlpbwd_status arch_load_all(gen *generator, mlp_message *why) {
    mlpbwd_status status = template_load(generator, "lib/features.lua", &generator->features, why);
    if (status == MLPBWD_OK) {
        status = template_each(generator, "arch", load_arch, why);
    }
    const char *name;
    json_t *fields;
    json_object_foreach(generator->archs, name, fields) {
        status = status == MLPBWD_OK ? inherit(generator, name, 0, why) : status;
    }
    json_object_foreach(generator->archs, name, fields) {
        status = status == MLPBWD_OK ? check_resolved(name, fields, why) : status;
    }
    return status;
}

mlpbwd_status arch_find(gen *generator, const gen_target *target, const json_t **arch, mlp_message *why) {
    char names[512];
    if (!accuracy_name(target->accuracy)) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "accuracy %d: there are 0 (tf32), 1 (fp32) and 2 (bf16)",
                        target->accuracy);
    }
    *arch = target->arch ? json_object_get(generator->archs, target->arch) : NULL;
    return *arch ? MLPBWD_OK
                 : mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "there is no architecture '%s'; there are: %s",
                            target->arch ? target->arch : "", template_names(generator->archs, names, sizeof names));
}

const char *arch_refuses(const json_t *arch, int accuracy, const json_t *needs, const json_t *accuracies, char *text,
                         size_t capacity) {
    size_t i;
    json_t *need;
    json_array_foreach(needs, i, need) {
        if (!json_is_true(json_object_get(json_object_get(arch, "features"), json_string_value(need)))) {
            snprintf(text, capacity, "needs %s, which %s does not have", json_string_value(need),
                     json_string_value(json_object_get(arch, "name")));
            return text;
        }
    }
    if (!values_list_has(accuracies, accuracy_name(accuracy))) {
        snprintf(text, capacity, "does not serve the accuracy class %s", accuracy_name(accuracy));
        return text;
    }
    return NULL;
}
