/* What a device backend provides, and the parts of the opaque types of device.h that every backend shares. Private to
 * runtime/device. device.c forwards each dev_ function to the backend of its first argument. */
#ifndef DEVICE_BACKEND_H
#define DEVICE_BACKEND_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "device.h"

typedef struct dev_backend dev_backend;

/* Backends embed these as the first member of their own structs. */
struct dev {
    const dev_backend *backend;
    atomic_int references;
    pid_t process; /* that opened it: a forked child may neither use nor free what the parent's driver or pool owns */
    dev_info info;
};

struct dev_context {
    const dev_backend *backend;
    dev *device; /* a reference */
};

struct dev_module {
    const dev_backend *backend;
    dev_context *context; /* a reference */
};

struct dev_function {
    const dev_backend *backend;
    dev_module *module;
};

struct dev_graph {
    const dev_backend *backend;
    dev_context *context; /* not a reference: whoever made the graph has one */
};

/* Functions mean what their namesakes in device.h say; sizes of 0 have been dealt with by device.c. */
struct dev_backend {
    const char *name;
    const char *compiler; /* makes its machine code, whatever an architecture's file says; NULL: what the file says */
    /* Is the text one of this backend's specs, whether or not the device exists? */
    bool (*owns_spec)(const char *spec);
    void (*list)(void (*visit)(void *user, const dev_info *info), void (*note)(void *user, const char *sentence),
                 void *user);
    /* spec NULL: the best device of this backend, NO_DEVICE if it has none. *taken (may be NULL) becomes true when the
     * failure must not fall through to the next backend. Fills everything but backend, references and process. */
    mlpbwd_status (*open)(const char *spec, dev **out, bool *taken, mlp_message *why);
    void (*close)(dev *device);
    void (*describe)(const dev *device, dev_info *info); /* adds the facts that cost time to info */

    mlpbwd_status (*context_get)(dev *device, dev_context **out, mlp_message *why);
    void (*context_release)(dev_context *context);
    mlpbwd_status (*context_enter)(dev_context *context, bool *pushed, mlp_message *why);
    void (*context_leave)(dev_context *context);

    mlpbwd_status (*module_load)(dev_context *context, const void *bytes, size_t size, const char *format,
                                 dev_module **out, mlp_message *why);
    void (*module_unload)(dev_module *module);
    mlpbwd_status (*function_get)(dev_module *module, const char *entry, size_t shared_bytes, dev_function **out,
                                  dev_function_info *info, mlp_message *why);
    mlpbwd_status (*launch)(const dev_function *function, const uint32_t grid[3], const uint32_t block[3],
                            size_t shared_bytes, void **arguments, dev_stream stream, mlp_message *why);
    /* These three are only called, and may be NULL, where device_sm90.c has found compute capability 9.0 or later;
     * their arguments have been checked, and a cluster has no zeros. */
    mlpbwd_status (*launch_with)(const dev_function *function, const uint32_t grid[3], const uint32_t block[3],
                                 size_t shared_bytes, void **arguments, const dev_launch_attributes *attributes,
                                 dev_stream stream, mlp_message *why);
    mlpbwd_status (*active_clusters)(const dev_function *function, const uint32_t block[3], size_t shared_bytes,
                                     const uint32_t cluster[3], int *count, mlp_message *why);
    mlpbwd_status (*tensor_map_encode)(dev_context *context, const dev_tensor *tensor, dev_tensor_map *out,
                                       mlp_message *why);

    /* All of these or none (NULL: the backend records nothing). graph_end fills everything but what dev_graph has; out
     * NULL: what was recorded is dropped. */
    mlpbwd_status (*graph_begin)(dev_context *context, dev_stream stream, mlp_message *why);
    mlpbwd_status (*graph_last)(dev_context *context, dev_stream stream, dev_graph_node *out, mlp_message *why);
    mlpbwd_status (*graph_end)(dev_context *context, dev_stream stream, dev_graph **out, mlp_message *why);
    mlpbwd_status (*graph_set)(dev_graph *graph, dev_graph_node node, const dev_function *function,
                               const uint32_t grid[3], const uint32_t block[3], size_t shared_bytes, void **arguments,
                               mlp_message *why);
    mlpbwd_status (*graph_launch)(dev_graph *graph, dev_stream stream, mlp_message *why);
    void (*graph_destroy)(dev_graph *graph);

