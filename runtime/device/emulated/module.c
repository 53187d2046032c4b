/* Compiled kernels: loading, what the emulator must know of them, launching. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emulated_backend.h"

typedef struct emulated_function {
    dev_function base;
    emu_code code;                      /* path is the module's */
    const char *entry;                  /* strdup'ed */
    size_t static_bytes, dynamic_bytes; /* shared memory: the module's own; the most that was asked for */
    unsigned threads;                   /* most in a block */
    uint32_t cluster[3];                /* of __cluster_dims__; zeros: none */
    struct emulated_function *next;
} emulated_function;

typedef struct emulated_module {
    dev_module base;
    void *handle;
    char path[PATH_MAX]; /* a file of ours: reports read its line numbers */
    emu_code code;       /* without entry */
    size_t static_bytes;
    emulated_function *functions;
} emulated_module;

/* NULL if there is none. ISO C has no cast from object to function pointers: out points at a function pointer. */
static bool find_symbol(const emulated_module *module, const char *name, void *out) {
    void *address = dlsym(module->handle, name);
    memcpy(out, &address, sizeof address);
    return address != NULL;
}

/* ---- loading ---- */

typedef struct layout {
    uintptr_t base; /* where the module lies: in */
    uintptr_t end;
    size_t tls_bytes;
} layout;

static int read_layout(struct dl_phdr_info *info, size_t size, void *user) {
    layout *found = user;
    (void)size;
    if (info->dlpi_addr != found->base)
        return 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_TLS)
            found->tls_bytes = header->p_memsz;
        else if (header->p_type == PT_LOAD && info->dlpi_addr + header->p_vaddr + header->p_memsz > found->end)
            found->end = info->dlpi_addr + header->p_vaddr + header->p_memsz;
    }
    return 1;
}

/* Binds the module to the emulator and finds its shared memory, which is its thread-local memory. */
static mlpbwd_status bind_module(emulated_module *module, mlp_message *why) {
    unsigned char *(*window)(void);
    struct emu_api *(*bind)(size_t window_start, size_t shared_bytes);
    if (!find_symbol(module, "mlpbwd_window", &window) || !find_symbol(module, "mlpbwd_bind", &bind) ||
        !find_symbol(module, "mlpbwd_shared_range", &module->code.shared_range))
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "the shared object is not of the compiler \"emulated\"");
    const unsigned char *dynamic = window(), *first = NULL;
    const struct link_map *map = NULL;
    if (dlinfo(module->handle, RTLD_DI_LINKMAP, &map) != 0 || dlinfo(module->handle, RTLD_DI_TLS_DATA, &first) != 0 ||
        !first)
        return mlp_fail(why, MLPBWD_DEVICE_ERROR, "the loader does not tell where a kernel's thread-local memory is");
    layout found = {.base = map->l_addr};
    dl_iterate_phdr(read_layout, &found);
    size_t window_start = (size_t)(dynamic - first);
    *bind(window_start, found.tls_bytes) = emu_api_table;
    unsigned char *range, *again;
    size_t dynamic_bytes, range_bytes;
    module->code.shared_range(&range, &range_bytes, &again, &dynamic_bytes);
    module->static_bytes = range_bytes - dynamic_bytes;
    module->code.first = found.base;
    module->code.end = found.end;
    module->code.path = module->path;
    return MLPBWD_OK;
}

mlpbwd_status emulated_module_load(dev_context *context, const void *bytes, size_t size, const char *format,
                                   dev_module **out, mlp_message *why) {
    if (strcmp(format, "emulated-so") != 0)
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "device %s runs machine code of format \"emulated-so\", not \"%s\"",
                        context->device->info.id, format);
    mlpbwd_status status = elf_check(bytes, size, "shared object", why);
    if (status)
        return status;
    emulated_module *module = calloc(1, sizeof *module);
    if (!module)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for a module");
    status = shared_object_write(bytes, size, module->path, why);
    if (status) {
        free(module);
        return status;
    }
    module->handle = dlopen(module->path, RTLD_NOW | RTLD_LOCAL);
    if (module->handle) {
        status = bind_module(module, why);
    } else {
        const char *reason = dlerror();
        status = mlp_fail(why, MLPBWD_DEVICE_ERROR, "could not load an emulated kernel: %s",
                          reason ? reason : "no reason given");
    }
    if (status) {
        if (module->handle)
            dlclose(module->handle);
        unlink(module->path);
        free(module);
        return status;
    }
    dev_retain(context->device);
    module->base.backend = &dev_backend_emulated;
    module->base.context = context;
    *out = &module->base;
    return MLPBWD_OK;
}

