/* The host backend: memory is the process' own, launches are synchronous, there are no streams. */
#include "host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

host_device *host_of(const dev_context *context) {
    return (host_device *)context->device; /* base is its first member */
}

static bool owns_spec(const char *spec) {
    return strcmp(spec, "host") == 0;
}

static void describe(const dev *device, dev_info *info) {
    (void)device;
    if (cc_version(info->compiler, sizeof info->compiler, NULL))
        info->compiler[0] = 0;
}

static void list(void (*visit)(void *user, const dev_info *info), void (*note)(void *user, const char *sentence),
                 void *user) {
    dev_info info;
    mlp_message why;
    host_fill_info(&info);
    if (cc_version(info.compiler, sizeof info.compiler, &why)) {
        info.compiler[0] = 0;
        if (note)
            note(user, why.text);
    }
    visit(user, &info);
}

static mlpbwd_status open_host(const char *spec, dev **out, bool *taken, mlp_message *why) {
    (void)spec;
    (void)taken;
    host_device *device = calloc(1, sizeof *device);
    if (!device || pthread_mutex_init(&device->mutex, NULL) != 0) {
        free(device);
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory to open device host");
    }
    host_fill_info(&device->base.info);
    device->context.backend = &dev_backend_host;
    device->context.device = &device->base;
    *out = &device->base;
    return MLPBWD_OK;
}

static void close_host(dev *base) {
    host_device *device = (host_device *)base;
    host_pool_destroy(device->pool);
    if (!dev_is_forked(base)) /* in a child another thread of the parent may have held it */
        pthread_mutex_destroy(&device->mutex);
    free(device);
}

static mlpbwd_status context_get(dev *device, dev_context **out, mlp_message *why) {
    (void)why;
    dev_retain(device);
    *out = &((host_device *)device)->context;
    return MLPBWD_OK;
}

static void context_release(dev_context *context) {
    dev_release(context->device);
}

static mlpbwd_status alloc(dev_context *context, size_t size, void **out, mlp_message *why) {
    (void)context;
    if (posix_memalign(out, 256, size) != 0) {
        *out = NULL;
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for %zu bytes on device host", size);
    }
    return MLPBWD_OK;
}

static void free_memory(dev_context *context, void *pointer) {
    (void)context;
    free(pointer);
}

static mlpbwd_status copy(dev_context *context, void *to, const void *from, size_t size, mlp_message *why) {
    (void)context;
    (void)why;
    memmove(to, from, size);
    return MLPBWD_OK;
}

static mlpbwd_status fill(dev_context *context, void *device_memory, int byte, size_t size, dev_stream stream,
                          mlp_message *why) {
    mlpbwd_status status = synchronous_check_stream(context, stream, why);
    if (!status)
        memset(device_memory, byte, size);
    return status;
}

const dev_backend dev_backend_host = {
    .name = "host",
    .owns_spec = owns_spec,
    .list = list,
    .open = open_host,
    .close = close_host,
    .describe = describe,
    .context_get = context_get,
    .context_release = context_release,
    .context_enter = synchronous_context_enter,
    .context_leave = synchronous_context_leave,
    .module_load = host_module_load,
    .module_unload = host_module_unload,
    .function_get = host_function_get,
    .launch = host_launch,
    .alloc = alloc,
    .free = free_memory,
    .copy_in = copy,
    .copy_out = copy,
    .fill = fill,
    .synchronize = synchronous_synchronize,
    .stream_create = synchronous_stream_create,
    .stream_destroy = synchronous_stream_destroy,
    .event_create = synchronous_event_create,
    .event_destroy = synchronous_event_destroy,
    .stream_order = synchronous_stream_order,
    .stream_capture_id = synchronous_stream_capture_id,
    .time = host_time,
};
