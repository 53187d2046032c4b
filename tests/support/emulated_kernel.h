/* A CUDA kernel that a test brings along, on an emulated device or a real one: the same text, the same arguments, so
 * that the results can be compared. Everything that a test cannot go on without ends the program with a message. */
#ifndef EMULATED_KERNEL_H
#define EMULATED_KERNEL_H

#include "device/device.h"

typedef struct test_kernel test_kernel;

/* A hole of the text and what stands there: ${name}. */
typedef struct kernel_fill {
    const char *name, *value;
} kernel_fill;

/* Joins pieces: a piece with a newline in it is text, any other a file below the source tree
 * ("templates/lib/ptx.cuh"). fills: up to one whose name is NULL; NULL: none. Every hole must have a value; values
 * without a hole are allowed. malloc'ed. */
char *kernel_text(const char *const *pieces, size_t count, const kernel_fill *fills);

/* Opens the device ("emulated:sm_90a", "cuda:0"), compiles the text for its best architecture and loads it. name: what
 * reports call the text, "waits.cu". NULL: *status (may be NULL) and *why say what was wrong: NO_DEVICE where there is
 * no such device, COMPILE_ERROR where the text is. */
test_kernel *kernel_load(const char *device, const char *name, const char *text, mlpbwd_status *status,
                         mlp_message *why);
void kernel_free(test_kernel *kernel); /* and its buffers; NULL is harmless */
const dev_info *kernel_device(const test_kernel *kernel);
dev_context *kernel_context(const test_kernel *kernel);

/* Device memory, freed with the kernel; initial NULL: it stays as it is, which is uninitialised on an emulated device.
 */
void *kernel_buffer(test_kernel *kernel, const void *initial, size_t bytes);
void kernel_write(test_kernel *kernel, void *device_memory, const void *host, size_t bytes);
void kernel_read(test_kernel *kernel, void *host, const void *device_memory, size_t bytes);

/* Encodes a tensor map. */
void kernel_tensor_map(const test_kernel *kernel, const dev_tensor *tensor, dev_tensor_map *out);

typedef struct kernel_dims {
    uint32_t grid[3], block[3]; /* a 0 stands for 1 */
    size_t shared_bytes;        /* dynamic */
    dev_launch_attributes attributes;
} kernel_dims;

/* Launches and waits; arguments[i] points at the i-th parameter's value. A fault is DEVICE_ERROR with the report in
 * *why. Clusters: in the attributes, or __cluster_dims__ in the text. */
mlpbwd_status kernel_run(test_kernel *kernel, const char *entry, const kernel_dims *dims, void **arguments,
                         mlp_message *why);
/* The same without waiting: a launch with attributes.programmatic may follow while this one runs. */
mlpbwd_status kernel_launch(test_kernel *kernel, const char *entry, const kernel_dims *dims, void **arguments,
                            mlp_message *why);

#endif
