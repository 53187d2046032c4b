#include "plan_image_private.h"

#include <stdlib.h>

static mlpbwd_status create_streams(plan_image *image, mlp_message *why) {
    mlpbwd_status status = MLPBWD_OK;
    image->sets = calloc(IMAGE_STREAM_SETS, sizeof *image->sets);
    if (!image->sets)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for the plan's side streams");
    for (size_t i = 0; i < IMAGE_STREAM_SETS && status == MLPBWD_OK; i++) {
        atomic_flag_clear(&image->sets[i].taken);
        status = dev_event_create(image->context, &image->sets[i].event, why);
        for (unsigned s = 1; s < image->stream_count && status == MLPBWD_OK; s++)
            status = dev_stream_create(image->context, &image->sets[i].streams[s], why);
    }
    return status;
}

static void destroy_streams(plan_image *image) {
    for (size_t i = 0; image->sets && i < IMAGE_STREAM_SETS; i++) {
        for (unsigned s = 1; s < image->stream_count; s++)
            if (image->sets[i].streams[s])
                dev_stream_destroy(image->context, image->sets[i].streams[s]);
        if (image->sets[i].event)
            dev_event_destroy(image->context, image->sets[i].event);
    }
    free(image->sets);
}

static mlpbwd_status load_functions(plan_image *image, const json_t *entries, plan_blob_source blobs, void *user,
                                    bool allow_compile, plan_modules *modules, mlp_message *why) {
    mlpbwd_status status = MLPBWD_OK;
    for (size_t l = 0; l < image->launch_count && status == MLPBWD_OK; l++) {
        image_launch *launch = &image->launches[l];
        dev_module *module = NULL;
        status = plan_modules_get(modules, json_array_get(entries, launch->module), blobs, user, allow_compile, &module,
                                  why);
        if (status == MLPBWD_OK)
            status =
                dev_function_get(module, launch->entry, launch->shared_bytes, &launch->function, &launch->info, why);
    }
    return status;
}

/* Else every execute would find that the device has none. */
static mlpbwd_status check_maps(const plan_image *image, mlp_message *why) {
    bool maps = false;
    for (size_t l = 0; l < image->launch_count; l++)
        for (size_t a = 0; a < image->launches[l].argument_count; a++)
            maps = maps || image->launches[l].arguments[a].map;
    return maps ? dev_tensor_maps_available(image->context, why) : MLPBWD_OK;
}

static mlpbwd_status load_json(plan_image *image, const json_t *plan, const mlpbwd_problem *problem,
                               const dev_info *device, plan_blob_source blobs, void *user, bool allow_compile,
                               plan_modules *modules, bool share_memory, mlp_message *why) {
    mlpbwd_status status = plan_image_parse(image, plan, problem, device, why);
    if (status == MLPBWD_OK)
        status = check_maps(image, why);
    if (status == MLPBWD_OK)
        status = plan_image_analyse(image, why);
    if (status == MLPBWD_OK)
        status = plan_image_layout(image, share_memory, why);
    if (status == MLPBWD_OK && !modules) {
        modules = image->own_modules = plan_modules_create(image->context);
        if (!modules)
            status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for the plan's modules");
    }
    if (status == MLPBWD_OK)
        status = load_functions(image, json_object_get(plan, "modules"), blobs, user, allow_compile, modules, why);
    if (status == MLPBWD_OK && image->stream_count > 1)
        status = create_streams(image, why);
    return status;
}

mlpbwd_status plan_image_load(const char *plan_json, const mlpbwd_problem *problem, dev *device, dev_context *context,
                              plan_blob_source blobs, void *user, bool allow_compile, plan_modules *modules,
                              bool share_memory, plan_image **out, mlp_message *why) {
    *out = NULL;
    plan_image *image = calloc(1, sizeof *image);
    if (!image)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for the plan");
    image->context = context;
    image->tokens = problem->batch_size * problem->seq_len;
    image->accumulate = (problem->flags & MLPBWD_FLAG_ACCUMULATE) != 0;
    mlpbwd_status status = plan_tensor_sizes(problem, image->tensor_bytes, why);
    if (status == MLPBWD_OK && image->tokens > 0) { /* without tokens nothing is launched */
        json_error_t error;
        json_t *plan = plan_json ? json_loads(plan_json, 0, &error) : NULL;
        if (!plan)
            status = mlp_fail(why, MLPBWD_DATABASE_ERROR, "the stored plan is not JSON: %s",
                              plan_json ? error.text : "it is missing");
        else
            status = load_json(image, plan, problem, dev_get_info(device), blobs, user, allow_compile, modules,
                               share_memory, why);
        json_decref(plan);
    }
    if (status != MLPBWD_OK) {
        plan_image_destroy(image);
        return status;
    }
    *out = image;
    return MLPBWD_OK;
}

mlpbwd_status plan_image_create(const char *plan_json, const mlpbwd_problem *problem, dev *device, dev_context *context,
                                plan_blob_source blobs, void *user, bool allow_compile, plan_image **out,
                                mlp_message *why) {
    return plan_image_load(plan_json, problem, device, context, blobs, user, allow_compile, NULL, false, out, why);
}

void plan_image_destroy(plan_image *image) {
    if (!image)
        return;
    plan_image_forget_graphs(image);
    destroy_streams(image);
    for (size_t l = 0; l < image->launch_count; l++) {
        free(image->launches[l].slot);
        free(image->launches[l].entry);
        for (size_t a = 0; a < image->launches[l].argument_count; a++)
            free(image->launches[l].arguments[a].map);
        free(image->launches[l].arguments);
    }
    for (size_t b = 0; b < image->buffer_count; b++)
        free(image->buffers[b].name);
    plan_modules_destroy(image->own_modules);
    free(image);
}

size_t plan_image_workspace(const plan_image *image) {
    return image->workspace;
}

size_t plan_image_launch_count(const plan_image *image) {
    return image->launch_count;
}

const char *plan_image_launch_slot(const plan_image *image, size_t launch) {
    return image->launches[launch].slot;
}

unsigned plan_image_launch_outputs(const plan_image *image, size_t launch) {
    return image->launches[launch].outputs;
}

dev_function_info plan_image_launch_function(const plan_image *image, size_t launch) {
    return image->launches[launch].info;
}

unsigned plan_image_required_inputs(const plan_image *image, unsigned outputs) {
    return image->required_inputs[outputs & OUTPUT_ALL];
}