void emulated_module_unload(dev_module *base) {
    emulated_module *module = (emulated_module *)base;
    dev_context *context = base->context;
    while (module->functions) {
        emulated_function *next = module->functions->next;
        free((char *)module->functions->entry);
        free(module->functions);
        module->functions = next;
    }
    dlclose(module->handle); /* its failure would leave the code loaded, which harms nobody */
    unlink(module->path);
    free(module);
    dev_context_release(context);
}

/* ---- functions ---- */

/* The symbol mlpbwd_PART_ENTRY. */
static bool find_part(const emulated_module *module, const char *part, const char *entry, void *out) {
    char symbol[512];
    int length = snprintf(symbol, sizeof symbol, "mlpbwd_%s_%s", part, entry);
    return length > 0 && (size_t)length < sizeof symbol && find_symbol(module, symbol, out);
}

static mlpbwd_status check_shared(const dev_context *context, const char *entry, size_t static_bytes, size_t bytes,
                                  mlp_message *why) {
    const dev_info *info = &context->device->info;
    if (bytes <= (size_t)info->shared_bytes_per_block && static_bytes + bytes <= (size_t)info->shared_bytes_per_block)
        return MLPBWD_OK;
    return mlp_fail(why, MLPBWD_UNSUPPORTED,
                    "entry %s wants %zu bytes of shared memory beside the %zu of its module's own; %s gives a block "
                    "at most %lld",
                    entry, bytes, static_bytes, info->id, (long long)info->shared_bytes_per_block);
}

mlpbwd_status emulated_function_get(dev_module *base, const char *entry, size_t shared_bytes, dev_function **out,
                                    dev_function_info *info, mlp_message *why) {
    emulated_module *module = (emulated_module *)base;
    emulated_device *device = emulated_of(base->context);
    emu_code code = module->code;
    if (!find_part(module, "entry", entry, &code.entry))
        return mlp_fail(why, MLPBWD_DEVICE_ERROR, "the machine code has no entry \"%.200s\"", entry);
    mlpbwd_status status = check_shared(base->context, entry, module->static_bytes, shared_bytes, why);
    if (status)
        return status;
    emulated_function *function = calloc(1, sizeof *function);
    char *name = strdup(entry);
    if (!function || !name) {
        free(function);
        free(name);
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for entry %s", entry);
    }
    *function = (emulated_function){.base = {.backend = &dev_backend_emulated, .module = base},
                                    .code = code,
                                    .entry = name,
                                    .static_bytes = module->static_bytes,
                                    .dynamic_bytes = shared_bytes,
                                    .threads = EMU_MAX_THREADS};
    unsigned (*threads)(void);
    void (*cluster)(uint32_t size[3]);
    if (find_part(module, "threads", entry, &threads))
        function->threads = threads();
    if (find_part(module, "cluster", entry, &cluster))
        cluster(function->cluster);
    pthread_mutex_lock(&device->mutex);
    function->next = module->functions;
    module->functions = function;
    pthread_mutex_unlock(&device->mutex);
    *info =
        (dev_function_info){.static_shared_bytes = (int)module->static_bytes, .max_threads = (int)function->threads};
    *out = &function->base;
    return MLPBWD_OK;
}

/* ---- launching ---- */

