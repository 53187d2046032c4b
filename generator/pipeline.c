#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen.h"
#include "plan_tensors.h"

enum { MAX_STREAMS = 8 };

static const field_rule pipeline_rules[] = {
    {"name", FIELD_TEXT | FIELD_REQUIRED},
    {"doc", FIELD_TEXT | FIELD_REQUIRED},
    {"needs", FIELD_LIST},
    {"accuracies", FIELD_LIST | FIELD_REQUIRED},
    {"rank", FIELD_INTEGER},
    {"buffers", FIELD_LIST},
    {"steps", FIELD_LIST | FIELD_REQUIRED},
};
static const field_rule buffer_rules[] = {{"name", FIELD_TEXT | FIELD_REQUIRED},
                                          {"size", FIELD_TEXT | FIELD_INTEGER | FIELD_REQUIRED}};
static const field_rule step_rules[] = {
    {"slot", FIELD_TEXT | FIELD_REQUIRED},
    {"role", FIELD_TEXT | FIELD_REQUIRED},
    {"kernel", FIELD_TEXT},
    {"bind", FIELD_TABLE | FIELD_REQUIRED},
    {"stream", FIELD_INTEGER},
    {"after", FIELD_LIST},
};

char pipeline_tensor(const char *name) {
    size_t tensor = plan_tensor_find(name);
    if (tensor >= TENSOR_COUNT || strcmp(name, "bias1") == 0 || strcmp(name, "bias2") == 0) {
        return 0; /* the biases are part of the signature only and may be NULL */
    }
    return tensor < TENSOR_INPUTS ? 'i' : 'o';
}

static const char *text_of(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static mlpbwd_status check_buffers(const json_t *fields, const char *path, json_t *names, mlp_message *why) {
    const json_t *buffers = json_object_get(fields, "buffers");
    mlpbwd_status status = MLPBWD_OK;
    for (size_t i = 0; i < json_array_size(buffers) && status == MLPBWD_OK; i++) {
        json_t *buffer = json_array_get(buffers, i), *size = NULL;
        char label[256];
        snprintf(label, sizeof label, "%s: buffers[%zu]", path, i + 1);
        status = values_check(buffer, label, buffer_rules, 2, why);
        if (status != MLPBWD_OK) {
            break;
        }
        const char *name = text_of(buffer, "name");
        if (!values_is_name(name) || plan_tensor_find(name) < TENSOR_COUNT || json_object_get(names, name)) {
            status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: '%s' is no name, a tensor's name or listed twice",
                              label, name);
        } else {
            status = expression_text(json_object_get(buffer, "size"), label, &size, why);
        }
        if (status == MLPBWD_OK && (json_object_set_new(buffer, "size", size) != 0 ||
                                    json_object_set_new(names, name, json_integer(0)) != 0)) {
            status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
        }
    }
    return status;
}

/* names: buffers -> how often bound; slots: those of earlier steps. */
static mlpbwd_status check_step(const gen *generator, const json_t *step, const char *label, json_t *names,
                                json_t *slots, mlp_message *why) {
    mlpbwd_status status = values_check(step, label, step_rules, sizeof step_rules / sizeof *step_rules, why);
    if (status != MLPBWD_OK) {
        return status;
    }
    const char *slot = text_of(step, "slot"), *role = text_of(step, "role"), *kernel = text_of(step, "kernel");
    if (!values_is_name(slot) || json_object_get(slots, slot)) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: the slot '%s' is no name or stands there twice", label,
                        slot);
    }
    if (!json_object_get(generator->roles, role)) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: there is no role '%s' in roles.def", label, role);
    }
    const json_t *fields = kernel ? json_object_get(generator->kernels, kernel) : NULL;
    if (kernel && (!fields || !values_list_has(json_object_get(fields, "roles"), role))) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: there is no kernel '%s' with the role %s", label, kernel,
                        role);
    }
    const json_t *stream = json_object_get(step, "stream");
    if (stream && (json_integer_value(stream) < 0 || json_integer_value(stream) >= MAX_STREAMS)) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: stream %lld is not in 0..%d", label,
                        (long long)json_integer_value(stream), MAX_STREAMS - 1);
    }
    const char *operand;
    json_t *bound;
    json_object_foreach(json_object_get(step, "bind"), operand, bound) {
        const char *name = json_string_value(bound);
        json_t *uses = name ? json_object_get(names, name) : NULL;
        if (!name || (!uses && !pipeline_tensor(name))) {
            char text[64];
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                            "%s: operand %s is bound to %s, which is no tensor and no buffer", label, operand,
                            values_text(bound, text, sizeof text));
        }
        if (uses) {
            json_integer_set(uses, json_integer_value(uses) + 1);
        }
    }
    size_t i;
    json_t *earlier;
    json_array_foreach(json_object_get(step, "after"), i, earlier) {
        if (!json_is_string(earlier) || !json_object_get(slots, json_string_value(earlier))) {
            char text[64];
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: after names %s, which is no earlier slot", label,
                            values_text(earlier, text, sizeof text));
        }
    }
    return json_object_set_new(slots, slot, json_true()) == 0 ? MLPBWD_OK
                                                              : mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
}

