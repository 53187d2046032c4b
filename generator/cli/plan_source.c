#include <stdlib.h>
#include <string.h>

#include "lookup.h"
#include "plan_source.h"

mlpbwd_status plan_source_open(plan_source *source, const cli_options *options, plan_choice choice, mlp_message *why) {
    *source = (plan_source){.choice = choice};
    mlpbwd_status status = MLPBWD_OK;
    if (choice == PLANS_LADDER) {
        status = lookup_open_databases(options->database, source->databases, &source->database_count, why);
        source->by_default = lookup_found_by_default(options->database, source->database_count);
    } else {
        status = gen_open(options->templates, options->template_count, NULL, &source->generator, why);
        source->set = build_set_new();
        if (status == MLPBWD_OK && source->set == NULL) {
            status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
        }
    }
    if (status == MLPBWD_OK) {
        status = dev_open(options->device, &source->device, why);
    }
    if (status == MLPBWD_OK) {
        dev_describe(source->device, &source->info);
        status = dev_context_get(source->device, &source->context, why);
    }
    return status;
}

void plan_source_close(plan_source *source) {
    if (source->context != NULL) {
        dev_context_release(source->context);
    }
    dev_release(source->device);
    for (size_t i = 0; i < source->database_count; i++) {
        db_close(source->databases[i]);
    }
    build_set_free(source->set);
    gen_close(source->generator);
    *source = (plan_source){0};
}

mlpbwd_status plan_source_pipelines(const plan_source *source, int accuracy, json_t **names, mlp_message *why) {
    if (source->choice == PLANS_LADDER) {
        *names = json_pack("[n]");
        return MLPBWD_OK;
    }
    gen_target target = {source->info.arch, accuracy};
    mlpbwd_status status = gen_pipelines_for(source->generator, &target, names, why);
    if (status == MLPBWD_OK && json_array_size(*names) == 0) {
        json_decref(*names);
        *names = NULL;
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "no pipeline of the templates serves %s in class %s",
                        source->info.arch, accuracy_name(accuracy));
    }
    while (status == MLPBWD_OK && source->choice == PLANS_DEFAULT && json_array_size(*names) > 1) {
        (void)json_array_remove(*names, json_array_size(*names) - 1);
    }
    return status;
}

/* Nothing is looked up without tokens: the gradients of the weights are zeros. */
static mlpbwd_status load_for_no_tokens(plan_source *source, const mlpbwd_problem *problem, ready_plan *plan,
                                        mlp_message *why) {
    plan->pipeline = strdup("none");
    plan->match = strdup("default");
    if (plan->pipeline == NULL || plan->match == NULL) {
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    }
    return plan_image_create(NULL, problem, source->device, source->context, NULL, NULL, false, &plan->image, why);
}

typedef struct ladder_load {
    plan_source *source;
    const mlpbwd_problem *problem;
    ready_plan *plan;
    bool compile; /* what has no machine code */
} ladder_load;

static mlpbwd_status load_answer(void *user, const lookup_request *request, const lookup_answer *answer,
                                 mlp_message *why) {
    const ladder_load *load = user;
    lookup_blobs blobs = {request, answer};
    mlpbwd_status status =
        plan_image_create(answer->plan_json, load->problem, load->source->device, load->source->context,
                          lookup_get_blob, &blobs, load->compile, &load->plan->image, why);
    if (status != MLPBWD_OK) {
        mlp_prefix(why, "plan of rung \"%s\" from %s", answer->match, answer->database_path);
    }
    return status;
}