    mlpbwd_status (*alloc)(dev_context *context, size_t size, void **out, mlp_message *why);
    void (*free)(dev_context *context, void *pointer);
    mlpbwd_status (*copy_in)(dev_context *context, void *device_memory, const void *host, size_t size,
                             mlp_message *why);
    mlpbwd_status (*copy_out)(dev_context *context, void *host, const void *device_memory, size_t size,
                              mlp_message *why);
    mlpbwd_status (*fill)(dev_context *context, void *device_memory, int byte, size_t size, dev_stream stream,
                          mlp_message *why);
    mlpbwd_status (*synchronize)(dev_context *context, mlp_message *why);

    mlpbwd_status (*stream_create)(dev_context *context, dev_stream *out, mlp_message *why);
    void (*stream_destroy)(dev_context *context, dev_stream stream);
    mlpbwd_status (*event_create)(dev_context *context, dev_event **out, mlp_message *why);
    void (*event_destroy)(dev_context *context, dev_event *event);
    mlpbwd_status (*stream_order)(dev_context *context, dev_stream earlier, dev_stream later, dev_event *event,
                                  mlp_message *why);
    mlpbwd_status (*stream_capture_id)(dev_context *context, dev_stream stream, uint64_t *id, mlp_message *why);

    /* NULL where info's timeless is set. */
    mlpbwd_status (*time)(dev_context *context,
                          mlpbwd_status (*enqueue)(void *user, dev_stream stream, mlp_message *why), void *user,
                          dev_timing *timing, mlp_message *why);
};

extern const dev_backend dev_backend_cuda, dev_backend_host;

/* True in a child of the process that opened the device. */
bool dev_is_forked(const dev *device);

/* OK, or DEVICE_ERROR in a forked child. */
mlpbwd_status dev_check_process(const dev *device, mlp_message *why);

/* Checks that bytes are a 64-bit ELF file whose tables and contents end within size, so that a cut or damaged file is
 * an error here and not a crash in the loader. what names the file's kind in the message. */
mlpbwd_status elf_check(const void *bytes, size_t size, const char *what, mlp_message *why);

/* ---- shared_object.c ---- */

/* False with errno set. */
bool file_write_all(int file, const void *bytes, size_t size);
/* A new file in $TMPDIR, else /tmp, with these bytes; the caller removes it. */
mlpbwd_status shared_object_write(const void *bytes, size_t size, char path[PATH_MAX], mlp_message *why);

/* ---- synchronous.c: the functions of backends whose launches return when they have run ---- */

/* INVALID_ARGUMENT unless stream is NULL. */
mlpbwd_status synchronous_check_stream(const dev_context *context, dev_stream stream, mlp_message *why);
mlpbwd_status synchronous_context_enter(dev_context *context, bool *pushed, mlp_message *why);
void synchronous_context_leave(dev_context *context);
mlpbwd_status synchronous_synchronize(dev_context *context, mlp_message *why);
mlpbwd_status synchronous_stream_create(dev_context *context, dev_stream *out, mlp_message *why);
void synchronous_stream_destroy(dev_context *context, dev_stream stream);
mlpbwd_status synchronous_event_create(dev_context *context, dev_event **out, mlp_message *why);
void synchronous_event_destroy(dev_context *context, dev_event *event);
mlpbwd_status synchronous_stream_order(dev_context *context, dev_stream earlier, dev_stream later, dev_event *event,
                                       mlp_message *why);
mlpbwd_status synchronous_stream_capture_id(dev_context *context, dev_stream stream, uint64_t *id, mlp_message *why);

/* ---- compilers (compile.c has the table) ---- */

/* dev_compile and dev_compiler_version of one compiler; image is zeroed before. */
mlpbwd_status nvrtc_compile(const dev_compile_request *request, dev_image *image, mlp_message *why);
mlpbwd_status nvrtc_version(char *text, size_t capacity, mlp_message *why);
mlpbwd_status cc_compile(const dev_compile_request *request, dev_image *image, mlp_message *why);
mlpbwd_status cc_version(char *text, size_t capacity, mlp_message *why);
#if MLPBWD_EMULATED
mlpbwd_status emulated_compile(const dev_compile_request *request, dev_image *image, mlp_message *why);
mlpbwd_status emulated_compiler_version(char *text, size_t capacity, mlp_message *why);
extern const dev_backend dev_backend_emulated;
#endif

/* COMPILE_ERROR with the first lines of a compiler's log; an empty log says so. */
mlpbwd_status compile_failed(mlp_message *why, const dev_compile_request *request, const char *compiler,
                             const char *log);

/* Copies text, cut to capacity at a character (UTF-8) boundary and always terminated. */
void dev_copy_text(char *to, size_t capacity, const char *text);

#endif
