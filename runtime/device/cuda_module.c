/* CUDA machine code: loading, and functions that have nothing left to load. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_backend.h"

struct cuda_module {
    dev_module base;
    CUmodule handle;
    cuda_function *functions;
    cuda_module *next; /* in its context's list of retired modules */
};

mlpbwd_status cuda_load_image(const cuda_functions *api, const void *image, const char *what, CUmodule *out,
                              mlp_message *why) {
    char info[1024] = "", errors[sizeof info] = "";
    cuda_enum options[] = {MLP_CU_JIT_INFO_LOG_BUFFER, MLP_CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                           MLP_CU_JIT_ERROR_LOG_BUFFER, MLP_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {info, NULL, errors, NULL};
    const size_t capacity = sizeof info; /* passed as the pointers themselves */
    memcpy(&values[1], &capacity, sizeof capacity);
    memcpy(&values[3], &capacity, sizeof capacity);
    cuda_enum result = api->cuModuleLoadDataEx(out, image, 4, options, values);
    if (result == MLP_CUDA_SUCCESS)
        return MLPBWD_OK;
    info[sizeof info - 1] = errors[sizeof errors - 1] = 0;
    mlpbwd_status status =
        cuda_failed(api, result, why, "%s could not be loaded%s%s", what, errors[0] ? ": " : "", errors);
    if (result == MLP_CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
        return mlp_fail(why, MLPBWD_UNSUPPORTED,
                        "%s is newer than the NVIDIA driver understands; a newer driver would be", what);
    if (result == MLP_CUDA_ERROR_NO_BINARY_FOR_GPU)
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "%s is not for this GPU's architecture", what);
    return status;
}

/* PTX ends with a NUL for the driver. */
static mlpbwd_status load_text(cuda_context *context, const void *bytes, size_t size, CUmodule *out, mlp_message *why) {
    char *text = malloc(size + 1);
    if (!text)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for %zu bytes of PTX", size);
    memcpy(text, bytes, size);
    text[size] = 0;
    mlpbwd_status status = cuda_load_image(context->api, text, "PTX", out, why);
    free(text);
    return status;
}

mlpbwd_status cuda_module_load(dev_context *base, const void *bytes, size_t size, const char *format, dev_module **out,
                               mlp_message *why) {
    cuda_context *context = cuda_context_of(base);
    bool cubin = strcmp(format, "cubin") == 0;
    if (!cubin && strcmp(format, "ptx") != 0)
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "%s runs machine code of format \"cubin\" or \"ptx\", not \"%s\"",
                        base->device->info.id, format);
    mlpbwd_status status = cubin ? elf_check(bytes, size, "cubin", why) : MLPBWD_OK;
    if (status)
        return status;
    cuda_module *module = calloc(1, sizeof *module);
    if (!module)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for a module");
    cuda_guard guard;
    status = cuda_enter_setup(context, &guard, why);
    if (!status) {
        status = cubin ? cuda_load_image(context->api, bytes, "a cubin", &module->handle, why)
                       : load_text(context, bytes, size, &module->handle, why);
        cuda_leave(context, &guard);
    }
    if (status) {
        free(module);
        return status;
    }
    cuda_context_retain(context);
    module->base.backend = &dev_backend_cuda;
    module->base.context = base;
    *out = &module->base;
    return MLPBWD_OK;
}

/* ---- modules that nobody owns any more ---- */

/* The driver is not asked for anything: code that runs must not be freed, and waiting for it (cuCtxSynchronize, even in
 * relaxed capture mode) invalidates a capture that another thread has under way. */
void cuda_module_unload(dev_module *base) {
    cuda_module *module = (cuda_module *)base;
    cuda_context *context = cuda_context_of(base->context);
    cuda_device *device = cuda_device_of(base->context);
    while (module->functions) {
        cuda_function *next = module->functions->next;
        free(module->functions);
        module->functions = next;
    }
    pthread_mutex_lock(&device->mutex);
    module->next = context->retired;
    context->retired = module;
    pthread_mutex_unlock(&device->mutex);
    dev_context_release(&context->base); /* the last reference frees the module with the context */
}

cuda_module *cuda_retired_take(cuda_context *context) {
    cuda_device *device = cuda_device_of(&context->base);
    pthread_mutex_lock(&device->mutex);
    cuda_module *retired = context->retired;
    context->retired = NULL;
    pthread_mutex_unlock(&device->mutex);
    return retired;
}

