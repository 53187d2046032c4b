/* mlpbwd_execute: the caller's rules are checked, then the image runs. Nothing here allocates, locks or waits. */
#include "library.h"
#include "status.h"

enum { TENSOR_ALIGNMENT = 16, WORKSPACE_ALIGNMENT = 256 };

static mlpbwd_status check_required(const mlpbwd_plan *plan, void *const pointers[TENSOR_COUNT], unsigned wanted,
                                    mlp_message *why) {
    unsigned required = plan_image_required_inputs(plan->image, wanted);
    for (unsigned i = 0; i < TENSOR_INPUTS; i++)
        if ((required >> i & 1) && !pointers[i])
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s is NULL, and an output that was asked for reads it",
                            tensor_name(i));
    return MLPBWD_OK;
}

static mlpbwd_status check_alignment(void *const pointers[TENSOR_COUNT], mlp_message *why) {
    for (size_t i = 0; i < TENSOR_COUNT; i++)
        if ((uintptr_t)pointers[i] % TENSOR_ALIGNMENT != 0)
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s is at %p; it must be aligned to %d bytes", tensor_name(i),
                            pointers[i], TENSOR_ALIGNMENT);
    return MLPBWD_OK;
}

static mlpbwd_status check_workspace(const mlpbwd_plan *plan, const void *workspace, size_t size, mlp_message *why) {
    size_t needed = plan_image_workspace(plan->image);
    if (size < needed)
        return mlp_fail(why, MLPBWD_WORKSPACE_TOO_SMALL, "workspace_size is %zu; the plan needs %zu bytes", size,
                        needed);
    if (needed > 0 && !workspace)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "workspace is NULL; the plan needs %zu bytes", needed);
    if (needed > 0 && (uintptr_t)workspace % WORKSPACE_ALIGNMENT != 0)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "workspace is at %p; it must be aligned to %d bytes", workspace,
                        WORKSPACE_ALIGNMENT);
    return MLPBWD_OK;
}

/* Each output and the workspace (which are written) against everything else. */
static mlpbwd_status check_overlap(const mlpbwd_plan *plan, void *const pointers[TENSOR_COUNT], const void *workspace,
                                   mlp_message *why) {
    enum { RANGES = TENSOR_COUNT + 1 };
    uintptr_t start[RANGES], end[RANGES];
    for (size_t i = 0; i < RANGES; i++) {
        size_t size = i < TENSOR_COUNT ? plan->tensor_bytes[i] : plan_image_workspace(plan->image);
        start[i] = (uintptr_t)(i < TENSOR_COUNT ? pointers[i] : workspace);
        if (!start[i])
            size = 0; /* not given: an empty range, which overlaps nothing */
        if (__builtin_add_overflow(start[i], size, &end[i]))
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s at %p has %zu bytes, more than the memory behind it",
                            i < TENSOR_COUNT ? tensor_name(i) : "workspace", (const void *)start[i], size);
    }
    for (size_t i = TENSOR_INPUTS; i < RANGES; i++)
        for (size_t j = 0; j < i; j++)
            if (start[i] < end[i] && start[j] < end[j] && start[i] < end[j] && start[j] < end[i])
                return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s overlaps %s",
                                i < TENSOR_COUNT ? tensor_name(i) : "workspace", tensor_name(j));
    return MLPBWD_OK;
}

static mlpbwd_status execute(const mlpbwd_plan *plan, const mlpbwd_tensors *tensors, void *workspace,
                             size_t workspace_size, void *stream, mlp_message *why) {
    const dev_info *device = dev_get_info(plan->library->device);
    void *pointers[TENSOR_COUNT];
    unsigned wanted = 0;
    if (stream && device->synchronous)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "stream is %p, but device %s has no streams: it must be NULL",
                        stream, device->id);
    plan_tensor_pointers(tensors, pointers);
    for (unsigned i = 0; i < TENSOR_OUTPUTS; i++)
        if (pointers[TENSOR_INPUTS + i])
            wanted |= 1U << i;
    mlpbwd_status status = check_alignment(pointers, why);
    if (status != MLPBWD_OK || wanted == 0)
        return status;
    status = check_required(plan, pointers, wanted, why);
    if (status == MLPBWD_OK)
        status = check_workspace(plan, workspace, workspace_size, why);
    if (status == MLPBWD_OK)
        status = check_overlap(plan, pointers, workspace, why);
    if (status != MLPBWD_OK)
        return status;
    bool pushed = false;
    status = dev_context_enter(plan->home->context, &pushed, why);
    if (status != MLPBWD_OK)
        return status;
    status = plan_image_run(plan->image, tensors, workspace, NULL, stream, why);
    dev_context_leave(plan->home->context, pushed);
    if (status == MLPBWD_DEVICE_ERROR)
        mlp_prefix(why, "the driver reported an error, which may stem from earlier work");
    return status;
}

mlpbwd_status mlpbwd_execute(const mlpbwd_plan *plan, const mlpbwd_tensors *tensors, void *workspace,
                             size_t workspace_size, void *stream) {
    mlp_message why;
    if (!plan || !tensors)
        return status_report(
            mlp_fail(&why, MLPBWD_INVALID_ARGUMENT, "mlpbwd_execute: %s is NULL", plan ? "tensors" : "plan"), &why);
    mlpbwd_status status = library_check_process(plan->library, &why);
    if (status == MLPBWD_OK)
        status = execute(plan, tensors, workspace, workspace_size, stream, &why);
    return status_report(status, &why);
}