static mlpbwd_status check_pipeline(const gen *generator, const char *path, const char *name, json_t *fields,
                                    mlp_message *why) {
    char label[256];
    mlpbwd_status status =
        values_check(fields, path, pipeline_rules, sizeof pipeline_rules / sizeof *pipeline_rules, why);
    if (status == MLPBWD_OK && strcmp(text_of(fields, "name"), name) != 0) {
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: its name is '%s', not the file's", path,
                          text_of(fields, "name"));
    }
    if (status == MLPBWD_OK) {
        snprintf(label, sizeof label, "%s: needs", path);
        status = values_check_names(json_object_get(fields, "needs"), label, generator->features, why);
    }
    if (status == MLPBWD_OK) {
        snprintf(label, sizeof label, "%s: accuracies", path);
        status = values_check_accuracies(json_object_get(fields, "accuracies"), label, why);
    }
    json_t *names = json_object(), *slots = json_object();
    if (status == MLPBWD_OK) {
        status = check_buffers(fields, path, names, why);
    }
    const json_t *steps = json_object_get(fields, "steps");
    for (size_t i = 0; i < json_array_size(steps) && status == MLPBWD_OK; i++) {
        snprintf(label, sizeof label, "%s: steps[%zu]", path, i + 1);
        status = check_step(generator, json_array_get(steps, i), label, names, slots, why);
    }
    const char *buffer;
    json_t *uses;
    json_object_foreach(names, buffer, uses) {
        if (status == MLPBWD_OK && json_integer_value(uses) == 0) {
            status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: no step binds the buffer '%s'", path, buffer);
        }
    }
    json_decref(names);
    json_decref(slots);
    return status;
}

static mlpbwd_status load_pipeline(gen *generator, const char *path, const char *name, mlp_message *why) {
    json_t *fields = NULL;
    mlpbwd_status status = template_load(generator, path, &fields, why);
    if (status == MLPBWD_OK) {
        status = check_pipeline(generator, path, name, fields, why);
    }
    if (status == MLPBWD_OK) {
        status = template_keep(fields, path, name, generator->pipelines, why);
    }
    json_decref(fields);
    return status;
}

mlpbwd_status pipeline_load_all(gen *generator, mlp_message *why) {
    return template_each(generator, "pipelines", load_pipeline, why);
}

mlpbwd_status pipeline_find(gen *generator, const char *pipeline, const gen_target *target, const json_t **fields,
                            mlp_message *why) {
    char text[512];
    const json_t *arch;
    mlpbwd_status status = arch_find(generator, target, &arch, why);
    if (status != MLPBWD_OK) {
        return status;
    }
    *fields = pipeline ? json_object_get(generator->pipelines, pipeline) : NULL;
    if (!*fields) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "there is no pipeline '%s'; there are: %s",
                        pipeline ? pipeline : "", template_names(generator->pipelines, text, sizeof text));
    }
    const char *refusal = arch_refuses(arch, target->accuracy, json_object_get(*fields, "needs"),
                                       json_object_get(*fields, "accuracies"), text, sizeof text);
    return refusal ? mlp_fail(why, MLPBWD_UNSUPPORTED, "pipeline %s %s", pipeline, refusal) : MLPBWD_OK;
}

/* Every operand that is not optional is bound, and nothing else is. Refusal: the reason, into text. */
static mlpbwd_status operands_fit(const kernel_use *use, const json_t *bind, bool *fit, char *text, size_t capacity,
                                  mlp_message *why) {
    json_t *operands;
    mlpbwd_status status = kernel_operands(use, &operands, why);
    if (status != MLPBWD_OK) {
        return status;
    }
    size_t found = 0;
    *fit = true;
    for (size_t i = 0; i < json_array_size(operands) && *fit; i++) {
        const json_t *operand = json_array_get(operands, i);
        bool bound = json_object_get(bind, text_of(operand, "name")) != NULL;
        found += bound;
        if (!bound && !json_is_true(json_object_get(operand, "optional"))) {
            snprintf(text, capacity, "its operand %s is not bound", text_of(operand, "name"));
            *fit = false;
        }
    }
    if (*fit && found < json_object_size(bind)) {
        snprintf(text, capacity, "not all operands bound there are its own");
        *fit = false;
    }
    json_decref(operands);
    return MLPBWD_OK;
}

