#include "emulated_kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFERS = 64, COMPILED = 16 };

struct test_kernel {
    dev *device;
    dev_context *context;
    dev_module *module;
    void *buffers[BUFFERS];
    size_t buffer_count;
};

_Noreturn static void give_up(const char *what, const char *why) {
    (void)fprintf(stderr, "%s: %s\n", what, why);
    abort();
}

static void require(mlpbwd_status status, const char *what, const mlp_message *why) {
    if (status != MLPBWD_OK)
        give_up(what, why->text);
}

/* ---- text ---- */

static char *read_piece(const char *piece) {
    if (strchr(piece, '\n'))
        return strdup(piece);
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", SOURCE_DIR, piece);
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t capacity = 0;
    if (!file || getdelim(&text, &capacity, 0, file) < 0)
        give_up(path, "cannot be read");
    (void)fclose(file);
    return text;
}

static const char *value_of(const kernel_fill *fills, const char *name, size_t length) {
    for (; fills && fills->name; fills++)
        if (strlen(fills->name) == length && memcmp(fills->name, name, length) == 0)
            return fills->value;
    give_up("No value is given for the hole", name);
}

static void write_filled(FILE *out, const char *text, const kernel_fill *fills) {
    const char *hole;
    while ((hole = strstr(text, "${")) != NULL) {
        size_t length = strcspn(hole + 2, "}");
        (void)fwrite(text, 1, (size_t)(hole - text), out);
        (void)fputs(value_of(fills, hole + 2, length), out);
        text = hole + 2 + length + (hole[2 + length] == '}');
    }
    (void)fputs(text, out);
}

char *kernel_text(const char *const *pieces, size_t count, const kernel_fill *fills) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        give_up("A kernel's text", "no memory");
    for (size_t i = 0; i < count; i++) {
        char *piece = read_piece(pieces[i]);
        write_filled(out, piece, fills);
        free(piece);
    }
    if (fclose(out) != 0)
        give_up("A kernel's text", "no memory");
    return text;
}

/* ---- loading ---- */

/* What a program has compiled: its tests load the same text again and again. The oldest gives way. */
static struct compiled {
    char *text;
    char compiler[16], target[32];
    dev_image image;
} compiled[COMPILED];
static size_t next_compiled;

static void forget_compiled(void) {
    for (size_t i = 0; i < COMPILED; i++) {
        free(compiled[i].text);
        dev_image_free(&compiled[i].image);
        compiled[i] = (struct compiled){0};
    }
}

static mlpbwd_status compile(const dev_compile_request *request, const dev_image **image, mlp_message *why) {
    for (size_t i = 0; i < COMPILED; i++) {
        const struct compiled *old = &compiled[i];
        *image = &old->image;
        if (old->text && strcmp(old->text, request->source) == 0 && strcmp(old->compiler, request->compiler) == 0 &&
            strcmp(old->target, request->target) == 0)
            return MLPBWD_OK;
    }
    static bool registered;
    if (!registered)
        registered = atexit(forget_compiled) == 0;
    struct compiled *place = &compiled[next_compiled++ % COMPILED];
    free(place->text);
    dev_image_free(&place->image);
    *place = (struct compiled){0};
    *image = &place->image;
    mlpbwd_status status = dev_compile(request, &place->image, why);
    if (status)
        return status;
    place->text = strdup(request->source);
    if (!place->text)
        give_up(request->name, "no memory");
    (void)snprintf(place->compiler, sizeof place->compiler, "%s", request->compiler);
    (void)snprintf(place->target, sizeof place->target, "%s", request->target);
    return MLPBWD_OK;
}

static mlpbwd_status load(test_kernel *kernel, const char *name, const char *text, mlp_message *why) {
    const dev_image *image;
    mlpbwd_status status = dev_context_get(kernel->device, &kernel->context, why);
    if (status)
        return status;
    const dev_compile_request request = {.compiler = dev_compiler_of(kernel->context, "nvrtc"),
                                         .target = dev_get_info(kernel->device)->arch,
                                         .source = text,
                                         .name = name};
    status = compile(&request, &image, why);
    return status ? status
                  : dev_module_load(kernel->context, image->bytes, image->size, image->format, &kernel->module, why);
}

test_kernel *kernel_load(const char *device, const char *name, const char *text, mlpbwd_status *status,
                         mlp_message *why) {
    test_kernel *kernel = calloc(1, sizeof *kernel);
    mlpbwd_status unused;
    if (!kernel)
        give_up("A test's kernel", "no memory");
    if (!status)
        status = &unused;
    *status = dev_open(device, &kernel->device, why);
    if (!*status)
        *status = load(kernel, name, text, why);
    if (*status) {
        kernel_free(kernel);
        return NULL;
    }
    return kernel;
}

void kernel_free(test_kernel *kernel) {
    if (!kernel)
        return;
    dev_module_unload(kernel->module);
    for (size_t i = 0; i < kernel->buffer_count; i++)
        dev_free(kernel->context, kernel->buffers[i]);
    dev_context_release(kernel->context);
    dev_release(kernel->device);
    free(kernel);
}

const dev_info *kernel_device(const test_kernel *kernel) {
    return dev_get_info(kernel->device);
}

dev_context *kernel_context(const test_kernel *kernel) {
    return kernel->context;
}

/* ---- memory ---- */

void *kernel_buffer(test_kernel *kernel, const void *initial, size_t bytes) {
    mlp_message why = {""};
    void *memory = NULL;
    if (kernel->buffer_count == BUFFERS)
        give_up("A test's kernel", "it has no room for so many buffers");
    require(dev_alloc(kernel->context, bytes, &memory, &why), "Device memory", &why);
    kernel->buffers[kernel->buffer_count++] = memory;
    if (initial)
        kernel_write(kernel, memory, initial, bytes);
    return memory;
}

void kernel_write(test_kernel *kernel, void *device_memory, const void *host, size_t bytes) {
    mlp_message why = {""};
    require(dev_copy_in(kernel->context, device_memory, host, bytes, &why), "Copying to the device", &why);
}

void kernel_read(test_kernel *kernel, void *host, const void *device_memory, size_t bytes) {
    mlp_message why = {""};
    require(dev_copy_out(kernel->context, host, device_memory, bytes, &why), "Copying from the device", &why);
}

void kernel_tensor_map(const test_kernel *kernel, const dev_tensor *tensor, dev_tensor_map *out) {
    mlp_message why = {""};
    require(dev_tensor_map_encode(kernel->context, tensor, out, &why), "A tensor map", &why);
}

/* ---- launching ---- */

mlpbwd_status kernel_launch(test_kernel *kernel, const char *entry, const kernel_dims *dims, void **arguments,
                            mlp_message *why) {
    dev_function *function = NULL;
    uint32_t grid[3], block[3];
    for (int i = 0; i < 3; i++) {
        grid[i] = dims->grid[i] ? dims->grid[i] : 1;
        block[i] = dims->block[i] ? dims->block[i] : 1;
    }
    mlpbwd_status status = dev_function_get(kernel->module, entry, dims->shared_bytes, &function, NULL, why);
    return status ? status
                  : dev_launch_with(function, grid, block, dims->shared_bytes, arguments, &dims->attributes, NULL, why);
}

mlpbwd_status kernel_run(test_kernel *kernel, const char *entry, const kernel_dims *dims, void **arguments,
                         mlp_message *why) {
    mlpbwd_status status = kernel_launch(kernel, entry, dims, arguments, why);
    return status ? status : dev_synchronize(kernel->context, why);
}
