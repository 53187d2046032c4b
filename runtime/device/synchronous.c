/* What backends without streams share: a launch returns when it has run, so that there is nothing to wait for. */
#include "backend.h"

struct dev_event {
    char unused;
};

mlpbwd_status synchronous_check_stream(const dev_context *context, dev_stream stream, mlp_message *why) {
    if (!stream)
        return MLPBWD_OK;
    return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "stream is %p, but device %s has no streams: it must be NULL", stream,
                    context->device->info.id);
}

mlpbwd_status synchronous_context_enter(dev_context *context, bool *pushed, mlp_message *why) {
    (void)context;
    (void)why;
    *pushed = false;
    return MLPBWD_OK;
}

void synchronous_context_leave(dev_context *context) {
    (void)context;
}

mlpbwd_status synchronous_synchronize(dev_context *context, mlp_message *why) {
    (void)context;
    (void)why;
    return MLPBWD_OK;
}

mlpbwd_status synchronous_stream_create(dev_context *context, dev_stream *out, mlp_message *why) {
    (void)context;
    (void)why;
    *out = NULL; /* the one stream there is: what is enqueued has run */
    return MLPBWD_OK;
}

void synchronous_stream_destroy(dev_context *context, dev_stream stream) {
    (void)context;
    (void)stream;
}

mlpbwd_status synchronous_event_create(dev_context *context, dev_event **out, mlp_message *why) {
    static dev_event event; /* orders nothing, so all may share it */
    (void)context;
    (void)why;
    *out = &event;
    return MLPBWD_OK;
}

void synchronous_event_destroy(dev_context *context, dev_event *event) {
    (void)context;
    (void)event;
}

mlpbwd_status synchronous_stream_order(dev_context *context, dev_stream earlier, dev_stream later, dev_event *event,
                                       mlp_message *why) {
    (void)event;
    mlpbwd_status status = synchronous_check_stream(context, earlier, why);
    return status ? status : synchronous_check_stream(context, later, why);
}

mlpbwd_status synchronous_stream_capture_id(dev_context *context, dev_stream stream, uint64_t *id, mlp_message *why) {
    *id = 0;
    return synchronous_check_stream(context, stream, why);
}
