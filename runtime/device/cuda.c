/* The cuda backend: finding, describing and opening devices. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_backend.h"

mlpbwd_status cuda_failed(const cuda_functions *api, cuda_enum result, mlp_message *why, const char *format, ...) {
    const char *name = NULL, *text = NULL;
    char action[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(action, sizeof action, format, arguments);
    va_end(arguments);
    if (length < 0)
        action[0] = 0;
    if (api->cuGetErrorName(result, &name) != MLP_CUDA_SUCCESS || !name)
        name = "unknown error";
    if (api->cuGetErrorString(result, &text) != MLP_CUDA_SUCCESS || !text)
        text = "no text";
    bool memory = result == MLP_CUDA_ERROR_OUT_OF_MEMORY;
    return mlp_fail(why, memory ? MLPBWD_OUT_OF_MEMORY : MLPBWD_DEVICE_ERROR, "%s: %s (%u): %s%s", action, name, result,
                    text, memory ? "" : " (it may stem from earlier work on the device)");
}

static int attribute(const cuda_functions *api, CUdevice device, cuda_enum which) {
    int value = 0;
    return api->cuDeviceGetAttribute(&value, which, device) == MLP_CUDA_SUCCESS ? value : 0;
}

/* "580.159.04 (CUDA 13.0)"; version "" leaves "CUDA 13.0". */
static void driver_text(const cuda_functions *api, const char *version, char *text, size_t capacity) {
    int cuda = 0;
    if (api->cuDriverGetVersion(&cuda) != MLP_CUDA_SUCCESS)
        cuda = 0;
    char number[32];
    snprintf(number, sizeof number, "CUDA %d.%d", cuda / 1000, cuda % 1000 / 10);
    if (version[0])
        snprintf(text, capacity, "%.40s (%.20s)", version, number);
    else
        snprintf(text, capacity, "%s", number);
}

/* The kernel module's version without NVML, which takes longer to start than everything else here; "" if hidden. */
static void module_version(char *text, size_t capacity) {
    FILE *file = fopen("/sys/module/nvidia/version", "re");
    text[0] = 0;
    if (!file)
        return;
    if (!fgets(text, (int)capacity, file))
        text[0] = 0;
    fclose(file);
    text[strcspn(text, "\n")] = 0;
}

