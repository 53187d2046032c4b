/* CUDA contexts: which one a plan belongs to, and making it current. */
#include <stdlib.h>

#include "cuda_backend.h"

cuda_device *cuda_device_of(const dev_context *context) {
    return (cuda_device *)context->device; /* base is its first member */
}

cuda_context *cuda_context_of(dev_context *context) {
    return (cuda_context *)context;
}

/* ---- making it current ---- */

mlpbwd_status cuda_enter(cuda_context *context, cuda_guard *guard, mlp_message *why) {
    CUcontext current = NULL;
    guard->pushed = guard->relaxed = false;
    cuda_enum result = context->api->cuCtxGetCurrent(&current);
    if (result == MLP_CUDA_SUCCESS && current != context->handle) {
        result = context->api->cuCtxPushCurrent_v2(context->handle);
        guard->pushed = result == MLP_CUDA_SUCCESS;
    }
    if (result)
        return cuda_failed(context->api, result, why, "the CUDA context cannot be made current");
    return MLPBWD_OK;
}

mlpbwd_status cuda_enter_setup(cuda_context *context, cuda_guard *guard, mlp_message *why) {
    mlpbwd_status status = cuda_enter(context, guard, why);
    if (status)
        return status;
    cuda_relax(context, guard);
    return MLPBWD_OK;
}

void cuda_relax(cuda_context *context, cuda_guard *guard) {
    guard->mode = MLP_CU_STREAM_CAPTURE_MODE_RELAXED;
    guard->relaxed = context->api->cuThreadExchangeStreamCaptureMode(&guard->mode) == MLP_CUDA_SUCCESS;
}

void cuda_leave(cuda_context *context, const cuda_guard *guard) {
    CUcontext popped;
    cuda_enum mode = guard->mode;
    /* Neither can fail after the entry that they undo, and there would be nothing to do about it. */
    if (guard->relaxed)
        (void)context->api->cuThreadExchangeStreamCaptureMode(&mode);
    if (guard->pushed)
        (void)context->api->cuCtxPopCurrent_v2(&popped);
}

mlpbwd_status cuda_context_enter(dev_context *base, bool *pushed, mlp_message *why) {
    cuda_context *context = cuda_context_of(base);
    CUcontext current = NULL;
    cuda_enum result = context->api->cuCtxGetCurrent(&current);
    if (result == MLP_CUDA_SUCCESS && current == context->handle)
        return MLPBWD_OK;
    if (result == MLP_CUDA_SUCCESS && current)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "another CUDA context is current than the one the plan was created in; make that one current, "
                        "or none");
    if (result == MLP_CUDA_SUCCESS)
        result = context->api->cuCtxPushCurrent_v2(context->handle);
    if (result)
        return cuda_failed(context->api, result, why, "the plan's CUDA context cannot be made current");
    *pushed = true;
    return MLPBWD_OK;
}

void cuda_context_leave(dev_context *base) {
    CUcontext popped;
    (void)cuda_context_of(base)->api->cuCtxPopCurrent_v2(&popped); /* undoes a push: cannot fail */
}

/* ---- finding and counting ---- */

/* Chooses the context: the current one if it is on the device, else the primary one. *retained: a reference to the
 * primary context was taken, which keeps it alive even if the application gives up its own. */
