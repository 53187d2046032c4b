/* A whole pass as a stored plan: the variants of all slots, their buffers and launches, bound to the pipeline's tensors
 * and buffers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db.h"
#include "gen.h"

enum { MAX_LAUNCHES = 64, MAX_BUFFERS = 64 }; /* what the runtime takes */

struct plan_build {
    gen *generator;
    const char *pipeline;
    const gen_target *target;
    const json_t *fields, *selection;
    json_t *parameters, *modules, *buffers, *launches, *sources;
    json_t *uses; /* of each step: [{name, access}] */
    json_t *last; /* slot -> index of its last launch */
};

static const char *text_of(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static mlpbwd_status no_memory(mlp_message *why) {
    return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory while building a plan");
}

static mlpbwd_status choose_kernel(const struct plan_build *build, const json_t *step, const json_t *selected,
                                   char kernel[128], mlp_message *why) {
    json_t *kernels = NULL;
    mlpbwd_status status = pipeline_kernels(build->generator, build->pipeline, step, build->target, &kernels, why);
    if (status != MLPBWD_OK) {
        return status;
    }
    const json_t *wanted = json_object_get(selected, "kernel");
    char names[512], text[64];
    if (wanted && !(json_is_string(wanted) && values_list_has(kernels, json_string_value(wanted)))) {
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "pipeline %s, slot %s: the kernel %s is not one of %s",
                          build->pipeline, text_of(step, "slot"), values_text(wanted, text, sizeof text),
                          values_text(kernels, names, sizeof names));
    } else {
        snprintf(kernel, 128, "%s", wanted ? json_string_value(wanted) : json_string_value(json_array_get(kernels, 0)));
    }
    json_decref(kernels);
    return status;
}

/* Index of the module with this source; slots whose sources are equal share one. */
static mlpbwd_status add_module(struct plan_build *build, const json_t *step, const char *source, size_t *index,
                                mlp_message *why) {
    char hash[DB_HASH_CAPACITY];
    db_hash(source, strlen(source), hash);
    for (*index = 0; *index < json_array_size(build->modules); ++*index) {
        if (strcmp(text_of(json_array_get(build->modules, *index), "source"), hash) == 0) {
            return MLPBWD_OK;
        }
    }
    const json_t *arch = json_object_get(build->generator->archs, build->target->arch);
    const char *compiler = text_of(arch, "compiler"), *target = text_of(arch, "target");
    bool host = strcmp(text_of(arch, "backend"), "host") == 0;
    const char *format = host ? "elf-so" : strncmp(target, "compute_", 8) == 0 ? "ptx" : "cubin";
    json_t *module = json_pack("{s:s, s:s, s:s, s:s, s:n, s:s}", "slot", text_of(step, "slot"), "compiler", compiler,
                               "target", target, "source", hash, "code", "code_format", format);
    if (json_array_append_new(build->modules, module) != 0 ||
        json_object_set_new(build->sources, hash, json_string(source)) != 0) {
        return no_memory(why);
    }
    return MLPBWD_OK;
}

/* A kernel's argument as the plan's: operands become what they are bound to, workspace buffers "slot.name". */
static json_t *bind_argument(const json_t *step, const kernel_variant *variant, const json_t *argument) {
    const char *name = text_of(argument, "name");
    if (!name) {
        return json_copy((json_t *)argument);
    }
    bool operand = false;
    for (size_t i = 0; i < json_array_size(variant->operands); i++) {
        operand = operand || strcmp(text_of(json_array_get(variant->operands, i), "name"), name) == 0;
    }
    char private_name[256];
    snprintf(private_name, sizeof private_name, "%s.%s", text_of(step, "slot"), name);
    const char *pointer = operand ? text_of(json_object_get(step, "bind"), name) : private_name;
    if (!pointer) { /* an optional operand that is left out */
        return json_pack("{s:n}", "pointer");
    }
    return json_pack("{s:s, s:O, s:O, s:O*}", "pointer", pointer, "access", json_object_get(argument, "access"), "part",
                     json_object_get(argument, "part"), "map", json_object_get(argument, "map"));
}

static bool has_maps(const json_t *launches) {
    size_t l, a;
    json_t *launch, *argument;
    json_array_foreach(launches, l, launch) {
        json_array_foreach(json_object_get(launch, "args"), a, argument) {
            if (json_object_get(argument, "map")) {
                return true;
            }
        }
    }
    return false;
}

