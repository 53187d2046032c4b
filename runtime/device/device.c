/* The table of backends, finding and opening devices, and the dispatch of device.h to the backend of a handle. */
#include "device.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend.h"

/* In the order in which dev_list shows devices and dev_open(NULL) prefers them. */
static const dev_backend *const backends[] = {&dev_backend_cuda,
#if MLPBWD_EMULATED
                                              &dev_backend_emulated,
#endif
                                              &dev_backend_host};
enum { BACKENDS = sizeof backends / sizeof backends[0] };

bool dev_is_forked(const dev *device) {
    return device->process != getpid();
}

mlpbwd_status dev_check_process(const dev *device, mlp_message *why) {
    if (!dev_is_forked(device))
        return MLPBWD_OK;
    return mlp_fail(why, MLPBWD_DEVICE_ERROR,
                    "device %s was opened before fork() and cannot be used in the child; open it in the child",
                    device->info.id);
}

void dev_copy_text(char *to, size_t capacity, const char *text) {
    size_t length = strlen(text);
    if (length >= capacity) {
        length = capacity - 1;
        while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
            length--;
    }
    memcpy(to, text, length);
    to[length] = 0;
}

void dev_list(void (*visit)(void *user, const dev_info *info), void (*note)(void *user, const char *sentence),
              void *user) {
    for (size_t i = 0; i < BACKENDS; i++)
        backends[i]->list(visit, note, user);
}

static mlpbwd_status open_with(const dev_backend *backend, const char *spec, dev **out, bool *taken, mlp_message *why) {
    mlpbwd_status status = backend->open(spec, out, taken, why);
    if (status)
        return status;
    (*out)->backend = backend;
    (*out)->process = getpid();
    atomic_init(&(*out)->references, 1);
    return MLPBWD_OK;
}

mlpbwd_status dev_open(const char *spec, dev **out, mlp_message *why) {
    *out = NULL;
    if (why)
        why->text[0] = 0;
    for (size_t i = 0; i < BACKENDS; i++) {
        if (spec) {
            if (backends[i]->owns_spec(spec))
                return open_with(backends[i], spec, out, NULL, why);
            continue;
        }
        bool taken = false;
        mlpbwd_status status = open_with(backends[i], NULL, out, &taken, why);
        if (!status || taken || i + 1 == BACKENDS)
            return status;
    }
    return mlp_fail(why, MLPBWD_NO_DEVICE,
                    "device \"%.64s\" is not known; \"cuda:0\" (the first CUDA device) or \"host\" would be right",
                    spec);
}

void dev_retain(dev *device) {
    atomic_fetch_add_explicit(&device->references, 1, memory_order_relaxed);
}

void dev_release(dev *device) {
    if (device && atomic_fetch_sub_explicit(&device->references, 1, memory_order_acq_rel) == 1)
        device->backend->close(device);
}

const dev_info *dev_get_info(const dev *device) {
    return &device->info;
}

void dev_describe(const dev *device, dev_info *info) {
    *info = device->info;
    device->backend->describe(device, info);
}

/* ---- contexts, modules, functions ---- */

mlpbwd_status dev_context_get(dev *device, dev_context **out, mlp_message *why) {
    *out = NULL;
    mlpbwd_status status = dev_check_process(device, why);
    return status ? status : device->backend->context_get(device, out, why);
}

void dev_context_release(dev_context *context) {
    /* A child's copy is left alone: its lock may be held by a thread that does not exist here. */
    if (context && !dev_is_forked(context->device))
        context->backend->context_release(context);
}

mlpbwd_status dev_context_enter(dev_context *context, bool *pushed, mlp_message *why) {
    *pushed = false;
    return context->backend->context_enter(context, pushed, why);
}

void dev_context_leave(dev_context *context, bool pushed) {
    if (pushed)
        context->backend->context_leave(context);
}

const char *dev_compiler_of(const dev_context *context, const char *named) {
    return context->backend->compiler ? context->backend->compiler : named;
}

mlpbwd_status dev_module_load(dev_context *context, const void *bytes, size_t size, const char *format,
                              dev_module **out, mlp_message *why) {
    *out = NULL;
    mlpbwd_status status = dev_check_process(context->device, why);
    return status ? status : context->backend->module_load(context, bytes, size, format, out, why);
}

void dev_module_unload(dev_module *module) {
    if (module && !dev_is_forked(module->context->device))
        module->backend->module_unload(module);
}

mlpbwd_status dev_function_get(dev_module *module, const char *entry, size_t shared_bytes, dev_function **out,
                               dev_function_info *info, mlp_message *why) {
    dev_function_info unused;
    *out = NULL;
    return module->backend->function_get(module, entry, shared_bytes, out, info ? info : &unused, why);
}

mlpbwd_status dev_launch(const dev_function *function, const uint32_t grid[3], const uint32_t block[3],
                         size_t shared_bytes, void **arguments, dev_stream stream, mlp_message *why) {
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0)
        return MLPBWD_OK;
    return function->backend->launch(function, grid, block, shared_bytes, arguments, stream, why);
}

