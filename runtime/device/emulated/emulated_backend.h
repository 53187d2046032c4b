/* Parts of the emulated backend. Private to this folder. */
#ifndef EMULATED_BACKEND_H
#define EMULATED_BACKEND_H

#include "../backend.h"
#include "emulator.h"

typedef struct emulated_device {
    dev base;
    dev_context context;   /* the only one; a reference to it is a reference to the device */
    pthread_mutex_t mutex; /* guards the modules' lists of functions */
    emu_options options;
} emulated_device;

static inline emulated_device *emulated_of(const dev_context *context) {
    return (emulated_device *)context->device; /* base is its first member */
}

/* Backend functions of module.c. */
mlpbwd_status emulated_module_load(dev_context *context, const void *bytes, size_t size, const char *format,
                                   dev_module **out, mlp_message *why);
void emulated_module_unload(dev_module *module);
mlpbwd_status emulated_function_get(dev_module *module, const char *entry, size_t shared_bytes, dev_function **out,
                                    dev_function_info *info, mlp_message *why);
mlpbwd_status emulated_launch(const dev_function *function, const uint32_t grid[3], const uint32_t block[3],
                              size_t shared_bytes, void **arguments, dev_stream stream, mlp_message *why);
mlpbwd_status emulated_launch_with(const dev_function *function, const uint32_t grid[3], const uint32_t block[3],
                                   size_t shared_bytes, void **arguments, const dev_launch_attributes *attributes,
                                   dev_stream stream, mlp_message *why);
mlpbwd_status emulated_active_clusters(const dev_function *function, const uint32_t block[3], size_t shared_bytes,
                                       const uint32_t cluster[3], int *count, mlp_message *why);

#endif
