/* The hot path: nothing here allocates, locks, loads or waits. */
#include "plan_image_private.h"

#include <string.h>

static mlpbwd_status start(const image_call *c, const image_launch *launch) {
    if (launch->grid[0] == 0 || launch->grid[1] == 0 || launch->grid[2] == 0)
        return MLPBWD_OK; /* nothing is launched, and nothing recorded */
    image_value values[DEV_MAX_ARGUMENTS];
    void *arguments[DEV_MAX_ARGUMENTS];
    dev_tensor_map maps[IMAGE_MAX_MAPS];
    size_t map_count = 0;
    for (size_t i = 0; i < launch->argument_count; i++) {
        const image_argument *argument = &launch->arguments[i];
        values[i] = argument->value;
        arguments[i] = &values[i];
        if (argument->map) {
            arguments[i] = &maps[map_count];
            maps[map_count++] = (dev_tensor_map){{0}};
        }
        if (!(argument->outputs & c->wanted))
            continue; /* a constant, or a pointer into a part that nobody needs: its value is NULL, its map zeros */
        if (argument->kind == ARGUMENT_TENSOR)
            values[i].pointer = c->pointers[argument->index];
        else
            values[i].pointer = c->workspace + c->image->buffers[argument->index].offset;
        if (!argument->map || !values[i].pointer)
            continue; /* an output that is not wanted, of a part of which another one is */
        dev_tensor tensor = *argument->map;
        tensor.address = values[i].pointer;
        mlpbwd_status status = dev_tensor_map_encode(c->image->context, &tensor, arguments[i], c->why);
        if (status != MLPBWD_OK)
            return status;
    }
    if (c->graph)
        return dev_graph_set(c->graph, c->nodes[launch - c->image->launches], launch->function, launch->grid,
                             launch->block, launch->shared_bytes, arguments, c->why);
    mlpbwd_status status =
        dev_launch(launch->function, launch->grid, launch->block, launch->shared_bytes, arguments, c->stream, c->why);
    if (status == MLPBWD_OK && c->nodes)
        status = dev_graph_last(c->image->context, c->stream, &c->nodes[launch - c->image->launches], c->why);
    return status;
}

static mlpbwd_status run_serially(const image_call *c, uint64_t live) {
    mlpbwd_status status = MLPBWD_OK;
    for (size_t l = 0; l < c->image->launch_count && status == MLPBWD_OK; l++)
        if (live >> l & 1)
            status = start(c, &c->image->launches[l]);
    return status;
}

/* A set whose streams may be joined with the caller's: nobody else holds it, and none of its streams is being captured
 * except into the caller's own graph. NULL: none is free, and the launches go to the caller's stream. */
static image_streams *take_streams(const plan_image *image, dev_stream caller) {
    uint64_t capture = 0;
    if (!image->sets || dev_stream_capture_id(image->context, caller, &capture, NULL) != MLPBWD_OK)
        return NULL;
    for (size_t i = 0; i < IMAGE_STREAM_SETS; i++) {
        image_streams *set = &image->sets[i];
        if (atomic_flag_test_and_set_explicit(&set->taken, memory_order_acquire))
            continue;
        bool usable = true;
        for (unsigned s = 1; s < image->stream_count && usable; s++) {
            uint64_t id = 0;
            usable = dev_stream_capture_id(image->context, set->streams[s], &id, NULL) == MLPBWD_OK &&
                     (id == 0 || id == capture);
        }
        if (usable)
            return set;
        atomic_flag_clear_explicit(&set->taken, memory_order_release);
    }
    return NULL;
}

/* The waits that belong before launch l. They are enqueued for launches that are skipped, too: what comes later may
 * count on the order that they hand on. */
static mlpbwd_status order_streams(const image_call *c, const image_launch *next, const dev_stream *streams,
                                   const image_streams *set, unsigned *forked) {
    const plan_image *image = c->image;
    for (unsigned later = 0; later < image->stream_count; later++)
        for (unsigned earlier = 0; next->waits[later] >> earlier; earlier++) {
            if (!(next->waits[later] >> earlier & 1))
                continue;
            *forked |= later > 0 ? 1U << later : 0;
            mlpbwd_status status =
                dev_stream_order(image->context, streams[earlier], streams[later], set->event, c->why);
            if (status != MLPBWD_OK)
                return status;
        }
    return MLPBWD_OK;
}

static mlpbwd_status run_overlapped(const image_call *c, uint64_t live, const image_streams *set) {
    const plan_image *image = c->image;
    dev_stream streams[IMAGE_MAX_STREAMS] = {c->stream};
    unsigned forked = 0;
    mlpbwd_status status = MLPBWD_OK;
    for (unsigned s = 1; s < image->stream_count; s++)
        streams[s] = set->streams[s];
    for (size_t l = 0; l < image->launch_count && status == MLPBWD_OK; l++) {
        const image_launch *next = &image->launches[l];
        image_call on_stream = *c;
        on_stream.stream = streams[next->stream];
        status = order_streams(c, next, streams, set, &forked);
        if (status == MLPBWD_OK && (live >> l & 1))
            status = start(&on_stream, next);
    }
    /* Also after a failure: a stream left unjoined would spoil the caller's capture. The first error is the one told.
     */
    for (unsigned s = 1; s < image->stream_count; s++) {
        if (!(forked >> s & 1))
            continue;
        mlpbwd_status joined =
            dev_stream_order(image->context, streams[s], c->stream, set->event, status == MLPBWD_OK ? c->why : NULL);
        if (status == MLPBWD_OK)
            status = joined;
    }
    return status;
}

mlpbwd_status plan_image_enqueue(const image_call *c, uint64_t live) {
    const plan_image *image = c->image;
    image_streams *set = !c->graph && (live & image->side_launches) ? take_streams(image, c->stream) : NULL;
    if (!set) /* the order of a graph's nodes has been recorded */
        return run_serially(c, live);
    mlpbwd_status status = run_overlapped(c, live, set);
    atomic_flag_clear_explicit(&set->taken, memory_order_release);
    return status;
}

static mlpbwd_status fill_gradients(const image_call *c) {
    mlpbwd_status status = MLPBWD_OK;
    if (c->image->accumulate)
        return status;
    for (size_t i = TENSOR_INPUTS; i < TENSOR_COUNT && status == MLPBWD_OK; i++)
        if (c->pointers[i] && c->image->tensor_bytes[i] > 0)
            status = dev_fill(c->image->context, c->pointers[i], 0, c->image->tensor_bytes[i], c->stream, c->why);
    return status;
}

mlpbwd_status plan_image_run(const plan_image *image, const mlpbwd_tensors *tensors, void *workspace, const char *slot,
                             dev_stream stream, mlp_message *why) {
    image_call c = {.image = image, .workspace = workspace, .stream = stream, .why = why};
    plan_tensor_pointers(tensors, c.pointers);
    for (unsigned i = 0; i < TENSOR_OUTPUTS; i++)
        if (c.pointers[TENSOR_INPUTS + i])
            c.wanted |= 1U << i;
    if (image->tokens == 0)
        return fill_gradients(&c);
    uint64_t live = 0;
    for (size_t l = 0; l < image->launch_count; l++)
        if ((image->launches[l].outputs & c.wanted) && (!slot || strcmp(slot, image->launches[l].slot) == 0))
            live |= UINT64_C(1) << l;
    mlpbwd_status status = MLPBWD_OK;
    if (slot)
        return run_serially(&c, live);
    if (live == image_every_launch(image) && plan_image_replay(&c, &status))
        return status;
    return plan_image_enqueue(&c, live);
}
