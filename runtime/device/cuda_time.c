/* Timing as used: one captured graph, replayed between two events after a flush of the L2. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_backend.h"

/* One thread that watches the nanosecond timer's steps (they may be 1 us apart) and the clock between two of them that
 * lie at least 30 us apart. */
static const char probe_source[] = ".address_size 64\n"
                                   ".visible .entry clock_probe(.param .u64 out)\n"
                                   "{\n"
                                   "    .reg .pred %p;\n"
                                   "    .reg .u64 %out, %t, %t0, %t1, %c0, %c1, %d;\n"
                                   "    ld.param.u64 %out, [out];\n"
                                   "    cvta.to.global.u64 %out, %out;\n"
                                   "    mov.u64 %t, %globaltimer;\n"
                                   "first:\n"
                                   "    mov.u64 %t0, %globaltimer;\n"
                                   "    setp.eq.u64 %p, %t0, %t;\n"
                                   "    @%p bra first;\n"
                                   "    mov.u64 %c0, %clock64;\n"
                                   "    add.u64 %t, %t0, 30000;\n"
                                   "middle:\n"
                                   "    mov.u64 %t1, %globaltimer;\n"
                                   "    setp.lt.u64 %p, %t1, %t;\n"
                                   "    @%p bra middle;\n"
                                   "    mov.u64 %t, %t1;\n"
                                   "last:\n"
                                   "    mov.u64 %t1, %globaltimer;\n"
                                   "    setp.eq.u64 %p, %t1, %t;\n"
                                   "    @%p bra last;\n"
                                   "    mov.u64 %c1, %clock64;\n"
                                   "    sub.u64 %d, %c1, %c0;\n"
                                   "    st.global.u64 [%out], %d;\n"
                                   "    sub.u64 %d, %t1, %t0;\n"
                                   "    st.global.u64 [%out + 8], %d;\n"
                                   "    ret;\n"
                                   "}\n";

typedef struct timer {
    cuda_context *context;
    const cuda_functions *api;
    CUstream stream;
    CUevent start, stop;
    CUgraph graph;
    CUgraphExec executable;
    CUdeviceptr flush, probe_result;
    size_t flush_size;
} timer;

/* The probe as PTX for the last architecture of the device's ladder ("compute_80"), which the driver compiles. */
static bool load_probe(timer *t, CUmodule *module) {
    const dev_info *info = &t->context->base.device->info;
    const char *number = info->ladder_length ? strrchr(info->ladder[info->ladder_length - 1], '_') : NULL;
    char text[sizeof probe_source + 64];
    if (!number)
        return false;
    snprintf(text, sizeof text, ".version 7.0\n.target sm_%s\n%s", number + 1, probe_source);
    return cuda_load_image(t->api, text, "the clock probe", module, NULL) == MLPBWD_OK;
}

/* Loads the probe once a context. It is for information: without it the clock is reported as 0. */
static bool have_probe(timer *t) {
    cuda_context *context = t->context;
    cuda_device *device = cuda_device_of(&context->base);
    pthread_mutex_lock(&device->mutex);
    if (!context->probe_module && !load_probe(t, &context->probe_module))
        context->probe_module = NULL;
    if (context->probe_module && !context->probe &&
        t->api->cuModuleGetFunction(&context->probe, context->probe_module, "clock_probe") != MLP_CUDA_SUCCESS)
        context->probe = NULL;
    bool found = context->probe != NULL;
    pthread_mutex_unlock(&device->mutex);
    return found && t->api->cuMemAlloc_v2(&t->probe_result, 16) == MLP_CUDA_SUCCESS;
}

static double read_clock_mhz(timer *t) {
    uint64_t values[2] = {0, 0};
    void *arguments[] = {&t->probe_result};
    if (t->api->cuLaunchKernel(t->context->probe, 1, 1, 1, 1, 1, 1, 0, t->stream, arguments, NULL) !=
            MLP_CUDA_SUCCESS ||
        t->api->cuStreamSynchronize(t->stream) != MLP_CUDA_SUCCESS ||
        t->api->cuMemcpyDtoH_v2(values, t->probe_result, sizeof values) != MLP_CUDA_SUCCESS || values[1] == 0)
        return 0;
    return 1000.0 * (double)values[0] / (double)values[1];
}

