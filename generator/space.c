#include <stdlib.h>
#include <string.h>

#include "gen.h"

enum { MAX_COMBINATIONS = 1 << 20 };

struct space {
    const kernel_use *use;
    const gen_problem *problem;
    const json_t *list; /* parameters_of */
    json_t *variants, *rejected, *standard;
};

static mlpbwd_status count_rejected(struct space *space, const char *reason, mlp_message *why) {
    json_int_t count = json_integer_value(json_object_get(space->rejected, reason));
    return json_object_set_new(space->rejected, reason, json_integer(count + 1)) == 0
               ? MLPBWD_OK
               : mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
}

/* NULL in *reason: worth timing. */
static mlpbwd_status ask_prune(const struct space *space, const json_t *parameters, json_t **reason, mlp_message *why) {
    const kernel_use *use = space->use;
    *reason = NULL;
    if (!json_object_get(use->fields, "prune") || !space->problem || space->problem->tokens < 0) {
        return MLPBWD_OK;
    }
    kernel_request request = {.member = "prune", .index = -1, .parameters = parameters, .problem = space->problem};
    json_t *answer = NULL;
    mlpbwd_status status = kernel_call(use, &request, &answer, reason, why);
    if (status == MLPBWD_OK && !json_is_boolean(answer)) {
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                          "kernels/%s.lua: prune(c, problem) must return true, or false and a reason", use->kernel);
    }
    if (status != MLPBWD_OK || json_is_true(answer)) {
        json_decref(*reason);
        *reason = NULL;
    } else if (!*reason) {
        *reason = json_string("prune gave no reason");
    }
    json_decref(answer);
    return status;
}

/* The default stands first and is never pruned: everything is measured against it. */
static mlpbwd_status visit(struct space *space, json_t *parameters, bool standard, mlp_message *why) {
    json_t *reason = NULL;
    if (!standard && json_equal(parameters, space->standard)) {
        return MLPBWD_OK;
    }
    mlpbwd_status status = parameters_valid(space->use, parameters, NULL, &reason, why);
    if (status == MLPBWD_OK && !reason && !standard) {
        status = ask_prune(space, parameters, &reason, why);
    }
    if (status == MLPBWD_OK && reason) {
        status = count_rejected(space, json_string_value(reason), why);
    } else if (status == MLPBWD_OK) {
        json_t *variant = values_sorted(parameters);
        if (json_object_set_new(variant, "kernel", json_string(space->use->kernel)) != 0 ||
            json_array_append_new(space->variants, values_sorted(variant)) != 0) {
            status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
        }
        json_decref(variant);
    }
    json_decref(reason);
    return status;
}

/* All combinations, the last parameter's values changing fastest. */
static mlpbwd_status enumerate(struct space *space, mlp_message *why) {
    size_t count = json_array_size(space->list);
    double combinations = 1;
    for (size_t i = 0; i < count; i++) {
        combinations *= (double)json_array_size(json_object_get(json_array_get(space->list, i), "values"));
    }
    if (combinations > MAX_COMBINATIONS) {
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "kernel %s: %.0f combinations of parameters are more than %d",
                        space->use->kernel, combinations, MAX_COMBINATIONS);
    }
    size_t *choice = calloc(count + 1, sizeof *choice);
    json_t *parameters = json_object();
    mlpbwd_status status = choice && parameters ? MLPBWD_OK : mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    for (size_t step = 0; step < (size_t)combinations && status == MLPBWD_OK; step++) {
        for (size_t i = 0; i < count; i++) {
            const json_t *row = json_array_get(space->list, i);
            json_object_set(parameters, json_string_value(json_object_get(row, "name")),
                            json_array_get(json_object_get(row, "values"), choice[i]));
        }
        status = visit(space, parameters, false, why);
        for (size_t i = count; i-- > 0;) {
            if (++choice[i] < json_array_size(json_object_get(json_array_get(space->list, i), "values"))) {
                break;
            }
            choice[i] = 0;
        }
    }
    free(choice);
    json_decref(parameters);
    return status;
}

mlpbwd_status gen_space(gen *generator, const char *kernel, const char *role, const gen_target *target,
                        const gen_problem *problem, json_t **variants, json_t **rejected, mlp_message *why) {
    kernel_use use;
    struct space space = {.use = &use, .problem = problem, .variants = json_array(), .rejected = json_object()};
    *variants = NULL;
    if (rejected) {
        *rejected = NULL;
    }
    mlpbwd_status status = kernel_use_init(&use, generator, kernel, role, target, why);
    if (status == MLPBWD_OK) {
        status = parameters_check_read(&use, why);
    }
    if (status == MLPBWD_OK) {
        status = parameters_of(&use, &space.list, why);
    }
    if (status == MLPBWD_OK) {
        status = parameters_complete(&use, NULL, &space.standard, why);
    }
    if (status == MLPBWD_OK) {
        status = visit(&space, space.standard, true, why);
    }
    if (status == MLPBWD_OK) {
        status = enumerate(&space, why);
    }
    if (status == MLPBWD_OK) {
        *variants = json_incref(space.variants);
        if (rejected) {
            *rejected = values_sorted(space.rejected);
        }
    }
    json_decref(space.variants);
    json_decref(space.rejected);
    json_decref(space.standard);
    return status;
}

mlpbwd_status gen_emit(gen *generator, const char *kernel, const char *role, const gen_target *target,
                       const json_t *parameters, char **source, mlp_message *why) {
    kernel_use use;
    kernel_variant variant;
    *source = NULL;
    mlpbwd_status status = kernel_use_init(&use, generator, kernel, role, target, why);
    if (status == MLPBWD_OK) {
        status = parameters_check_read(&use, why);
    }
    if (status == MLPBWD_OK) {
        status = kernel_variant_make(&use, parameters, NULL, &variant, why);
    }
    if (status == MLPBWD_OK) {
        *source = variant.source;
        variant.source = NULL;
        kernel_variant_free(&variant);
    }
    return status;
}
