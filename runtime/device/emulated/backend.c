/* The emulated backend: devices emulated:ARCH run CUDA kernels on the processor and check them; memory is the process'
 * own, launches are synchronous, there are no streams and no times. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emulated_backend.h"
#include "tensor.h"

static const char prefix[] = "emulated:";
enum { USUAL_UNITS = 4, MOST_UNITS = 256 };

static bool owns_spec(const char *spec) {
    return strncmp(spec, prefix, strlen(prefix)) == 0 || strcmp(spec, "emulated") == 0;
}

static void architecture_names(char *text, size_t capacity) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; dev_cuda_architecture(i) && used < capacity; i++)
        used +=
            (size_t)snprintf(text + used, capacity - used, "%s%s%s", i ? ", " : "", prefix, dev_cuda_architecture(i));
}

/* They are always there, so that nothing is learnt from listing them as devices. */
static void list(void (*visit)(void *user, const dev_info *info), void (*note)(void *user, const char *sentence),
                 void *user) {
    char names[256], sentence[512];
    (void)visit;
    architecture_names(names, sizeof names);
    snprintf(sentence, sizeof sentence,
             "Devices that run and check CUDA kernels on the processor, for their correctness and not for time, are "
             "taken when they are named: %s.",
             names);
    if (note)
        note(user, sentence);
}

/* ---- options ---- */

/* A whole number from the environment; unset or empty leaves *value. */
static mlpbwd_status read_number(const char *variable, uint64_t least, uint64_t most, uint64_t *value,
                                 mlp_message *why) {
    const char *text = getenv(variable);
    if (!text || !text[0])
        return MLPBWD_OK;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno || *end || text[0] < '0' || text[0] > '9' || number < least || number > most)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "%s is \"%.64s\"; a whole number from %llu to %llu would be right", variable, text,
                        (unsigned long long)least, (unsigned long long)most);
    *value = number;
    return MLPBWD_OK;
}

static mlpbwd_status read_timing(enum emu_timing *timing, mlp_message *why) {
    static const char *const names[] = {[EMU_LATE] = "late", [EMU_EARLY] = "early", [EMU_MIXED] = "mixed"};
    const char *text = getenv("MLPBWD_EMULATED_TIMING");
    if (!text || !text[0])
        return MLPBWD_OK;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *timing = (enum emu_timing)i;
            return MLPBWD_OK;
        }
    }
    return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                    "MLPBWD_EMULATED_TIMING is \"%.64s\"; \"late\", \"early\" or \"mixed\" would be right", text);
}

static mlpbwd_status read_options(emu_options *options, mlp_message *why) {
    uint64_t units = USUAL_UNITS;
    *options = (emu_options){.timing = EMU_LATE};
    mlpbwd_status status = read_number("MLPBWD_EMULATED_SEED", 0, UINT64_MAX, &options->seed, why);
    if (!status)
        status = read_number("MLPBWD_EMULATED_UNITS", 1, MOST_UNITS, &units, why);
    options->units = (uint32_t)units;
    return status ? status : read_timing(&options->timing, why);
}

/* ---- the device ---- */

static mlpbwd_status fill_info(const char *spec, const emu_options *options, dev_info *info, mlp_message *why) {
    const char *name = strlen(spec) > strlen(prefix) ? spec + strlen(prefix) : "";
    char names[256];
    *info = (dev_info){.synchronous = true, .timeless = true, .units = (int)options->units};
    info->ladder_length =
        dev_architecture_ladder(name, info->ladder, &info->compute_capability, &info->shared_bytes_per_block);
    if (info->ladder_length == 0) {
        architecture_names(names, sizeof names);
        return mlp_fail(why, MLPBWD_NO_DEVICE, "there is no device \"%.64s\"; one of %s would be right", spec, names);
    }
    dev_copy_text(info->arch, sizeof info->arch, info->ladder[0]);
    snprintf(info->id, sizeof info->id, "%s%.20s", prefix, info->arch);
    snprintf(info->backend, sizeof info->backend, "emulated");
    snprintf(info->name, sizeof info->name, "emulated %s", info->arch);
    snprintf(info->driver, sizeof info->driver, "mlpbwd %d.%d.%d", MLPBWD_VERSION_MAJOR, MLPBWD_VERSION_MINOR,
             MLPBWD_VERSION_PATCH);
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    info->memory_bytes = pages > 0 && page > 0 ? (int64_t)pages * page : 0;
    return MLPBWD_OK;
}

