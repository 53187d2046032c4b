/* CUDA memory, streams and events. */
#include <string.h>

#include "cuda_backend.h"

struct dev_event {
    char never_defined; /* only its pointer is used: it is a CUevent */
};

/* CU_STREAM_LEGACY: the same stream as NULL, which cannot be captured. */
static const uintptr_t legacy_stream = 1;

_Static_assert(sizeof(CUdeviceptr) == sizeof(void *), "device pointers travel as void *");

static CUdeviceptr device_pointer(const void *pointer) {
    return (CUdeviceptr)(uintptr_t)pointer;
}

mlpbwd_status cuda_alloc(dev_context *base, size_t size, void **out, mlp_message *why) {
    cuda_context *context = cuda_context_of(base);
    cuda_guard guard;
    CUdeviceptr pointer = 0;
    mlpbwd_status status = cuda_enter_setup(context, &guard, why);
    if (status)
        return status;
    cuda_enum result = context->api->cuMemAlloc_v2(&pointer, size); /* the driver aligns to 256 bytes at least */
    cuda_leave(context, &guard);
    if (result)
        return cuda_failed(context->api, result, why, "no memory for %zu bytes on %s", size, base->device->info.id);
    memcpy(out, &pointer, sizeof *out);
    return MLPBWD_OK;
}

void cuda_free(dev_context *base, void *pointer) {
    cuda_context *context = cuda_context_of(base);
    cuda_guard guard;
    if (!cuda_context_alive(context) || cuda_enter_setup(context, &guard, NULL))
        return;
    (void)context->api->cuMemFree_v2(device_pointer(pointer)); /* fails only after an error that others report */
    cuda_leave(context, &guard);
}

mlpbwd_status cuda_copy_in(dev_context *base, void *device_memory, const void *host, size_t size, mlp_message *why) {
    cuda_context *context = cuda_context_of(base);
    cuda_guard guard;
    mlpbwd_status status = cuda_enter(context, &guard, why);
    if (status)
        return status;
    cuda_enum result = context->api->cuMemcpyHtoD_v2(device_pointer(device_memory), host, size);
    if (!result) /* the last bytes may still be on their way, and non-blocking streams would not wait for them */
        result = context->api->cuStreamSynchronize(NULL);
    cuda_leave(context, &guard);
    return result ? cuda_failed(context->api, result, why, "copying %zu bytes to the device failed", size) : MLPBWD_OK;
}

mlpbwd_status cuda_copy_out(dev_context *base, void *host, const void *device_memory, size_t size, mlp_message *why) {
    cuda_context *context = cuda_context_of(base);
    cuda_guard guard;
    mlpbwd_status status = cuda_enter(context, &guard, why);
    if (status)
        return status;
    cuda_enum result = context->api->cuMemcpyDtoH_v2(host, device_pointer(device_memory), size);
    cuda_leave(context, &guard);
    return result ? cuda_failed(context->api, result, why, "copying %zu bytes from the device failed", size)
                  : MLPBWD_OK;
}

mlpbwd_status cuda_fill(dev_context *base, void *device_memory, int byte, size_t size, dev_stream stream,
                        mlp_message *why) {
    cuda_context *context = cuda_context_of(base);
    cuda_guard guard;
    mlpbwd_status status = cuda_enter(context, &guard, why);
    if (status)
        return status;
    unsigned char value = (unsigned char)byte;
    CUdeviceptr pointer = device_pointer(device_memory);
    cuda_enum result;
    if (pointer % 4 == 0 && size % 4 == 0) /* four times fewer elements */
        result = context->api->cuMemsetD32Async(pointer, value * 0x01010101u, size / 4, (CUstream)stream);
    else
        result = context->api->cuMemsetD8Async(pointer, value, size, (CUstream)stream);
    cuda_leave(context, &guard);
    return result ? cuda_failed(context->api, result, why, "filling %zu bytes failed", size) : MLPBWD_OK;
}

