/* Launches recorded by a stream capture, then enqueued as one graph with other arguments. One cuGraphLaunch costs the
 * processor as much as one launch does, whatever the graph holds (bench/notes.md has both). */
#include <stdlib.h>

#include "cuda_backend.h"

typedef struct cuda_graph {
    dev_graph base;
    CUgraph graph; /* kept: its nodes name what dev_graph_set changes */
    CUgraphExec executable;
} cuda_graph;

mlpbwd_status cuda_graph_begin(dev_context *base, dev_stream stream, mlp_message *why) {
    cuda_context *context = cuda_context_of(base);
    const cuda_functions *api = context->api;
    cuda_guard guard;
    if (!api->cuGraphExecKernelNodeSetParams_v2 || !api->cuStreamGetCaptureInfo_v3)
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "the driver is older than CUDA 12.3: it records no launches");
    mlpbwd_status status = cuda_enter_setup(context, &guard, why);
    if (status)
        return status;
    cuda_enum result = api->cuStreamBeginCapture_v2((CUstream)stream, MLP_CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    cuda_leave(context, &guard);
    return result ? cuda_failed(api, result, why, "a stream capture could not be begun") : MLPBWD_OK;
}

mlpbwd_status cuda_graph_last(dev_context *base, dev_stream stream, dev_graph_node *out, mlp_message *why) {
    cuda_context *context = cuda_context_of(base);
    const cuda_functions *api = context->api;
    cuda_enum state = MLP_CU_STREAM_CAPTURE_STATUS_NONE;
    const CUgraphNode *nodes = NULL;
    const CUgraphEdgeData *edges = NULL;
    size_t count = 0;
    cuda_guard guard;
    mlpbwd_status status = cuda_enter(context, &guard, why);
    if (status)
        return status;
    cuda_enum result = api->cuStreamGetCaptureInfo_v3((CUstream)stream, &state, NULL, NULL, &nodes, &edges, &count);
    cuda_leave(context, &guard);
    if (result)
        return cuda_failed(api, result, why, "a stream capture does not say what it has recorded");
    if (state != MLP_CU_STREAM_CAPTURE_STATUS_ACTIVE || count != 1)
        return mlp_fail(why, MLPBWD_DEVICE_ERROR, "a stream capture ends in %zu nodes after a launch, not in one",
                        count);
    *out = nodes[0];
    return MLPBWD_OK;
}

static cuda_enum instantiate(const cuda_functions *api, CUstream stream, cuda_graph *made) {
    cuda_enum result = api->cuGraphInstantiateWithFlags(&made->executable, made->graph, 0);
    return result ? result : api->cuGraphUpload(made->executable, stream);
}

static void free_graph(cuda_context *context, cuda_graph *made) {
    if (made->executable)
        (void)context->api->cuGraphExecDestroy(made->executable);
    if (made->graph)
        (void)context->api->cuGraphDestroy(made->graph);
    free(made);
}

mlpbwd_status cuda_graph_end(dev_context *base, dev_stream stream, dev_graph **out, mlp_message *why) {
    cuda_context *context = cuda_context_of(base);
    const cuda_functions *api = context->api;
    cuda_graph *made = calloc(1, sizeof *made);
    cuda_guard guard;
    CUgraph recorded = NULL;
    mlpbwd_status status = cuda_enter_setup(context, &guard, why);
    if (status) {
        free(made);
        return status;
    }
    cuda_enum result = api->cuStreamEndCapture((CUstream)stream, &recorded); /* also when it is not wanted */
    if (made && !result) {
        made->graph = recorded;
        if (out)
            result = instantiate(api, (CUstream)stream, made);
    } else if (recorded) {
        (void)api->cuGraphDestroy(recorded);
    }
    const bool keep = made && out && !result;
    if (made && !keep)
        free_graph(context, made);
    cuda_leave(context, &guard);
    if (keep)
        *out = &made->base;
    if (keep || !out)
        return MLPBWD_OK;
    return made ? cuda_failed(api, result, why, "the recorded launches could not be made a graph")
                : mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for a graph");
}

mlpbwd_status cuda_graph_set(dev_graph *base, dev_graph_node node, const dev_function *function, const uint32_t grid[3],
                             const uint32_t block[3], size_t shared_bytes, void **arguments, mlp_message *why) {
    const cuda_graph *graph = (const cuda_graph *)base;
    cuda_context *context = cuda_context_of(base->context);
    const cuda_node_params params = {.function = ((const cuda_function *)function)->handle,
                                     .grid = {grid[0], grid[1], grid[2]},
                                     .block = {block[0], block[1], block[2]},
                                     .shared_bytes = (unsigned)shared_bytes,
                                     .arguments = arguments};
    cuda_guard guard;
    mlpbwd_status status = cuda_enter(context, &guard, why);
    if (status)
        return status;
    cuda_enum result = context->api->cuGraphExecKernelNodeSetParams_v2(graph->executable, (CUgraphNode)node,
                                                                       (const CUDA_KERNEL_NODE_PARAMS *)&params);
    cuda_leave(context, &guard);
    return result ? cuda_failed(context->api, result, why, "a recorded launch did not take its arguments") : MLPBWD_OK;
}

mlpbwd_status cuda_graph_launch(dev_graph *base, dev_stream stream, mlp_message *why) {
    const cuda_graph *graph = (const cuda_graph *)base;
    cuda_context *context = cuda_context_of(base->context);
    cuda_guard guard;
    mlpbwd_status status = cuda_enter(context, &guard, why);
    if (status)
        return status;
    cuda_enum result = context->api->cuGraphLaunch(graph->executable, (CUstream)stream);
    cuda_leave(context, &guard);
    return result ? cuda_failed(context->api, result, why, "the recorded launches could not be enqueued") : MLPBWD_OK;
}

void cuda_graph_destroy(dev_graph *base) {
    cuda_context *context = cuda_context_of(base->context);
    cuda_guard guard;
    if (!cuda_context_alive(context) || cuda_enter_setup(context, &guard, NULL)) { /* it went with its context */
        free(base);
        return;
    }
    free_graph(context, (cuda_graph *)base); /* what is enqueued still runs */
    cuda_leave(context, &guard);
}