/* As mlpbwd_plan_create does, what cannot run is passed over. Only where nothing can, a compiler is asked. */
static mlpbwd_status load_from_ladder(plan_source *source, const mlpbwd_problem *problem, ready_plan *plan,
                                      mlp_message *why) {
    const char *forced = getenv("MLPBWD_FORCE");
    lookup_request request = {.device = &source->info,
                              .problem = problem,
                              .databases = source->databases,
                              .database_count = source->database_count,
                              .by_default = source->by_default,
                              .forced_path = forced != NULL && forced[0] != '\0' ? forced : NULL};
    lookup_answer answer = {0};
    if (problem->batch_size * problem->seq_len == 0) {
        return load_for_no_tokens(source, problem, plan, why);
    }
    ladder_load load = {source, problem, plan, false};
    mlpbwd_status status = lookup_find_usable(request, load_answer, &load, &answer, why);
    if (status == MLPBWD_UNSUPPORTED) {
        load.compile = true;
        status = lookup_find_usable(request, load_answer, &load, &answer, why);
    }
    if (status != MLPBWD_OK) {
        return status;
    }
    char *text = lookup_answer_json(&request, &answer);
    plan->description = text != NULL ? json_loads(text, 0, NULL) : NULL;
    free(text);
    const char *pipeline = json_string_value(json_object_get(plan->description, "pipeline"));
    plan->pipeline = strdup(pipeline != NULL ? pipeline : "");
    plan->match = strdup(answer.match);
    if (plan->pipeline == NULL || plan->match == NULL) {
        status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    }
    lookup_answer_free(&answer);
    return status;
}

/* A device with a compiler of its own has no use for what the architecture's makes. */
static void name_compilers(const plan_source *source, json_t *plan) {
    size_t index = 0;
    json_t *module = NULL;
    json_array_foreach(json_object_get(plan, "modules"), index, module) {
        const char *named = json_string_value(json_object_get(module, "compiler"));
        (void)json_object_set_new(module, "compiler", json_string(dev_compiler_of(source->context, named)));
    }
}

static mlpbwd_status load_from_templates(plan_source *source, const char *pipeline, const mlpbwd_problem *problem,
                                         ready_plan *plan, mlp_message *why) {
    gen_target target = {source->info.arch, problem->accuracy};
    json_t *built = NULL;
    json_t *sources = NULL;
    char *text = NULL;
    mlpbwd_status status = gen_build_plan(source->generator, pipeline, &target, NULL, &built, &sources, why);
    if (status == MLPBWD_OK) {
        name_compilers(source, built);
        status = build_set_add(source->set, built, sources, why);
    }
    if (status == MLPBWD_OK) {
        status = build_set_compile(source->set, 0, 0.0, NULL, cli_interrupted(), why);
    }
    if (status == MLPBWD_OK) {
        (void)build_set_apply(source->set, built);
        text = json_dumps(built, JSON_COMPACT);
        plan->pipeline = strdup(pipeline);
        plan->match = strdup("templates");
        plan->description = json_pack("{s:O, s:O}", "pipeline", json_object_get(built, "pipeline"), "parameters",
                                      json_object_get(built, "parameters"));
        if (text == NULL || plan->pipeline == NULL || plan->match == NULL) {
            status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
        }
    }
    if (status == MLPBWD_OK) {
        status = plan_image_create(text, problem, source->device, source->context, build_set_blob, source->set, true,
                                   &plan->image, why);
    }
    free(text);
    json_decref(built);
    json_decref(sources);
    return status;
}

mlpbwd_status plan_source_load(plan_source *source, const char *pipeline, const mlpbwd_problem *problem,
                               ready_plan *plan, mlp_message *why) {
    *plan = (ready_plan){0};
    mlpbwd_status status = source->choice == PLANS_LADDER ? load_from_ladder(source, problem, plan, why)
                                                          : load_from_templates(source, pipeline, problem, plan, why);
    if (status != MLPBWD_OK) {
        ready_plan_free(plan);
    }
    return status;
}

void ready_plan_free(ready_plan *plan) {
    if (plan->image != NULL) {
        plan_image_destroy(plan->image);
    }
    json_decref(plan->description);
    free(plan->pipeline);
    free(plan->match);
    *plan = (ready_plan){0};
}