static mlpbwd_status add_launches(struct plan_build *build, const json_t *step, const kernel_variant *variant,
                                  size_t module, mlp_message *why) {
    for (size_t i = 0; i < json_array_size(variant->launches); i++) {
        const json_t *launch = json_array_get(variant->launches, i), *given = json_object_get(launch, "args");
        json_t *arguments = json_array(), *after = json_array();
        int failed = !arguments || !after;
        for (size_t k = 0; k < json_array_size(given); k++) {
            failed |= json_array_append_new(arguments, bind_argument(step, variant, json_array_get(given, k)));
        }
        size_t k;
        json_t *earlier;
        json_array_foreach(i == 0 ? json_object_get(step, "after") : NULL, k, earlier) {
            failed |= json_array_append(after, json_object_get(build->last, json_string_value(earlier)));
        }
        json_t *made = json_pack(
            "{s:O, s:I, s:O, s:O, s:O, s:O, s:I, s:o, s:o}", "slot", json_object_get(step, "slot"), "module",
            (json_int_t)module, "entry", json_object_get(launch, "entry"), "grid", json_object_get(launch, "grid"),
            "block", json_object_get(launch, "block"), "shared", json_object_get(launch, "shared"), "stream",
            json_integer_value(json_object_get(step, "stream")), "after", after, "args", arguments);
        if (failed || json_array_append_new(build->launches, made) != 0) {
            return no_memory(why);
        }
    }
    json_t *last = json_integer((json_int_t)json_array_size(build->launches) - 1);
    return json_object_set_new(build->last, text_of(step, "slot"), last) == 0 ? MLPBWD_OK : no_memory(why);
}

static mlpbwd_status add_buffers_and_uses(struct plan_build *build, const json_t *step, const kernel_variant *variant,
                                          mlp_message *why) {
    int failed = 0;
    for (size_t i = 0; i < json_array_size(variant->workspace); i++) {
        const json_t *buffer = json_array_get(variant->workspace, i);
        char name[256];
        snprintf(name, sizeof name, "%s.%s", text_of(step, "slot"), text_of(buffer, "name"));
        failed |= json_array_append_new(build->buffers,
                                        json_pack("{s:s, s:O}", "name", name, "size", json_object_get(buffer, "size")));
    }
    json_t *uses = json_array();
    for (size_t i = 0; i < json_array_size(variant->operands); i++) {
        const json_t *operand = json_array_get(variant->operands, i);
        const char *name = text_of(operand, "name"), *bound = text_of(json_object_get(step, "bind"), name);
        if (!bound) {
            continue;
        }
        if (pipeline_tensor(bound) == 'i' && strcmp(text_of(operand, "access"), "in") != 0) {
            json_decref(uses);
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                            "pipeline %s, slot %s: operand %s writes and is bound to the input '%s'", build->pipeline,
                            text_of(step, "slot"), name, bound);
        }
        failed |= json_array_append_new(
            uses, json_pack("{s:s, s:O}", "name", bound, "access", json_object_get(operand, "access")));
    }
    failed |= json_array_append_new(build->uses, uses);
    return failed ? no_memory(why) : MLPBWD_OK;
}

static mlpbwd_status add_step(struct plan_build *build, const json_t *step, mlp_message *why) {
    const json_t *selected = json_object_get(build->selection, text_of(step, "slot"));
    char kernel[128];
    kernel_use use;
    kernel_variant variant = {0};
    size_t module = 0;
    mlpbwd_status status = choose_kernel(build, step, selected, kernel, why);
    if (status == MLPBWD_OK) {
        status = kernel_use_init(&use, build->generator, kernel, text_of(step, "role"), build->target, why);
    }
    if (status == MLPBWD_OK) {
        status = parameters_check_read(&use, why);
    }
    if (status == MLPBWD_OK) {
        status = kernel_variant_make(&use, selected, NULL, &variant, why);
    }
    if (status == MLPBWD_OK) {
        status = add_module(build, step, variant.source, &module, why);
    }
    if (status == MLPBWD_OK) {
        status = add_launches(build, step, &variant, module, why);
    }
    if (status == MLPBWD_OK) {
        status = add_buffers_and_uses(build, step, &variant, why);
    }
    if (status == MLPBWD_OK && (json_object_set_new(variant.parameters, "kernel", json_string(kernel)) != 0 ||
                                json_object_set(build->parameters, text_of(step, "slot"), variant.parameters) != 0)) {
        status = no_memory(why);
    }
    if (status != MLPBWD_OK) {
        mlp_prefix(why, "pipeline %s, slot %s", build->pipeline, text_of(step, "slot"));
    }
    kernel_variant_free(&variant);
    return status;
}

