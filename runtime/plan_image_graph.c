/* A plan's launches recorded at its creation, so that an execute enqueues all of them at the price of one. */
#include "plan_image_private.h"

#include <stdlib.h>
#include <string.h>

/* Where nothing lies; nothing runs while launches are recorded. Aligned as a workspace and tensors are. */
static void *nowhere(size_t i) {
    return (void *)(uintptr_t)((i + 1) * 4096);
}

static mlpbwd_status record(plan_image *image, dev_stream stream, image_graph *entry, mlp_message *why) {
    image_call call = {.image = image,
                       .workspace = nowhere(TENSOR_COUNT),
                       .wanted = OUTPUT_ALL,
                       .stream = stream,
                       .nodes = entry->nodes,
                       .why = why};
    for (size_t i = 0; i < TENSOR_COUNT; i++)
        call.pointers[i] = nowhere(i);
    mlpbwd_status status = dev_graph_begin(image->context, stream, why);
    if (status != MLPBWD_OK)
        return status;
    status = plan_image_enqueue(&call, image_every_launch(image));
    if (status == MLPBWD_OK)
        return dev_graph_end(image->context, stream, &entry->graph, why);
    (void)dev_graph_end(image->context, stream, NULL, NULL);
    return status;
}

mlpbwd_status plan_image_record(plan_image *image, mlp_message *why) {
    if (image->launch_count < 2)
        return MLPBWD_OK; /* one launch is as cheap as a graph */
    image->graphs = calloc(IMAGE_GRAPHS, sizeof *image->graphs);
    if (!image->graphs)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for the plan's graphs");
    dev_stream stream = NULL;
    mlpbwd_status status = dev_stream_create(image->context, &stream, why);
    for (size_t i = 0; i < IMAGE_GRAPHS && status == MLPBWD_OK; i++) {
        atomic_flag_clear(&image->graphs[i].taken);
        atomic_init(&image->graphs[i].owned, false);
        status = record(image, stream, &image->graphs[i], why);
    }
    dev_stream_destroy(image->context, stream);
    if (status != MLPBWD_OK)
        plan_image_forget_graphs(image);
    return status == MLPBWD_UNSUPPORTED ? MLPBWD_OK : status;
}

void plan_image_forget_graphs(plan_image *image) {
    for (size_t i = 0; image->graphs && i < IMAGE_GRAPHS; i++)
        dev_graph_destroy(image->graphs[i].graph);
    free(image->graphs);
    image->graphs = NULL;
}

/* The graph of this stream, or one that no stream has used yet; NULL: none, or another thread has it just now. A graph
 * stays with its first stream: on another one it would wait for what it still does there. */
static image_graph *take_graph(const plan_image *image, dev_stream stream) {
    for (size_t i = 0; i < IMAGE_GRAPHS; i++) {
        image_graph *entry = &image->graphs[i];
        const bool owned = atomic_load_explicit(&entry->owned, memory_order_acquire);
        if (owned && entry->stream != stream)
            continue;
        if (atomic_flag_test_and_set_explicit(&entry->taken, memory_order_acquire))
            continue;
        if (!atomic_load_explicit(&entry->owned, memory_order_relaxed)) {
            entry->stream = stream;
            atomic_store_explicit(&entry->owned, true, memory_order_release);
        }
        if (entry->stream == stream)
            return entry;
        atomic_flag_clear_explicit(&entry->taken, memory_order_release);
    }
    return NULL;
}

static mlpbwd_status set_arguments(const image_call *call, image_graph *entry) {
    image_call changing = *call;
    if (entry->is_set && entry->workspace == call->workspace &&
        memcmp(entry->pointers, call->pointers, sizeof entry->pointers) == 0)
        return MLPBWD_OK;
    changing.graph = entry->graph;
    changing.nodes = entry->nodes;
    entry->is_set = false; /* until every node has the same pointers */
    mlpbwd_status status = plan_image_enqueue(&changing, image_every_launch(call->image));
    if (status == MLPBWD_OK) {
        memcpy(entry->pointers, call->pointers, sizeof entry->pointers);
        entry->workspace = call->workspace;
        entry->is_set = true;
    }
    return status;
}

bool plan_image_replay(const image_call *call, mlpbwd_status *status) {
    uint64_t capture = 0;
    image_graph *entry = NULL;
    if (!call->image->graphs)
        return false;
    if (dev_stream_capture_id(call->image->context, call->stream, &capture, NULL) == MLPBWD_OK && capture == 0)
        entry = take_graph(call->image, call->stream);
    if (!entry)
        return false;
    *status = set_arguments(call, entry);
    if (*status == MLPBWD_OK)
        *status = dev_graph_launch(entry->graph, call->stream, call->why);
    atomic_flag_clear_explicit(&entry->taken, memory_order_release);
    return true;
}
