/* Parts of the host backend. Private to runtime/device. */
#ifndef DEVICE_HOST_H
#define DEVICE_HOST_H

#include "backend.h"
#include "host_pool.h"

typedef struct host_device {
    dev base;
    dev_context context;   /* the only one; a reference to it is a reference to the device */
    pthread_mutex_t mutex; /* guards the making of pool and the modules' lists of functions */
    host_pool *pool;       /* made with the first module, so that opening the device starts no thread */
} host_device;

/* The context's device as this backend knows it. */
host_device *host_of(const dev_context *context);

/* Facts of this machine; everything but what takes a compiler's start. */
void host_fill_info(dev_info *info);

/* Backend functions of host_module.c and host_time.c. */
mlpbwd_status host_module_load(dev_context *context, const void *bytes, size_t size, const char *format,
                               dev_module **out, mlp_message *why);
void host_module_unload(dev_module *module);
mlpbwd_status host_function_get(dev_module *module, const char *entry, size_t shared_bytes, dev_function **out,
                                dev_function_info *info, mlp_message *why);
mlpbwd_status host_launch(const dev_function *function, const uint32_t grid[3], const uint32_t block[3],
                          size_t shared_bytes, void **arguments, dev_stream stream, mlp_message *why);
mlpbwd_status host_time(dev_context *context, mlpbwd_status (*enqueue)(void *user, dev_stream stream, mlp_message *why),
                        void *user, dev_timing *timing, mlp_message *why);

#endif