/* Inserts name by (rank, name). */
static int insert_ranked(const json_t *table, json_t *names, const char *name) {
    json_int_t rank = json_integer_value(json_object_get(json_object_get(table, name), "rank"));
    size_t at = 0;
    for (; at < json_array_size(names); at++) {
        const char *other = json_string_value(json_array_get(names, at));
        json_int_t other_rank = json_integer_value(json_object_get(json_object_get(table, other), "rank"));
        if (rank < other_rank || (rank == other_rank && strcmp(name, other) < 0)) {
            break;
        }
    }
    return json_array_insert_new(names, at, json_string(name));
}

mlpbwd_status pipeline_kernels(gen *generator, const char *pipeline, const json_t *step, const gen_target *target,
                               json_t **names, mlp_message *why) {
    const char *fixed = text_of(step, "kernel"), *role = text_of(step, "role");
    char reasons[1024] = "no kernel has the role";
    size_t used = 0;
    const char *kernel;
    json_t *fields;
    mlpbwd_status status = MLPBWD_OK;
    *names = json_array();
    json_object_foreach(generator->kernels, kernel, fields) {
        kernel_use use;
        mlp_message refusal = {""};
        bool fit = false;
        if (status != MLPBWD_OK || (fixed && strcmp(fixed, kernel) != 0) ||
            !values_list_has(json_object_get(fields, "roles"), role)) {
            continue;
        }
        if (kernel_use_init(&use, generator, kernel, role, target, &refusal) == MLPBWD_OK) {
            status = operands_fit(&use, json_object_get(step, "bind"), &fit, refusal.text, sizeof refusal.text, why);
            mlp_prefix(&refusal, "kernel %s", kernel);
        }
        if (fit && insert_ranked(generator->kernels, *names, kernel) != 0) {
            status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
        }
        if (!fit && used < sizeof reasons) {
            used += (size_t)snprintf(reasons + used, sizeof reasons - used, "%s%s", used ? "; " : "", refusal.text);
        }
    }
    if (status == MLPBWD_OK && json_array_size(*names) == 0) {
        status = mlp_fail(why, MLPBWD_UNSUPPORTED, "pipeline %s, slot %s (%s) on %s: %s", pipeline,
                          text_of(step, "slot"), role, target->arch, reasons);
    }
    if (status != MLPBWD_OK) {
        json_decref(*names);
        *names = NULL;
    }
    return status;
}

mlpbwd_status gen_slots(gen *generator, const char *pipeline, const gen_target *target, json_t **slots,
                        mlp_message *why) {
    const json_t *fields;
    *slots = NULL;
    mlpbwd_status status = pipeline_find(generator, pipeline, target, &fields, why);
    if (status != MLPBWD_OK) {
        return status;
    }
    json_t *list = json_array();
    const json_t *steps = json_object_get(fields, "steps");
    for (size_t i = 0; i < json_array_size(steps) && status == MLPBWD_OK; i++) {
        const json_t *step = json_array_get(steps, i);
        json_t *kernels = NULL;
        status = pipeline_kernels(generator, pipeline, step, target, &kernels, why);
        if (status == MLPBWD_OK &&
            json_array_append_new(list, json_pack("{s:O, s:O, s:o}", "kernels", kernels, "role",
                                                  json_object_get(step, "role"), "slot",
                                                  json_incref(json_object_get(step, "slot")))) != 0) {
            status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
        }
        json_decref(kernels);
    }
    if (status != MLPBWD_OK) {
        json_decref(list);
        list = NULL;
    }
    *slots = list;
    return status;
}

mlpbwd_status gen_pipelines_for(gen *generator, const gen_target *target, json_t **names, mlp_message *why) {
    const json_t *arch;
    *names = NULL;
    mlpbwd_status status = arch_find(generator, target, &arch, why);
    json_t *list = json_array();
    const char *name;
    json_t *fields;
    json_object_foreach(generator->pipelines, name, fields) {
        json_t *slots = NULL;
        mlpbwd_status usable = status == MLPBWD_OK ? gen_slots(generator, name, target, &slots, why) : status;
        json_decref(slots);
        if (usable == MLPBWD_OK && insert_ranked(generator->pipelines, list, name) != 0) {
            usable = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
        }
        if (usable != MLPBWD_UNSUPPORTED) { /* a slot that no kernel fills here is no error */
            status = usable;
        }
    }
    if (status != MLPBWD_OK) {
        json_decref(list);
        list = NULL;
    }
    *names = list;
    return status;
}
