/* What a plan is made of: checked sizes, a stored plan from the look-up, its image, its description. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"
#include "log.h"
#include "lookup.h"
#include "plan_image_private.h"
#include "status.h"

static mlpbwd_status check_values(const mlpbwd_problem *problem, mlp_message *why) {
    const uint32_t known = MLPBWD_FLAG_NONDETERMINISTIC | MLPBWD_FLAG_ACCUMULATE | MLPBWD_FLAG_ALLOW_COMPILE;
    const struct {
        const char *name;
        int64_t value, least;
    } sizes[] = {{"batch_size", problem->batch_size, 0},
                 {"seq_len", problem->seq_len, 0},
                 {"hidden_size", problem->hidden_size, 1},
                 {"intermediate_size", problem->intermediate_size, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value < sizes[i].least)
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s is %lld; it must be at least %lld", sizes[i].name,
                            (long long)sizes[i].value, (long long)sizes[i].least);
    if (problem->activation != MLPBWD_GELU_TANH && problem->activation != MLPBWD_GELU_ERF)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "activation is %d; MLPBWD_GELU_TANH (0) and MLPBWD_GELU_ERF (1) are known",
                        (int)problem->activation);
    if (problem->accuracy < MLPBWD_ACCURACY_TF32 || problem->accuracy > MLPBWD_ACCURACY_BF16)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "accuracy is %d; 0 (tf32), 1 (fp32) and 2 (bf16) are known",
                        (int)problem->accuracy);
    if (problem->flags & ~known)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "flags are 0x%x; 0x%x of them are unknown",
                        (unsigned)problem->flags, (unsigned)(problem->flags & ~known));
    if (problem->reserved != 0)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "reserved is %u; it must be 0", (unsigned)problem->reserved);
    return MLPBWD_OK;
}

mlpbwd_status plan_check_problem(const mlpbwd_problem *problem, mlp_message *why) {
    mlpbwd_status status = check_values(problem, why);
    if (status != MLPBWD_OK)
        return status;
    if (problem->hidden_size % 64 != 0 || problem->intermediate_size % 64 != 0)
        return mlp_fail(
            why, MLPBWD_UNSUPPORTED, "%s is %lld; only multiples of 64 are supported",
            problem->hidden_size % 64 != 0 ? "hidden_size" : "intermediate_size",
            (long long)(problem->hidden_size % 64 != 0 ? problem->hidden_size : problem->intermediate_size));
    int64_t tokens = 0;
    if (__builtin_mul_overflow(problem->batch_size, problem->seq_len, &tokens) || tokens > INT32_MAX)
        return mlp_fail(why, MLPBWD_UNSUPPORTED,
                        "batch_size * seq_len is %lld * %lld; at most 2^31 - 1 tokens are supported",
                        (long long)problem->batch_size, (long long)problem->seq_len);
    size_t bytes[TENSOR_COUNT];
    return plan_tensor_sizes(problem, bytes, why);
}

static json_t *output_names(unsigned outputs) {
    json_t *names = json_array();
    for (unsigned i = 0; i < TENSOR_OUTPUTS; i++)
        if (outputs >> i & 1)
            json_array_append_new(names, json_string(tensor_name(TENSOR_INPUTS + i)));
    return names;
}

/* The look-up's answer, and what it became: launches in list order and the workspace. */
static mlpbwd_status describe(mlpbwd_plan *plan, const lookup_request *request, const lookup_answer *answer,
                              mlp_message *why) {
    char *found = lookup_answer_json(request, answer);
    json_t *report = found ? json_loads(found, 0, NULL) : NULL, *launches = json_array();
    free(found);
    for (size_t l = 0; l < plan->image->launch_count; l++) {
        const image_launch *launch = &plan->image->launches[l];
        json_array_append_new(launches,
                              json_pack("{s:s, s:s, s:[i,i,i], s:[i,i,i], s:I, s:i, s:o}", "slot", launch->slot,
                                        "entry", launch->entry, "grid", (int)launch->grid[0], (int)launch->grid[1],
                                        (int)launch->grid[2], "block", (int)launch->block[0], (int)launch->block[1],
                                        (int)launch->block[2], "shared_bytes", (json_int_t)launch->shared_bytes,
                                        "stream", (int)launch->stream, "outputs", output_names(launch->outputs)));
    }
    bool complete = report && json_object_set(report, "launches", launches) == 0 &&
                    json_object_set_new(report, "workspace_bytes",
                                        json_integer((json_int_t)plan_image_workspace(plan->image))) == 0 &&
                    json_array_size(launches) == plan->image->launch_count;
    plan->description = complete ? json_dumps(report, JSON_COMPACT) : NULL;
    json_decref(launches);
    json_decref(report);
    return plan->description ? MLPBWD_OK : mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory to describe a plan");
}