/* ---- recorded launches ---- */

mlpbwd_status dev_graph_begin(dev_context *context, dev_stream stream, mlp_message *why) {
    if (!context->backend->graph_begin)
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "device %s records no launches", context->device->info.id);
    return context->backend->graph_begin(context, stream, why);
}

mlpbwd_status dev_graph_last(dev_context *context, dev_stream stream, dev_graph_node *out, mlp_message *why) {
    *out = NULL;
    return context->backend->graph_last(context, stream, out, why);
}

mlpbwd_status dev_graph_end(dev_context *context, dev_stream stream, dev_graph **out, mlp_message *why) {
    if (out)
        *out = NULL;
    mlpbwd_status status = context->backend->graph_end(context, stream, out, why);
    if (status == MLPBWD_OK && out) {
        (*out)->backend = context->backend;
        (*out)->context = context;
    }
    return status;
}

mlpbwd_status dev_graph_set(dev_graph *graph, dev_graph_node node, const dev_function *function, const uint32_t grid[3],
                            const uint32_t block[3], size_t shared_bytes, void **arguments, mlp_message *why) {
    return graph->backend->graph_set(graph, node, function, grid, block, shared_bytes, arguments, why);
}

mlpbwd_status dev_graph_launch(dev_graph *graph, dev_stream stream, mlp_message *why) {
    return graph->backend->graph_launch(graph, stream, why);
}

void dev_graph_destroy(dev_graph *graph) {
    if (graph && !dev_is_forked(graph->context->device))
        graph->backend->graph_destroy(graph);
}

/* ---- memory, streams, timing ---- */

mlpbwd_status dev_alloc(dev_context *context, size_t size, void **out, mlp_message *why) {
    *out = NULL;
    return context->backend->alloc(context, size ? size : 1, out, why);
}

void dev_free(dev_context *context, void *pointer) {
    if (pointer && !dev_is_forked(context->device))
        context->backend->free(context, pointer);
}

mlpbwd_status dev_copy_in(dev_context *context, void *device_memory, const void *host, size_t size, mlp_message *why) {
    return size ? context->backend->copy_in(context, device_memory, host, size, why) : MLPBWD_OK;
}

mlpbwd_status dev_copy_out(dev_context *context, void *host, const void *device_memory, size_t size, mlp_message *why) {
    return size ? context->backend->copy_out(context, host, device_memory, size, why) : MLPBWD_OK;
}

mlpbwd_status dev_fill(dev_context *context, void *device_memory, int byte, size_t size, dev_stream stream,
                       mlp_message *why) {
    return size ? context->backend->fill(context, device_memory, byte, size, stream, why) : MLPBWD_OK;
}

mlpbwd_status dev_synchronize(dev_context *context, mlp_message *why) {
    return context->backend->synchronize(context, why);
}

mlpbwd_status dev_stream_create(dev_context *context, dev_stream *out, mlp_message *why) {
    *out = NULL;
    return context->backend->stream_create(context, out, why);
}

void dev_stream_destroy(dev_context *context, dev_stream stream) {
    if (stream && !dev_is_forked(context->device))
        context->backend->stream_destroy(context, stream);
}

mlpbwd_status dev_event_create(dev_context *context, dev_event **out, mlp_message *why) {
    *out = NULL;
    return context->backend->event_create(context, out, why);
}

void dev_event_destroy(dev_context *context, dev_event *event) {
    if (event && !dev_is_forked(context->device))
        context->backend->event_destroy(context, event);
}

mlpbwd_status dev_stream_order(dev_context *context, dev_stream earlier, dev_stream later, dev_event *event,
                               mlp_message *why) {
    return context->backend->stream_order(context, earlier, later, event, why);
}

mlpbwd_status dev_stream_capture_id(dev_context *context, dev_stream stream, uint64_t *id, mlp_message *why) {
    *id = 0;
    return context->backend->stream_capture_id(context, stream, id, why);
}

mlpbwd_status dev_check_times(const dev *device, mlp_message *why) {
    if (!device->info.timeless)
        return MLPBWD_OK;
    return mlp_fail(why, MLPBWD_UNSUPPORTED, "an emulated device has no time of its own: nothing can be timed on %s",
                    device->info.id);
}

mlpbwd_status dev_time(dev_context *context, mlpbwd_status (*enqueue)(void *user, dev_stream stream, mlp_message *why),
                       void *user, dev_timing *timing, mlp_message *why) {
    timing->clock_mhz = 0;
    snprintf(timing->protocol, sizeof timing->protocol, "%s", "");
    if (timing->repetitions < 1 || timing->warmup < 0)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "timing with %d repetitions after %d: at least 1 repetition after 0 or more is needed",
                        timing->repetitions, timing->warmup);
    mlpbwd_status status = dev_check_times(context->device, why);
    return status ? status : context->backend->time(context, enqueue, user, timing, why);
}