void cuda_retired_unload(cuda_context *context, cuda_module *retired) {
    bool alive = cuda_context_alive(context);
    for (cuda_module *module = retired; module && alive; module = module->next)
        (void)context->api->cuModuleUnload(module->handle); /* fails only after an error that others report */
    cuda_retired_forget(retired);
}

void cuda_retired_put_back(cuda_context *context, cuda_module *retired) {
    cuda_device *device = cuda_device_of(&context->base);
    if (!retired)
        return;
    cuda_module *last = retired;
    while (last->next)
        last = last->next;
    pthread_mutex_lock(&device->mutex);
    last->next = context->retired;
    context->retired = retired;
    pthread_mutex_unlock(&device->mutex);
}

void cuda_retired_forget(cuda_module *retired) {
    while (retired) {
        cuda_module *next = retired->next;
        free(retired);
        retired = next;
    }
}

/* ---- functions ---- */

/* Loads everything of the function now (drivers load lazily, and a first launch under stream capture could not), and
 * raises the limit of dynamic shared memory. */
static mlpbwd_status prepare(const cuda_functions *api, CUfunction function, const char *entry, size_t shared_bytes,
                             dev_function_info *info, mlp_message *why) {
    const struct {
        cuda_enum which;
        int *value;
    } wanted[] = {{MLP_CU_FUNC_ATTRIBUTE_NUM_REGS, &info->registers},
                  {MLP_CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &info->local_bytes},
                  {MLP_CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &info->static_shared_bytes},
                  {MLP_CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &info->max_threads}};
    /* Drivers before 12.4 have no cuFuncLoad; there reading an attribute loads. */
    cuda_enum result = api->cuFuncLoad ? api->cuFuncLoad(function) : MLP_CUDA_SUCCESS;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0] && !result; i++)
        result = api->cuFuncGetAttribute(wanted[i].value, wanted[i].which, function);
    if (result)
        return cuda_failed(api, result, why, "entry %s could not be loaded", entry);
    if (shared_bytes == 0)
        return MLPBWD_OK;
    result = api->cuFuncSetAttribute(function, MLP_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared_bytes);
    if (result)
        return cuda_failed(api, result, why, "entry %s cannot have %zu bytes of dynamic shared memory", entry,
                           shared_bytes);
    return MLPBWD_OK;
}

static mlpbwd_status find(cuda_module *module, cuda_context *context, const char *entry, CUfunction *handle,
                          mlp_message *why) {
    cuda_enum result = context->api->cuModuleGetFunction(handle, module->handle, entry);
    if (result == MLP_CUDA_ERROR_NOT_FOUND)
        return mlp_fail(why, MLPBWD_DEVICE_ERROR, "the machine code has no entry \"%s\"", entry);
    if (result)
        return cuda_failed(context->api, result, why, "entry %s could not be loaded", entry);
    return MLPBWD_OK;
}

mlpbwd_status cuda_function_get(dev_module *base, const char *entry, size_t shared_bytes, dev_function **out,
                                dev_function_info *info, mlp_message *why) {
    cuda_module *module = (cuda_module *)base;
    cuda_context *context = cuda_context_of(base->context);
    cuda_device *device = cuda_device_of(base->context);
    int64_t most = device->base.info.shared_bytes_per_block;
    if (shared_bytes > (size_t)most)
        return mlp_fail(why, MLPBWD_UNSUPPORTED,
                        "entry %s wants %zu bytes of shared memory; %s gives a block at most %lld", entry, shared_bytes,
                        device->base.info.id, (long long)most);
    cuda_function *function = calloc(1, sizeof *function);
    if (!function)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for entry %s", entry);
    cuda_guard guard;
    mlpbwd_status status = cuda_enter_setup(context, &guard, why);
    if (!status) {
        status = find(module, context, entry, &function->handle, why);
        if (!status)
            status = prepare(context->api, function->handle, entry, shared_bytes, info, why);
        cuda_leave(context, &guard);
    }
    if (status) {
        free(function);
        return status;
    }
    function->base.backend = &dev_backend_cuda;
    function->base.module = base;
    function->context = context;
    pthread_mutex_lock(&device->mutex);
    function->next = module->functions;
    module->functions = function;
    pthread_mutex_unlock(&device->mutex);
    *out = &function->base;
    return MLPBWD_OK;
}
