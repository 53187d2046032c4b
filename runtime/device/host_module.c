/* Shared objects with emitted C kernels: loaded from memory, called over a grid. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host.h"

typedef struct host_function {
    dev_function base;
    host_entry entry;
    host_pool *pool;
    struct host_function *next;
} host_function;

typedef struct host_module {
    dev_module base;
    void *handle;
    host_function *functions;
} host_module;

/* The loader takes a path that it has seen for the library that it then loaded, and a closed descriptor's number comes
 * again. So every path is spelled differently: the bits of a counter as "./" or "//", which the kernel reads as
 * nothing. */
static void descriptor_path(int file, char *path, size_t capacity) {
    static atomic_uint counter;
    unsigned spelling = atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed);
    size_t length = (size_t)snprintf(path, capacity, "/proc/self/fd/");
    for (int bit = 0; bit < 32; bit++)
        length += (size_t)snprintf(path + length, capacity - length, "%s", spelling >> bit & 1 ? "//" : "./");
    snprintf(path + length, capacity - length, "%d", file);
}

static void *load_from_memory(const void *bytes, size_t size) {
    int file = memfd_create("mlpbwd-kernel", MFD_CLOEXEC);
    if (file < 0)
        return NULL;
    void *handle = NULL;
    if (file_write_all(file, bytes, size)) {
        char path[128];
        descriptor_path(file, path, sizeof path);
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    close(file); /* the mapping stays */
    return handle;
}

/* For systems without memfd or /proc, or that allow no code from there. */
static void *load_from_file(const void *bytes, size_t size, mlp_message *why) {
    char path[PATH_MAX];
    if (shared_object_write(bytes, size, path, why))
        return NULL;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *reason = dlerror();
        mlp_fail(why, MLPBWD_DEVICE_ERROR, "could not load host machine code: %s", reason ? reason : "no reason given");
    }
    unlink(path);
    return handle;
}

mlpbwd_status host_module_load(dev_context *context, const void *bytes, size_t size, const char *format,
                               dev_module **out, mlp_message *why) {
    host_device *device = host_of(context);
    if (strcmp(format, "elf-so") != 0)
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "device host runs machine code of format \"elf-so\", not \"%s\"",
                        format);
    mlpbwd_status status = elf_check(bytes, size, "shared object", why);
    if (status)
        return status;
    host_module *module = calloc(1, sizeof *module);
    if (!module)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for a module");
    module->handle = load_from_memory(bytes, size);
    if (!module->handle)
        module->handle = load_from_file(bytes, size, why);
    if (!module->handle) {
        free(module);
        return MLPBWD_DEVICE_ERROR;
    }
    pthread_mutex_lock(&device->mutex);
    if (!device->pool)
        device->pool = host_pool_create(device->base.info.units);
    pthread_mutex_unlock(&device->mutex);
    dev_retain(context->device);
    module->base.backend = &dev_backend_host;
    module->base.context = context;
    *out = &module->base;
    return MLPBWD_OK;
}

void host_module_unload(dev_module *base) {
    host_module *module = (host_module *)base;
    dev_context *context = base->context;
    while (module->functions) {
        host_function *next = module->functions->next;
        free(module->functions);
        module->functions = next;
    }
    dlclose(module->handle); /* its failure would leave the code loaded, which harms nobody */
    free(module);
    dev_context_release(context);
}

mlpbwd_status host_function_get(dev_module *base, const char *entry, size_t shared_bytes, dev_function **out,
                                dev_function_info *info, mlp_message *why) {
    host_module *module = (host_module *)base;
    host_device *device = host_of(base->context);
    if (shared_bytes)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "entry %s wants %zu bytes of shared memory; device host has none: it must be 0", entry,
                        shared_bytes);
    void *address = dlsym(module->handle, entry);
    if (!address)
        return mlp_fail(why, MLPBWD_DEVICE_ERROR, "the machine code has no entry \"%s\"", entry);
    host_function *function = calloc(1, sizeof *function);
    if (!function)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for entry %s", entry);
    function->base.backend = &dev_backend_host;
    function->base.module = base;
    memcpy(&function->entry, &address, sizeof address); /* ISO C has no cast from object to function pointers */
    pthread_mutex_lock(&device->mutex);
    function->pool = device->pool;
    function->next = module->functions;
    module->functions = function;
    pthread_mutex_unlock(&device->mutex);
    *info = (dev_function_info){.max_threads = device->base.info.units};
    *out = &function->base;
    return MLPBWD_OK;
}

mlpbwd_status host_launch(const dev_function *base, const uint32_t grid[3], const uint32_t block[3],
                          size_t shared_bytes, void **arguments, dev_stream stream, mlp_message *why) {
    const host_function *function = (const host_function *)base;
    (void)shared_bytes;
    mlpbwd_status status = synchronous_check_stream(base->module->context, stream, why);
    if (status)
        return status;
    uint64_t points = (uint64_t)grid[0] * grid[1];
    if (__builtin_mul_overflow(points, grid[2], &points) || points > INT64_MAX)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "a grid of %u x %u x %u has more than 2^63 points", grid[0],
                        grid[1], grid[2]);
    host_pool_run(function->pool, function->entry, arguments, grid, points, block[0]);
    return MLPBWD_OK;
}
