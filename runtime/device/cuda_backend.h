/* Parts of the cuda backend. Private to runtime/device. */
#ifndef DEVICE_CUDA_BACKEND_H
#define DEVICE_CUDA_BACKEND_H

#include "backend.h"
#include "cuda_api.h"

typedef struct cuda_context cuda_context;
typedef struct cuda_module cuda_module;

typedef struct cuda_device {
    dev base;
    const cuda_functions *api;
    CUdevice device;
    pthread_mutex_t mutex;  /* guards contexts, their references and retired modules, the modules' lists of functions */
    cuda_context *contexts; /* every one that has references */
} cuda_device;

struct cuda_context {
    dev_context base;
    const cuda_functions *api; /* the device's, one step nearer for the calls that must be quick */
    CUcontext handle;
    unsigned long long id; /* 0: the driver gives none. Handles come again after destruction, ids do not. */
    bool primary;          /* a reference to the primary context is ours */
    unsigned references;
    CUmodule probe_module; /* of cuda_time.c; made at the first dev_time */
    CUfunction probe;
    cuda_module *retired; /* unloaded by their owners, but running or captured work may still need them */
    cuda_context *next;
};

typedef struct cuda_function {
    dev_function base;
    cuda_context *context;
    CUfunction handle;
    struct cuda_function *next; /* of its module */
} cuda_function;

/* The same objects as this backend knows them. */
cuda_device *cuda_device_of(const dev_context *context);
cuda_context *cuda_context_of(dev_context *context);

/* DEVICE_ERROR (OUT_OF_MEMORY for that) with "action: NAME (number): text". */
mlpbwd_status cuda_failed(const cuda_functions *api, cuda_enum result, mlp_message *why, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Makes the context current in this thread if it is not, whatever is; cuda_leave undoes it. No lock, no allocation. */
typedef struct cuda_guard {
    bool pushed, relaxed;
    cuda_enum mode; /* the thread's capture mode before */
} cuda_guard;
mlpbwd_status cuda_enter(cuda_context *context, cuda_guard *guard, mlp_message *why);
/* The same for calls that allocate or load: another thread's stream capture neither forbids them nor is broken. */
mlpbwd_status cuda_enter_setup(cuda_context *context, cuda_guard *guard, mlp_message *why);
/* Turns what cuda_enter began into what cuda_enter_setup gives. */
void cuda_relax(cuda_context *context, cuda_guard *guard);
void cuda_leave(cuda_context *context, const cuda_guard *guard);

/* Backend functions of cuda_context.c, cuda_module.c, cuda_launch.c, cuda_graph.c, cuda_memory.c and cuda_time.c: see
 * device.h. */
mlpbwd_status cuda_context_get(dev *device, dev_context **out, mlp_message *why);
void cuda_context_release(dev_context *context);
mlpbwd_status cuda_context_enter(dev_context *context, bool *pushed, mlp_message *why);
void cuda_context_leave(dev_context *context);
void cuda_context_retain(cuda_context *context);
/* False when the application has destroyed it: what was in it is gone, and the driver must not be asked to free it. */
bool cuda_context_alive(const cuda_context *context);

mlpbwd_status cuda_module_load(dev_context *context, const void *bytes, size_t size, const char *format,
                               dev_module **out, mlp_message *why);
void cuda_module_unload(dev_module *module);
/* Retired modules: taken out, all at once; then either unloaded (the context is current and entered for set-up, and
 * everything enqueued before the taking has run), or put back; forgotten: the driver keeps them, or they are gone. */
cuda_module *cuda_retired_take(cuda_context *context);
void cuda_retired_unload(cuda_context *context, cuda_module *retired);
void cuda_retired_put_back(cuda_context *context, cuda_module *retired);
void cuda_retired_forget(cuda_module *retired);
mlpbwd_status cuda_function_get(dev_module *module, const char *entry, size_t shared_bytes, dev_function **out,
                                dev_function_info *info, mlp_message *why);
mlpbwd_status cuda_launch(const dev_function *function, const uint32_t grid[3], const uint32_t block[3],
                          size_t shared_bytes, void **arguments, dev_stream stream, mlp_message *why);
mlpbwd_status cuda_launch_with(const dev_function *function, const uint32_t grid[3], const uint32_t block[3],
                               size_t shared_bytes, void **arguments, const dev_launch_attributes *attributes,
                               dev_stream stream, mlp_message *why);
mlpbwd_status cuda_active_clusters(const dev_function *function, const uint32_t block[3], size_t shared_bytes,
                                   const uint32_t cluster[3], int *count, mlp_message *why);
mlpbwd_status cuda_tensor_map_encode(dev_context *context, const dev_tensor *tensor, dev_tensor_map *out,
                                     mlp_message *why);

mlpbwd_status cuda_graph_begin(dev_context *context, dev_stream stream, mlp_message *why);
mlpbwd_status cuda_graph_last(dev_context *context, dev_stream stream, dev_graph_node *out, mlp_message *why);
mlpbwd_status cuda_graph_end(dev_context *context, dev_stream stream, dev_graph **out, mlp_message *why);
mlpbwd_status cuda_graph_set(dev_graph *graph, dev_graph_node node, const dev_function *function,
                             const uint32_t grid[3], const uint32_t block[3], size_t shared_bytes, void **arguments,
                             mlp_message *why);
mlpbwd_status cuda_graph_launch(dev_graph *graph, dev_stream stream, mlp_message *why);
void cuda_graph_destroy(dev_graph *graph);

mlpbwd_status cuda_alloc(dev_context *context, size_t size, void **out, mlp_message *why);
void cuda_free(dev_context *context, void *pointer);
mlpbwd_status cuda_copy_in(dev_context *context, void *device_memory, const void *host, size_t size, mlp_message *why);
mlpbwd_status cuda_copy_out(dev_context *context, void *host, const void *device_memory, size_t size, mlp_message *why);
mlpbwd_status cuda_fill(dev_context *context, void *device_memory, int byte, size_t size, dev_stream stream,
                        mlp_message *why);
mlpbwd_status cuda_synchronize(dev_context *context, mlp_message *why);
mlpbwd_status cuda_stream_create(dev_context *context, dev_stream *out, mlp_message *why);
void cuda_stream_destroy(dev_context *context, dev_stream stream);
mlpbwd_status cuda_event_create(dev_context *context, dev_event **out, mlp_message *why);
void cuda_event_destroy(dev_context *context, dev_event *event);
mlpbwd_status cuda_stream_order(dev_context *context, dev_stream earlier, dev_stream later, dev_event *event,
                                mlp_message *why);
mlpbwd_status cuda_stream_capture_id(dev_context *context, dev_stream stream, uint64_t *id, mlp_message *why);

mlpbwd_status cuda_time(dev_context *context, mlpbwd_status (*enqueue)(void *user, dev_stream stream, mlp_message *why),
                        void *user, dev_timing *timing, mlp_message *why);

/* JIT-compiles or loads; the log of a failure is in *why. The context must be current. */
mlpbwd_status cuda_load_image(const cuda_functions *api, const void *image, const char *what, CUmodule *out,
                              mlp_message *why);

#endif