static mlpbwd_status open_emulated(const char *spec, dev **out, bool *taken, mlp_message *why) {
    emu_options options;
    dev_info info;
    (void)taken;
    if (!spec)
        return MLPBWD_NO_DEVICE; /* never chosen, and no reason to name */
    mlpbwd_status status = read_options(&options, why);
    if (!status)
        status = fill_info(spec, &options, &info, why);
    if (status)
        return status;
    emulated_device *device = calloc(1, sizeof *device);
    if (!device || pthread_mutex_init(&device->mutex, NULL) != 0) {
        free(device);
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory to open device %s", spec);
    }
    device->base.info = info;
    device->options = options;
    device->context.backend = &dev_backend_emulated;
    device->context.device = &device->base;
    *out = &device->base;
    return MLPBWD_OK;
}

static void close_emulated(dev *base) {
    emulated_device *device = (emulated_device *)base;
    if (!dev_is_forked(base)) /* in a child another thread of the parent may have held it */
        pthread_mutex_destroy(&device->mutex);
    free(device);
}

static void describe(const dev *device, dev_info *info) {
    (void)device;
    if (emulated_compiler_version(info->compiler, sizeof info->compiler, NULL))
        info->compiler[0] = 0;
}

static mlpbwd_status context_get(dev *device, dev_context **out, mlp_message *why) {
    (void)why;
    dev_retain(device);
    *out = &((emulated_device *)device)->context;
    return MLPBWD_OK;
}

static void context_release(dev_context *context) {
    dev_release(context->device);
}

/* ---- memory ---- */

static mlpbwd_status alloc(dev_context *context, size_t size, void **out, mlp_message *why) {
    *out = emu_global_allocate(size);
    if (!*out)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for %zu bytes on device %s", size,
                        context->device->info.id);
    return MLPBWD_OK;
}

static void free_memory(dev_context *context, void *pointer) {
    (void)context;
    (void)emu_global_free(pointer); /* as everywhere, what was not allocated is the caller's mistake */
}

static mlpbwd_status check_range(const dev_context *context, const void *memory, size_t size, const char *what,
                                 mlp_message *why) {
    if (emu_global_contains(memory, size))
        return MLPBWD_OK;
    return mlp_fail(why, MLPBWD_DEVICE_ERROR, "%s: %p and the %zu bytes from there are not inside one allocation of %s",
                    what, memory, size, context->device->info.id);
}

static mlpbwd_status copy_in(dev_context *context, void *device_memory, const void *host, size_t size,
                             mlp_message *why) {
    mlpbwd_status status = check_range(context, device_memory, size, "copying to the device", why);
    if (status)
        return status;
    memcpy(device_memory, host, size);
    emu_global_host_wrote(device_memory, size);
    return MLPBWD_OK;
}

static mlpbwd_status copy_out(dev_context *context, void *host, const void *device_memory, size_t size,
                              mlp_message *why) {
    mlpbwd_status status = check_range(context, device_memory, size, "copying from the device", why);
    if (!status)
        memcpy(host, device_memory, size);
    emu_global_settle();
    return status;
}

static mlpbwd_status fill(dev_context *context, void *device_memory, int byte, size_t size, dev_stream stream,
                          mlp_message *why) {
    mlpbwd_status status = synchronous_check_stream(context, stream, why);
    if (!status)
        status = check_range(context, device_memory, size, "filling memory", why);
    if (status)
        return status;
    memset(device_memory, byte, size);
    emu_global_host_wrote(device_memory, size);
    return MLPBWD_OK;
}

static mlpbwd_status synchronize(dev_context *context, mlp_message *why) {
    (void)context;
    (void)why;
    emu_global_settle();
    return MLPBWD_OK;
}

const dev_backend dev_backend_emulated = {
    .name = "emulated",
    .compiler = "emulated",
    .owns_spec = owns_spec,
    .list = list,
    .open = open_emulated,
    .close = close_emulated,
    .describe = describe,
    .context_get = context_get,
    .context_release = context_release,
    .context_enter = synchronous_context_enter,
    .context_leave = synchronous_context_leave,
    .module_load = emulated_module_load,
    .module_unload = emulated_module_unload,
    .function_get = emulated_function_get,
    .launch = emulated_launch,
    .launch_with = emulated_launch_with,
    .active_clusters = emulated_active_clusters,
    .tensor_map_encode = emu_tensor_map_encode,
    .alloc = alloc,
    .free = free_memory,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .fill = fill,
    .synchronize = synchronize,
    .stream_create = synchronous_stream_create,
    .stream_destroy = synchronous_stream_destroy,
    .event_create = synchronous_event_create,
    .event_destroy = synchronous_event_destroy,
    .stream_order = synchronous_stream_order,
    .stream_capture_id = synchronous_stream_capture_id,
};