static mlpbwd_status set_up(timer *t, bool cold, mlp_message *why) {
    const cuda_functions *api = t->api;
    cuda_enum result = api->cuStreamCreate(&t->stream, MLP_CU_STREAM_NON_BLOCKING);
    if (!result)
        result = api->cuEventCreate(&t->start, MLP_CU_EVENT_DEFAULT);
    if (!result)
        result = api->cuEventCreate(&t->stop, MLP_CU_EVENT_DEFAULT);
    if (!result && cold) {
        t->flush_size = 2 * (size_t)t->context->base.device->info.l2_bytes;
        if (t->flush_size)
            result = api->cuMemAlloc_v2(&t->flush, t->flush_size);
    }
    return result ? cuda_failed(api, result, why, "timing could not be set up") : MLPBWD_OK;
}

/* Captures enqueue into a graph that is ready to run. */
static mlpbwd_status capture(timer *t, mlpbwd_status (*enqueue)(void *user, dev_stream stream, mlp_message *why),
                             void *user, mlp_message *why) {
    const cuda_functions *api = t->api;
    cuda_enum result = api->cuStreamBeginCapture_v2(t->stream, MLP_CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    if (result)
        return cuda_failed(api, result, why, "a stream capture could not be begun");
    mlpbwd_status status = enqueue(user, t->stream, why);
    result = api->cuStreamEndCapture(t->stream, &t->graph); /* also after a failure, so that the stream can be freed */
    if (status)
        return status;
    if (!result)
        result = api->cuGraphInstantiateWithFlags(&t->executable, t->graph, 0);
    if (!result)
        result = api->cuGraphUpload(t->executable, t->stream);
    if (!result)
        result = api->cuStreamSynchronize(t->stream);
    return result ? cuda_failed(api, result, why, "the captured work could not be made a graph") : MLPBWD_OK;
}

static mlpbwd_status replay(timer *t, int number, double *microseconds, mlp_message *why) {
    const cuda_functions *api = t->api;
    cuda_enum result = MLP_CUDA_SUCCESS;
    float milliseconds = 0;
    if (t->flush) {
        result = api->cuMemsetD32Async(t->flush, (unsigned)number, t->flush_size / 4, t->stream);
        if (!result)
            result = api->cuStreamSynchronize(t->stream);
    }
    if (!result)
        result = api->cuEventRecord(t->start, t->stream);
    if (!result)
        result = api->cuGraphLaunch(t->executable, t->stream);
    if (!result)
        result = api->cuEventRecord(t->stop, t->stream);
    if (!result)
        result = api->cuEventSynchronize(t->stop);
    if (!result)
        result = api->cuEventElapsedTime(&milliseconds, t->start, t->stop);
    if (result)
        return cuda_failed(api, result, why, "repetition %d of the timed work failed", number);
    *microseconds = 1000.0 * (double)milliseconds;
    return MLPBWD_OK;
}

/* After a failure in the timed work these fail too; the context is then lost anyway. */
static void tear_down(timer *t) {
    const cuda_functions *api = t->api;
    if (t->executable)
        (void)api->cuGraphExecDestroy(t->executable);
    if (t->graph)
        (void)api->cuGraphDestroy(t->graph);
    if (t->probe_result)
        (void)api->cuMemFree_v2(t->probe_result);
    if (t->flush)
        (void)api->cuMemFree_v2(t->flush);
    if (t->start)
        (void)api->cuEventDestroy_v2(t->start);
    if (t->stop)
        (void)api->cuEventDestroy_v2(t->stop);
    if (t->stream)
        (void)api->cuStreamDestroy_v2(t->stream);
}

mlpbwd_status cuda_time(dev_context *base, mlpbwd_status (*enqueue)(void *user, dev_stream stream, mlp_message *why),
                        void *user, dev_timing *timing, mlp_message *why) {
    timer t = {.context = cuda_context_of(base), .api = cuda_context_of(base)->api};
    cuda_guard guard;
    mlpbwd_status status = cuda_enter(t.context, &guard, why);
    if (status)
        return status;
    status = set_up(&t, timing->cold, why);
    bool probe = !status && have_probe(&t);
    if (!status)
        status = capture(&t, enqueue, user, why);
    for (int i = -timing->warmup; i < timing->repetitions && !status; i++) {
        double microseconds = 0;
        status = replay(&t, i, &microseconds, why);
        if (i >= 0)
            timing->microseconds[i] = microseconds;
    }
    if (!status && probe)
        timing->clock_mhz = read_clock_mhz(&t);
    tear_down(&t);
    cuda_leave(t.context, &guard);
    snprintf(timing->protocol, sizeof timing->protocol, "%s, graph replay, %d repetitions after %d",
             t.flush_size ? "cold L2" : "warm L2", timing->repetitions, timing->warmup);
    return status;
}