static mlpbwd_status check_selection(const struct plan_build *build, mlp_message *why) {
    const json_t *steps = json_object_get(build->fields, "steps");
    const char *slot;
    json_t *value;
    char text[64];
    if (build->selection && !json_is_object(build->selection)) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "the selection of slots must be an object, not %s",
                        values_text(build->selection, text, sizeof text));
    }
    json_object_foreach((json_t *)build->selection, slot, value) {
        bool known = false;
        for (size_t i = 0; i < json_array_size(steps); i++) {
            known = known || strcmp(text_of(json_array_get(steps, i), "slot"), slot) == 0;
        }
        if (!known || !json_is_object(value)) {
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "pipeline %s: %s", build->pipeline,
                            known ? "a slot's selection must be an object"
                                  : "has no slot of the name that was selected");
        }
    }
    return MLPBWD_OK;
}

static mlpbwd_status build_all(struct plan_build *build, mlp_message *why) {
    const json_t *steps = json_object_get(build->fields, "steps"), *buffers = json_object_get(build->fields, "buffers");
    mlpbwd_status status = check_selection(build, why);
    for (size_t i = 0; i < json_array_size(buffers) && status == MLPBWD_OK; i++) {
        status = json_array_append(build->buffers, json_array_get(buffers, i)) == 0 ? MLPBWD_OK : no_memory(why);
    }
    for (size_t i = 0; i < json_array_size(steps) && status == MLPBWD_OK; i++) {
        status = add_step(build, json_array_get(steps, i), why);
    }
    if (status == MLPBWD_OK) {
        status = order_check(build->pipeline, steps, build->uses, why);
    }
    if (status == MLPBWD_OK &&
        (json_array_size(build->launches) > MAX_LAUNCHES || json_array_size(build->buffers) > MAX_BUFFERS)) {
        status = mlp_fail(why, MLPBWD_UNSUPPORTED,
                          "pipeline %s: %zu launches and %zu buffers; at most %d and %d are possible", build->pipeline,
                          json_array_size(build->launches), json_array_size(build->buffers), MAX_LAUNCHES, MAX_BUFFERS);
    }
    return status;
}

mlpbwd_status gen_build_plan(gen *generator, const char *pipeline, const gen_target *target, const json_t *selection,
                             json_t **plan, json_t **sources, mlp_message *why) {
    *plan = NULL;
    *sources = NULL;
    struct plan_build build = {.generator = generator, .pipeline = pipeline, .target = target, .selection = selection};
    mlpbwd_status status = pipeline_find(generator, pipeline, target, &build.fields, why);
    if (status != MLPBWD_OK) {
        return status;
    }
    build.parameters = json_object();
    build.modules = json_array();
    build.buffers = json_array();
    build.launches = json_array();
    build.sources = json_object();
    build.uses = json_array();
    build.last = json_object();
    status = build_all(&build, why);
    if (status == MLPBWD_OK) {
        int format = has_maps(build.launches) ? 2 : 1; /* libraries that know nothing of maps refuse 2 */
        json_t *made = json_pack("{s:i, s:s, s:s, s:s, s:{s:i, s:i}, s:O, s:O, s:O, s:O}", "format", format, "pipeline",
                                 pipeline, "accuracy", accuracy_name(target->accuracy), "arch", target->arch, "tokens",
                                 "min", 1, "max", INT32_MAX, "parameters", build.parameters, "modules", build.modules,
                                 "buffers", build.buffers, "launches", build.launches);
        *plan = made ? values_sorted(made) : NULL;
        *sources = *plan ? json_incref(build.sources) : NULL;
        json_decref(made);
        status = *plan ? MLPBWD_OK : no_memory(why);
    }
    json_decref(build.parameters);
    json_decref(build.modules);
    json_decref(build.buffers);
    json_decref(build.launches);
    json_decref(build.sources);
    json_decref(build.uses);
    json_decref(build.last);
    return status;
}