/* Without tokens there is nothing to look up: gradients of the weights are zeros. */
static mlpbwd_status answer_for_no_tokens(lookup_answer *answer, mlp_message *why) {
    *answer = (lookup_answer){.match = "default", .median_us = -1};
    answer->row_json = strdup("{\"pipeline\":\"none\",\"parameters\":{},\"arch\":\"\",\"device\":\"\",\"units\":0,"
                              "\"measurement\":null,\"origin\":\"\",\"date\":\"\"}");
    answer->database_path = strdup("");
    if (answer->row_json && answer->database_path)
        return MLPBWD_OK;
    lookup_answer_free(answer);
    return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for a plan");
}

static void log_fallback(const lookup_request *request, const lookup_answer *answer) {
    if (strcmp(answer->match, "exact") == 0 || strcmp(answer->match, "forced") == 0)
        return;
    const mlpbwd_problem *problem = request->problem;
    const int64_t tokens = problem->batch_size * problem->seq_len;
    log_message(
        "T = %lld, H = %lld, I = %lld on %s: not tuned for exactly this; using the plan of rung \"%s\" measured "
        "at T = %lld (0: a default) from %s",
        (long long)tokens, (long long)problem->hidden_size, (long long)problem->intermediate_size, request->device->id,
        answer->match, (long long)answer->measured_tokens, answer->database_path);
}

static mlpbwd_status load_answer(void *user, const lookup_request *request, const lookup_answer *answer,
                                 mlp_message *why) {
    mlpbwd_plan *plan = user;
    lookup_blobs blobs = {.request = request, .answer = answer};
    mlpbwd_status status = plan_image_load(
        answer->plan_json, &plan->problem, plan->library->device, plan->home->context, lookup_get_blob, &blobs,
        (plan->problem.flags & MLPBWD_FLAG_ALLOW_COMPILE) != 0, plan->home->modules, true, &plan->image, why);
    if (status == MLPBWD_OK) {
        mlp_message no_graph = {""};
        if (plan_image_record(plan->image, &no_graph) != MLPBWD_OK) /* slower to enqueue, and as right */
            log_message("launches are enqueued one by one: %s", no_graph.text);
        return MLPBWD_OK;
    }
    mlp_prefix(why, "plan of rung \"%s\" from %s", answer->match, answer->database_path);
    return status;
}

static mlpbwd_status fill_plan(mlpbwd_plan *plan, mlp_message *why) {
    mlpbwd_library *library = plan->library;
    const bool empty = plan->problem.batch_size * plan->problem.seq_len == 0;
    lookup_request request = {.device = dev_get_info(library->device),
                              .problem = &plan->problem,
                              .databases = library->databases,
                              .database_count = library->database_count,
                              .by_default = library->by_default,
                              .forced_path = library->forced_path};
    lookup_answer answer;
    mlpbwd_status status = plan_tensor_sizes(&plan->problem, plan->tensor_bytes, why);
    if (status != MLPBWD_OK)
        return status;
    status = empty ? answer_for_no_tokens(&answer, why) : lookup_find_usable(request, load_answer, plan, &answer, why);
    if (status != MLPBWD_OK)
        return status;
    if (empty)
        status = load_answer(plan, &request, &answer, why);
    if (status == MLPBWD_OK)
        status = describe(plan, &request, &answer, why);
    if (status == MLPBWD_OK && !empty)
        log_fallback(&request, &answer);
    lookup_answer_free(&answer);
    return status;
}

mlpbwd_status plan_make(mlpbwd_library *library, const mlpbwd_problem *problem, library_context *home,
                        mlpbwd_plan **out, mlp_message *why) {
    mlpbwd_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for a plan");
    plan->library = library;
    plan->problem = *problem;
    plan->home = home;
    mlpbwd_status status = fill_plan(plan, why);
    if (status == MLPBWD_OK)
        *out = plan;
    else
        plan_free(plan);
    return status;
}

void plan_free(mlpbwd_plan *plan) {
    if (!plan)
        return;
    plan_image_destroy(plan->image);
    free(plan->description);
    free(plan);
}

size_t mlpbwd_plan_workspace_size(const mlpbwd_plan *plan) {
    return plan ? plan_image_workspace(plan->image) : 0;
}

mlpbwd_status mlpbwd_plan_describe(const mlpbwd_plan *plan, char *json, size_t capacity, size_t *needed) {
    mlp_message why;
    if (needed)
        *needed = 0;
    if (json && capacity > 0)
        json[0] = '\0';
    if (!plan || (!json && capacity > 0))
        return status_report(
            mlp_fail(&why, MLPBWD_INVALID_ARGUMENT, "mlpbwd_plan_describe: %s is NULL", plan ? "json" : "plan"), &why);
    mlpbwd_status status = library_check_process(plan->library, &why);
    if (status != MLPBWD_OK)
        return status_report(status, &why);
    size_t size = strlen(plan->description) + 1;
    if (needed)
        *needed = size;
    if (capacity == 0)
        return status_report(MLPBWD_OK, NULL);
    if (capacity < size)
        return status_report(mlp_fail(&why, MLPBWD_INVALID_ARGUMENT,
                                      "mlpbwd_plan_describe: capacity is %zu; %zu bytes are needed", capacity, size),
                             &why);
    memcpy(json, plan->description, size);
    return status_report(MLPBWD_OK, NULL);
}