static mlpbwd_status fill_info(const cuda_functions *api, int ordinal, CUdevice device, dev_info *info,
                               mlp_message *why) {
    memset(info, 0, sizeof *info);
    snprintf(info->id, sizeof info->id, "cuda:%d", ordinal);
    snprintf(info->backend, sizeof info->backend, "cuda");
    cuda_enum result = api->cuDeviceGetName(info->name, sizeof info->name, device);
    if (result)
        return cuda_failed(api, result, why, "%s: no name", info->id);
    info->compute_capability = 10 * attribute(api, device, MLP_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                               attribute(api, device, MLP_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    info->ladder_length = dev_cuda_ladder(info->compute_capability, info->ladder);
    if (info->ladder_length)
        snprintf(info->arch, sizeof info->arch, "%s", info->ladder[0]);
    info->units = attribute(api, device, MLP_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    size_t memory = 0;
    result = api->cuDeviceTotalMem_v2(&memory, device);
    if (result)
        return cuda_failed(api, result, why, "%s: no memory size", info->id);
    info->memory_bytes = (int64_t)memory;
    info->l2_bytes = attribute(api, device, MLP_CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    info->shared_bytes_per_block = attribute(api, device, MLP_CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    info->max_clock_mhz = attribute(api, device, MLP_CU_DEVICE_ATTRIBUTE_CLOCK_RATE) / 1000.0;
    char version[64];
    module_version(version, sizeof version);
    driver_text(api, version, info->driver, sizeof info->driver);
    return MLPBWD_OK;
}

/* Adds what NVML and NVRTC tell. */
static void fill_slow_info(const cuda_functions *api, CUdevice device, dev_info *info) {
    char bus_id[32], version[64] = "";
    if (api->cuDeviceGetPCIBusId(bus_id, sizeof bus_id, device) == MLP_CUDA_SUCCESS &&
        nvml_describe(bus_id, &info->power_limit_w, &info->max_clock_mhz, version, sizeof version))
        driver_text(api, version, info->driver, sizeof info->driver);
    if (nvrtc_version(info->compiler, sizeof info->compiler, NULL))
        info->compiler[0] = 0;
}

static void describe(const dev *base, dev_info *info) {
    const cuda_device *device = (const cuda_device *)base;
    if (!dev_is_forked(base))
        fill_slow_info(device->api, device->device, info);
}

static void list(void (*visit)(void *user, const dev_info *info), void (*note)(void *user, const char *sentence),
                 void *user) {
    mlp_message why;
    const cuda_functions *api = cuda_driver(&why);
    int count = 0;
    if (!api && note)
        note(user, why.text);
    if (api && api->cuDeviceGetCount(&count) != MLP_CUDA_SUCCESS && note)
        note(user, "the NVIDIA driver does not say how many devices there are");
    for (int i = 0; i < count; i++) {
        CUdevice device;
        dev_info info;
        cuda_enum result = api->cuDeviceGet(&device, i);
        mlpbwd_status status = result ? cuda_failed(api, result, &why, "cuda:%d cannot be used", i)
                                      : fill_info(api, i, device, &info, &why);
        if (status) {
            if (note)
                note(user, why.text);
            continue;
        }
        fill_slow_info(api, device, &info);
        visit(user, &info);
        if (info.ladder_length == 0 && note) {
            mlp_fail(&why, MLPBWD_OK, "cuda:%d (%s) has compute capability %d.%d; kernels need 8.0 or later", i,
                     info.name, info.compute_capability / 10, info.compute_capability % 10);
            note(user, why.text);
        }
    }
    char version[64];
    if (note && nvrtc_version(version, sizeof version, &why))
        note(user, why.text);
}

static bool owns_spec(const char *spec) {
    return strncmp(spec, "cuda", 4) == 0 && (spec[4] == 0 || spec[4] == ':');
}

/* The number of "cuda:N"; -1 if it is none. */
static int parse_ordinal(const char *spec) {
    if (strncmp(spec, "cuda:", 5) != 0 || !isdigit((unsigned char)spec[5]))
        return -1;
    long value = 0;
    for (const char *c = spec + 5; *c; c++) {
        if (!isdigit((unsigned char)*c) || value > 99999)
            return -1;
        value = value * 10 + (*c - '0');
    }
    return (int)value;
}

static mlpbwd_status open_ordinal(const cuda_functions *api, int ordinal, dev **out, mlp_message *why) {
    cuda_device *opened = calloc(1, sizeof *opened);
    if (!opened || pthread_mutex_init(&opened->mutex, NULL) != 0) {
        free(opened);
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory to open cuda:%d", ordinal);
    }
    opened->api = api;
    cuda_enum result = api->cuDeviceGet(&opened->device, ordinal);
    mlpbwd_status status = result ? cuda_failed(api, result, why, "cuda:%d cannot be opened", ordinal)
                                  : fill_info(api, ordinal, opened->device, &opened->base.info, why);
    if (!status && opened->base.info.ladder_length == 0)
        status = mlp_fail(why, MLPBWD_NO_DEVICE, "cuda:%d (%s) has compute capability %d.%d; 8.0 or later is needed",
                          ordinal, opened->base.info.name, opened->base.info.compute_capability / 10,
                          opened->base.info.compute_capability % 10);
    if (status) {
        pthread_mutex_destroy(&opened->mutex);
        free(opened);
        return status;
    }
    *out = &opened->base;
    return MLPBWD_OK;
}

/* The ordinal of the device whose context is current in this thread; -1 if none is. */
static int current_ordinal(const cuda_functions *api, int count) {
    CUcontext context = NULL;
    CUdevice device, other;
    if (api->cuCtxGetCurrent(&context) != MLP_CUDA_SUCCESS || !context ||
        api->cuCtxGetDevice(&device) != MLP_CUDA_SUCCESS)
        return -1;
    for (int i = 0; i < count; i++)
        if (api->cuDeviceGet(&other, i) == MLP_CUDA_SUCCESS && other == device)
            return i;
    return -1;
}

static mlpbwd_status open_best(const cuda_functions *api, int count, dev **out, bool *taken, mlp_message *why) {
    int current = current_ordinal(api, count);
    if (current >= 0) {
        *taken = true; /* the caller's tensors are there: another device could only be wrong */
        return open_ordinal(api, current, out, why);
    }
    if (count == 0)
        return mlp_fail(why, MLPBWD_NO_DEVICE, "the NVIDIA driver shows none");
    mlpbwd_status status = MLPBWD_NO_DEVICE;
    for (int i = 0; i < count && status; i++)
        status = open_ordinal(api, i, out, why);
    return status;
}

static mlpbwd_status open_spec(const char *spec, dev **out, bool *taken, mlp_message *why) {
    int count = 0;
    int ordinal = spec ? parse_ordinal(spec) : 0;
    if (ordinal < 0)
        return mlp_fail(why, MLPBWD_NO_DEVICE, "device \"%.64s\" is not known; \"cuda:0\" would be right", spec);
    const cuda_functions *api = cuda_driver(why);
    if (!api) {
        if (spec)
            mlp_prefix(why, "%s", spec);
        return MLPBWD_NO_DEVICE;
    }
    cuda_enum result = api->cuDeviceGetCount(&count);
    if (result) {
        cuda_failed(api, result, why, "no count of the CUDA devices");
        return MLPBWD_NO_DEVICE;
    }
    if (!spec)
        return open_best(api, count, out, taken, why);
    if (ordinal >= count)
        return mlp_fail(why, MLPBWD_NO_DEVICE, "device \"%.64s\" does not exist: there %s %d CUDA device%s here%s",
                        spec, count == 1 ? "is" : "are", count, count == 1 ? "" : "s", count ? ", from cuda:0 on" : "");
    return open_ordinal(api, ordinal, out, why);
}

static mlpbwd_status open_cuda(const char *spec, dev **out, bool *taken, mlp_message *why) {
    mlpbwd_status status = open_spec(spec, out, taken, why);
    if (status && !spec && !*taken)
        mlp_prefix(why, "no CUDA device");
    return status;
}

static void close_cuda(dev *base) {
    cuda_device *device = (cuda_device *)base; /* its contexts hold references: there are none left */
    if (!dev_is_forked(base))
        pthread_mutex_destroy(&device->mutex);
    free(device);
}

const dev_backend dev_backend_cuda = {
    .name = "cuda",
    .owns_spec = owns_spec,
    .list = list,
    .open = open_cuda,
    .close = close_cuda,
    .describe = describe,
    .context_get = cuda_context_get,
    .context_release = cuda_context_release,
    .context_enter = cuda_context_enter,
    .context_leave = cuda_context_leave,
    .module_load = cuda_module_load,
    .module_unload = cuda_module_unload,
    .function_get = cuda_function_get,
    .launch = cuda_launch,
    .launch_with = cuda_launch_with,
    .active_clusters = cuda_active_clusters,
    .tensor_map_encode = cuda_tensor_map_encode,
    .graph_begin = cuda_graph_begin,
    .graph_last = cuda_graph_last,
    .graph_end = cuda_graph_end,
    .graph_set = cuda_graph_set,
    .graph_launch = cuda_graph_launch,
    .graph_destroy = cuda_graph_destroy,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .fill = cuda_fill,
    .synchronize = cuda_synchronize,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .stream_order = cuda_stream_order,
    .stream_capture_id = cuda_stream_capture_id,
    .time = cuda_time,
};