mlpbwd_status cuda_synchronize(dev_context *base, mlp_message *why) {
    cuda_context *context = cuda_context_of(base);
    cuda_guard guard;
    mlpbwd_status status = cuda_enter(context, &guard, why);
    if (status)
        return status;
    /* Taken before waiting: only what was thrown away by now is known to be idle afterwards. */
    cuda_module *retired = cuda_retired_take(context);
    cuda_enum result = context->api->cuCtxSynchronize();
    if (result) {
        cuda_retired_put_back(context, retired);
    } else if (retired) {
        cuda_relax(context, &guard);
        cuda_retired_unload(context, retired);
    }
    cuda_leave(context, &guard);
    return result ? cuda_failed(context->api, result, why, "the work on %s failed", base->device->info.id) : MLPBWD_OK;
}

mlpbwd_status cuda_stream_create(dev_context *base, dev_stream *out, mlp_message *why) {
    cuda_context *context = cuda_context_of(base);
    cuda_guard guard;
    CUstream stream = NULL;
    mlpbwd_status status = cuda_enter_setup(context, &guard, why);
    if (status)
        return status;
    cuda_enum result = context->api->cuStreamCreate(&stream, MLP_CU_STREAM_NON_BLOCKING);
    cuda_leave(context, &guard);
    if (result)
        return cuda_failed(context->api, result, why, "no stream could be made");
    *out = stream;
    return MLPBWD_OK;
}

void cuda_stream_destroy(dev_context *base, dev_stream stream) {
    cuda_context *context = cuda_context_of(base);
    cuda_guard guard;
    if (!cuda_context_alive(context) || cuda_enter_setup(context, &guard, NULL))
        return;
    (void)context->api->cuStreamDestroy_v2((CUstream)stream); /* what is enqueued still runs */
    cuda_leave(context, &guard);
}

mlpbwd_status cuda_event_create(dev_context *base, dev_event **out, mlp_message *why) {
    cuda_context *context = cuda_context_of(base);
    cuda_guard guard;
    CUevent event = NULL;
    mlpbwd_status status = cuda_enter_setup(context, &guard, why);
    if (status)
        return status;
    cuda_enum result = context->api->cuEventCreate(&event, MLP_CU_EVENT_DISABLE_TIMING);
    cuda_leave(context, &guard);
    if (result)
        return cuda_failed(context->api, result, why, "no event could be made");
    *out = (dev_event *)event;
    return MLPBWD_OK;
}

void cuda_event_destroy(dev_context *base, dev_event *event) {
    cuda_context *context = cuda_context_of(base);
    cuda_guard guard;
    if (!cuda_context_alive(context) || cuda_enter_setup(context, &guard, NULL))
        return;
    (void)context->api->cuEventDestroy_v2((CUevent)event); /* legal while recorded work runs */
    cuda_leave(context, &guard);
}

mlpbwd_status cuda_stream_order(dev_context *base, dev_stream earlier, dev_stream later, dev_event *event,
                                mlp_message *why) {
    cuda_context *context = cuda_context_of(base);
    cuda_guard guard;
    mlpbwd_status status = cuda_enter(context, &guard, why);
    if (status)
        return status;
    cuda_enum result = context->api->cuEventRecord((CUevent)event, (CUstream)earlier);
    if (!result)
        result = context->api->cuStreamWaitEvent((CUstream)later, (CUevent)event, 0);
    cuda_leave(context, &guard);
    return result ? cuda_failed(context->api, result, why, "ordering two streams failed") : MLPBWD_OK;
}

mlpbwd_status cuda_stream_capture_id(dev_context *base, dev_stream stream, uint64_t *id, mlp_message *why) {
    cuda_context *context = cuda_context_of(base);
    cuda_enum state = MLP_CU_STREAM_CAPTURE_STATUS_NONE;
    uint64_t found = 0;
    if ((uintptr_t)stream <= legacy_stream)
        return MLPBWD_OK;
    cuda_guard guard;
    mlpbwd_status status = cuda_enter(context, &guard, why);
    if (status)
        return status;
    cuda_enum result = context->api->cuStreamGetCaptureInfo_v2((CUstream)stream, &state, &found, NULL, NULL, NULL);
    cuda_leave(context, &guard);
    if (result)
        return cuda_failed(context->api, result, why, "the stream does not say whether it is being captured");
    if (state == MLP_CU_STREAM_CAPTURE_STATUS_NONE)
        return MLPBWD_OK;
    if (state != MLP_CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return mlp_fail(why, MLPBWD_DEVICE_ERROR, "the stream's capture has been invalidated by an earlier error");
    *id = found;
    return MLPBWD_OK;
}
