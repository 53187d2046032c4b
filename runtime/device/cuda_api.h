/* Types and function tables of the CUDA driver, NVRTC and NVML, made from cuda_api.def. Handles have the tags of
 * NVIDIA's headers, so that both can be seen in one program; enumerations are cuda_enum. Private to runtime/device. */
#ifndef DEVICE_CUDA_API_H
#define DEVICE_CUDA_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "message.h"

typedef unsigned cuda_enum; /* as C compilers lay out an enumeration without negative values */
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct _nvrtcProgram *nvrtcProgram;
typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct CUlaunchConfig_st CUlaunchConfig;   /* incomplete here: cuda_launch_config is its layout */
typedef struct CUgraphEdgeData_st CUgraphEdgeData; /* opaque: never read */
typedef struct CUDA_KERNEL_NODE_PARAMS_v2_st
    CUDA_KERNEL_NODE_PARAMS;               /* incomplete here: cuda_node_params is its layout */
typedef struct CUtensorMap_st CUtensorMap; /* opaque: dev_tensor_map is its size */

/* Layouts of CUlaunchAttribute and CUlaunchConfig, as far as the library fills them. */
typedef struct cuda_launch_attribute {
    cuda_enum id;
    char padding[4];
    union {
        char size[64];
        unsigned cluster[3];
        int programmatic;
    } value;
} cuda_launch_attribute;
typedef struct cuda_launch_config {
    unsigned grid[3], block[3], shared_bytes;
    CUstream stream;
    cuda_launch_attribute *attributes;
    unsigned count;
} cuda_launch_config;

/* Layout of CUDA_KERNEL_NODE_PARAMS (version 2). */
typedef struct cuda_node_params {
    CUfunction function;
    unsigned grid[3], block[3], shared_bytes;
    void **arguments, **extra;
    void *kernel; /* instead of the function */
    CUcontext context;
} cuda_node_params;

enum {
#define CUDA_CONSTANT(name, value) MLP_##name = (value),
#define NVRTC_CONSTANT(name, value) MLP_##name = (value),
#include "cuda_api.def"
#undef CUDA_CONSTANT
#undef NVRTC_CONSTANT
    MLP_NVML_CLOCK_SM = 1
};

/* Declarators cannot be put in parentheses. NOLINTBEGIN(bugprone-macro-parentheses) */
typedef struct cuda_functions {
#define CUDA_FUNCTION(name, parameters) cuda_enum(*name) parameters;
#define CUDA_OPTIONAL(name, parameters) cuda_enum(*name) parameters;
#include "cuda_api.def"
#undef CUDA_FUNCTION
#undef CUDA_OPTIONAL
} cuda_functions;

typedef struct nvrtc_functions {
#define NVRTC_FUNCTION(type, name, parameters) type(*name) parameters;
#include "cuda_api.def"
#undef NVRTC_FUNCTION
} nvrtc_functions;

typedef struct nvml_functions {
#define NVML_FUNCTION(name, parameters) cuda_enum(*name) parameters;
#include "cuda_api.def"
#undef NVML_FUNCTION
} nvml_functions;
/* NOLINTEND(bugprone-macro-parentheses) */

/* The driver's functions, loaded and cuInit done at the first call; the answer stays the same. NULL: *why says what is
 * missing and what brings it. */
const cuda_functions *cuda_driver(mlp_message *why);
/* As above, but does not initialise: what is there of libcuda.so.1, or NULL. For versions and for "is one current?". */
const cuda_functions *cuda_library(mlp_message *why);

/* NVRTC's functions, loaded at the first call; NULL: UNSUPPORTED with *why. */
const nvrtc_functions *nvrtc_library(mlp_message *why);

/* What NVML says of the device with this PCI bus id; unknown figures stay as they are. Works without NVML (false). */
bool nvml_describe(const char *bus_id, double *power_limit_w, double *max_clock_mhz, char *driver, size_t capacity);

/* One name of a table to fill by load_functions. */
typedef struct api_name {
    const char *name;
    size_t offset; /* of its pointer in the table */
    bool optional;
} api_name;

/* Fills table from a dlopen handle; false and *missing set if a name that is not optional is not exported. */
bool load_functions(void *library, const api_name *names, size_t count, void *table, const char **missing);

#endif