static mlpbwd_status choose(const cuda_device *device, CUcontext *chosen, bool *retained, mlp_message *why) {
    const cuda_functions *api = device->api;
    CUcontext current = NULL, primary = NULL;
    CUdevice on = -1;
    unsigned flags;
    int active = 0;
    *retained = false;
    if (api->cuCtxGetCurrent(&current) != MLP_CUDA_SUCCESS ||
        (current && (api->cuCtxGetDevice(&on) != MLP_CUDA_SUCCESS || on != device->device)))
        current = NULL;
    /* Asked first, because retaining would create it where nobody uses it. */
    bool want = !current;
    if (current && api->cuDevicePrimaryCtxGetState(device->device, &flags, &active) == MLP_CUDA_SUCCESS && active)
        want = true;
    if (want) {
        cuda_enum result = api->cuDevicePrimaryCtxRetain(&primary, device->device);
        if (result && !current)
            return cuda_failed(api, result, why, "the primary context of %s cannot be made", device->base.info.id);
        *retained = result == MLP_CUDA_SUCCESS;
    }
    *chosen = current ? current : primary;
    if (*retained && *chosen != primary) {
        (void)api->cuDevicePrimaryCtxRelease_v2(device->device); /* the reference of two lines above: cannot fail */
        *retained = false;
    }
    return MLPBWD_OK;
}

static unsigned long long context_id(const cuda_functions *api, CUcontext handle) {
    unsigned long long id = 0;
    if (!api->cuCtxGetId || api->cuCtxGetId(handle, &id) != MLP_CUDA_SUCCESS)
        return 0;
    return id;
}

void cuda_context_retain(cuda_context *context) {
    cuda_device *device = cuda_device_of(&context->base);
    pthread_mutex_lock(&device->mutex);
    context->references++;
    pthread_mutex_unlock(&device->mutex);
}

/* With the mutex held: the known context, one reference more, or a new one. NULL: no memory. */
static cuda_context *find_or_add(cuda_device *device, CUcontext handle, bool retained, bool *known) {
    unsigned long long id = context_id(device->api, handle);
    for (cuda_context *context = device->contexts; context; context = context->next)
        if (context->handle == handle && context->id == id) {
            context->references++;
            *known = true;
            return context;
        }
    *known = false;
    cuda_context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    context->base.backend = &dev_backend_cuda;
    context->base.device = &device->base;
    context->api = device->api;
    context->handle = handle;
    context->id = id;
    context->primary = retained;
    context->references = 1;
    context->next = device->contexts;
    device->contexts = context;
    dev_retain(&device->base);
    return context;
}

mlpbwd_status cuda_context_get(dev *base, dev_context **out, mlp_message *why) {
    cuda_device *device = (cuda_device *)base;
    CUcontext handle = NULL;
    bool retained = false, known;
    mlpbwd_status status = choose(device, &handle, &retained, why);
    if (status)
        return status;
    pthread_mutex_lock(&device->mutex);
    cuda_context *context = find_or_add(device, handle, retained, &known);
    pthread_mutex_unlock(&device->mutex);
    if (retained && (known || !context))
        (void)device->api->cuDevicePrimaryCtxRelease_v2(device->device); /* the known one has a reference of its own */
    if (!context)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for a context of %s", base->info.id);
    *out = &context->base;
    return MLPBWD_OK;
}

void cuda_context_release(dev_context *base) {
    cuda_context *context = cuda_context_of(base);
    cuda_device *device = cuda_device_of(base);
    pthread_mutex_lock(&device->mutex);
    bool last = --context->references == 0;
    if (last) {
        cuda_context **link = &device->contexts;
        while (*link != context)
            link = &(*link)->next;
        *link = context->next;
    }
    pthread_mutex_unlock(&device->mutex);
    if (!last)
        return;
    /* No module is unloaded here. If the reference to the primary context is the last one, the driver destroys it with
     * all that is in it. Else the context is the application's: work or a graph of its own may still need our code, and
     * to find out one would have to synchronise the context, which invalidates every capture in it (the driver does
     * not tell whether there is one). What is loaded then stays loaded for as long as the context lives: a leak, but
     * harmless. */
    cuda_retired_forget(context->retired);
    if (context->primary)
        (void)context->api->cuDevicePrimaryCtxRelease_v2(device->device); /* a reference of ours: cannot fail */
    free(context);
    dev_release(&device->base);
}

bool cuda_context_alive(const cuda_context *context) {
    return context->id == 0 || context_id(context->api, context->handle) == context->id;
}