/* The limits of every CUDA device: CUDA C++ Programming Guide, technical specifications per compute capability. */
static mlpbwd_status check_sizes(const emulated_function *function, const uint32_t grid[3], const uint32_t block[3],
                                 size_t shared_bytes, mlp_message *why) {
    static const uint32_t most_grid[] = {2147483647, 65535, 65535}, most_block[] = {1024, 1024, 64};
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        if (grid[i] > most_grid[i])
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "entry %s: the grid's %c size is %u; at most %u are possible",
                            function->entry, 'x' + i, grid[i], most_grid[i]);
        if (block[i] < 1 || block[i] > most_block[i])
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "entry %s: the block's %c size is %u; 1 to %u are possible",
                            function->entry, 'x' + i, block[i], most_block[i]);
        threads *= block[i];
    }
    if (threads > function->threads)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "entry %s: a block of %llu threads; its __launch_bounds__ and the device allow at most %u",
                        function->entry, (unsigned long long)threads, function->threads);
    if (shared_bytes > function->dynamic_bytes)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "entry %s: a launch with %zu bytes of dynamic shared memory; it was loaded for at most %zu",
                        function->entry, shared_bytes, function->dynamic_bytes);
    return MLPBWD_OK;
}

mlpbwd_status emulated_launch_with(const dev_function *base, const uint32_t grid[3], const uint32_t block[3],
                                   size_t shared_bytes, void **arguments, const dev_launch_attributes *attributes,
                                   dev_stream stream, mlp_message *why) {
    const emulated_function *function = (const emulated_function *)base;
    const dev_context *context = base->module->context;
    char fault[MLP_MESSAGE_CAPACITY];
    mlpbwd_status status = dev_check_process(context->device, why);
    if (!status)
        status = synchronous_check_stream(context, stream, why);
    if (!status)
        status = check_sizes(function, grid, block, shared_bytes, why);
    emu_dims dims = {.shared_bytes = (uint32_t)shared_bytes, .programmatic = attributes && attributes->programmatic};
    for (int i = 0; i < 3 && !status; i++) {
        uint32_t asked = attributes && attributes->cluster[i] ? attributes->cluster[i] : 1, own = function->cluster[i];
        dims.grid[i] = grid[i];
        dims.block[i] = block[i];
        dims.cluster[i] = own ? own : asked;
        if (own && asked != 1 && asked != own)
            status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                              "entry %s: the launch's clusters have %c size %u, its __cluster_dims__ say %u",
                              function->entry, 'x' + i, asked, own);
        else if (grid[i] % dims.cluster[i])
            status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                              "entry %s: a grid with %c size %u cannot be cut into clusters of %u", function->entry,
                              'x' + i, grid[i], dims.cluster[i]);
    }
    if (status)
        return status;
    if (emu_launch_run(&function->code, &dims, &emulated_of(context)->options, arguments, fault, sizeof fault))
        return MLPBWD_OK;
    return mlp_fail(why, MLPBWD_DEVICE_ERROR, "entry %s on %s: %s", function->entry, context->device->info.id, fault);
}

mlpbwd_status emulated_launch(const dev_function *base, const uint32_t grid[3], const uint32_t block[3],
                              size_t shared_bytes, void **arguments, dev_stream stream, mlp_message *why) {
    return emulated_launch_with(base, grid, block, shared_bytes, arguments, NULL, stream, why);
}

mlpbwd_status emulated_active_clusters(const dev_function *base, const uint32_t block[3], size_t shared_bytes,
                                       const uint32_t cluster[3], int *count, mlp_message *why) {
    const emulated_function *function = (const emulated_function *)base;
    mlpbwd_status status = check_sizes(function, (const uint32_t[3]){1, 1, 1}, block, shared_bytes, why);
    if (!status)
        *count = (int)(emulated_of(base->module->context)->options.units / (cluster[0] * cluster[1] * cluster[2]));
    return status;
}

/* ---- what compiled kernels call ---- */

void emu_api_misaligned(const void *address, emu_u32 alignment, const void *origin) {
    emu_fault(emu_self(), (uintptr_t)origin, "a load or store at %p, which is not a multiple of %u as its type needs",
              (void *)(uintptr_t)address, alignment);
}
