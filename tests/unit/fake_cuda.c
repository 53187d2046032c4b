#include "fake_cuda.h"

#include <stdlib.h>
#include <string.h>

#include "device/cuda_api.h"
#include "device/device.h"

#define EXPORT __attribute__((visibility("default")))

struct CUctx_st {
    unsigned long long id;
};
struct CUmod_st {
    int unused;
};
struct CUfunc_st {
    char name[32];
};
struct CUstream_st {
    uint64_t capture;
};
struct CUevent_st {
    uint64_t capture;
};
struct CUgraph_st {
    int unused;
};
struct CUgraphExec_st {
    int unused;
};

static int devices = 1, capability = 90;
static unsigned init_result;
static long fail_at;
static cuda_enum fail_with;
static fake_books books;
static struct CUctx_st primary = {1}, *stack[16];
static struct CUfunc_st functions[3] = {{"kernel"}, {"clock_probe"}, {"other"}};
static struct CUmod_st loaded; /* stands for all: some are meant to leak */
static uint64_t captures;

static bool fails(void) {
    return ++books.calls == fail_at;
}

#define FAKE(name, parameters)                                                                                         \
    EXPORT cuda_enum name parameters;                                                                                  \
    EXPORT cuda_enum name parameters

#define MAY_FAIL()                                                                                                     \
    if (fails())                                                                                                       \
    return fail_with

#define NEED_CONTEXT()                                                                                                 \
    if (books.stack == 0)                                                                                              \
    return 201 /* CUDA_ERROR_INVALID_CONTEXT */

/* ---- control ---- */

static void reset(int count, int compute_capability, unsigned result) {
    memset(&books, 0, sizeof books);
    devices = count;
    capability = compute_capability;
    init_result = result;
    fail_at = 0;
}

static void fail_call(long number, unsigned result) {
    books.calls = 0;
    fail_at = number;
    fail_with = result;
}

static fake_books get_books(void) {
    return books;
}

static void hold_primary(int change) {
    books.primaries += change;
    if (books.primaries == 0)
        books.modules = 0; /* they go with the context */
}

extern const fake_control fake_cuda_control;
EXPORT const fake_control fake_cuda_control = {reset, fail_call, get_books, hold_primary};

/* ---- driver, devices ---- */

FAKE(cuInit, (unsigned flags)) {
    (void)flags;
    return init_result;
}

FAKE(cuDriverGetVersion, (int *version)) {
    *version = 13000;
    return 0;
}

FAKE(cuGetErrorName, (cuda_enum result, const char **text)) {
    *text = result == 2 ? "FAKE_OUT_OF_MEMORY" : "FAKE_ERROR";
    return 0;
}

FAKE(cuGetErrorString, (cuda_enum result, const char **text)) {
    *text = NULL; /* drivers do so for unknown errors */
    return result ? 1 : 0;
}

FAKE(cuDeviceGetCount, (int *count)) {
    MAY_FAIL();
    *count = devices;
    return 0;
}

FAKE(cuDeviceGet, (CUdevice * device, int ordinal)) {
    MAY_FAIL();
    *device = ordinal;
    return ordinal < devices ? 0 : 101;
}

FAKE(cuDeviceGetName, (char *name, int capacity, CUdevice device)) {
    MAY_FAIL();
    (void)device;
    strncpy(name, "Fake GPU", (size_t)capacity);
    return 0;
}

FAKE(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device)) {
    MAY_FAIL();
    (void)device;
    *bytes = (size_t)1 << 34;
    return 0;
}

FAKE(cuDeviceGetAttribute, (int *value, cuda_enum attribute, CUdevice device)) {
    static const int known[][2] = {{13, 1980000}, {16, 132}, {38, 1 << 16}, {97, 232448}};
    (void)device; /* a missing attribute is no failure: not counted */
    *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if ((cuda_enum)known[i][0] == attribute)
            *value = known[i][1];
    return 0;
}

FAKE(cuDeviceGetPCIBusId, (char *id, int capacity, CUdevice device)) {
    (void)id;
    (void)capacity;
    (void)device;
    return 801;
}

/* ---- contexts ---- */

FAKE(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned *flags, int *active)) {
    (void)device;
    *flags = 0;
    *active = books.primaries > 0;
    return 0;
}

FAKE(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device)) {
    MAY_FAIL();
    (void)device;
    hold_primary(1);
    *context = &primary;
    return 0;
}

FAKE(cuDevicePrimaryCtxRelease_v2, (CUdevice device)) {
    (void)device;
    hold_primary(-1);
    return 0;
}

FAKE(cuCtxGetCurrent, (CUcontext * context)) {
    MAY_FAIL();
    *context = books.stack ? stack[books.stack - 1] : NULL;
    return 0;
}

FAKE(cuCtxGetDevice, (CUdevice * device)) {
    NEED_CONTEXT();
    *device = 0;
    return 0;
}

FAKE(cuCtxGetId, (CUcontext context, unsigned long long *id)) {
    *id = context->id;
    return 0;
}

FAKE(cuCtxPushCurrent_v2, (CUcontext context)) {
    MAY_FAIL();
    stack[books.stack++] = context;
    return 0;
}

FAKE(cuCtxPopCurrent_v2, (CUcontext * context)) {
    NEED_CONTEXT();
    *context = stack[--books.stack];
    return 0;
}

FAKE(cuCtxSynchronize, (void)) {
    NEED_CONTEXT();
    MAY_FAIL();
    books.waits++;
    return 0;
}

FAKE(cuThreadExchangeStreamCaptureMode, (cuda_enum * mode)) {
    cuda_enum before = books.mode;
    books.mode = *mode;
    *mode = before;
    return 0;
}

/* ---- modules, launches ---- */

FAKE(cuModuleLoadDataEx, (CUmodule * module, const void *image, unsigned count, cuda_enum *options, void **values)) {
    NEED_CONTEXT();
    for (unsigned i = 0; i < count; i++)
        if (options[i] == 5) /* the error log */
            strcpy(values[i], "fake log");
    MAY_FAIL();
    if (memcmp(image, "\177ELF", 4) != 0 && strlen(image) < 3)
        return 200;
    *module = &loaded;
    books.modules++;
    books.loads++;
    return 0;
}

FAKE(cuModuleUnload, (CUmodule module)) {
    NEED_CONTEXT();
    (void)module;
    books.modules--;
    return 0;
}

FAKE(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name)) {
    NEED_CONTEXT();
    MAY_FAIL();
    (void)module;
    for (size_t i = 0; i < 3; i++)
        if (strcmp(functions[i].name, name) == 0) {
            *function = &functions[i];
            return 0;
        }
    return 500;
}

FAKE(cuFuncLoad, (CUfunction function)) {
    MAY_FAIL();
    (void)function;
    return 0;
}

FAKE(cuFuncGetAttribute, (int *value, cuda_enum attribute, CUfunction function)) {
    MAY_FAIL();
    (void)function;
    *value = attribute == 4 ? 128 : attribute == 0 ? 1024 : 0;
    return 0;
}

FAKE(cuFuncSetAttribute, (CUfunction function, cuda_enum attribute, int value)) {
    MAY_FAIL();
    (void)function;
    return attribute == 8 && value <= 232448 ? 0 : 1;
}

FAKE(cuLaunchKernel,
     (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
      unsigned block_z, unsigned shared_bytes, CUstream stream, void **arguments, void **extra)) {
    NEED_CONTEXT();
    MAY_FAIL();
    (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z, (void)shared_bytes;
    (void)stream, (void)extra;
    if (function == &functions[1]) {
        uint64_t *result;
        memcpy(&result, arguments[0], sizeof result);
        result[0] = 59400;
        result[1] = 30000; /* 1980 MHz */
    } else {
        books.launches++;
    }
    return 0;
}

FAKE(cuLaunchKernelEx, (const CUlaunchConfig *opaque, CUfunction function, void **arguments, void **extra)) {
    const cuda_launch_config *config = (const cuda_launch_config *)opaque;
    NEED_CONTEXT();
    MAY_FAIL();
    (void)function, (void)arguments, (void)extra;
    for (unsigned i = 0; i < config->count; i++)
        if (config->attributes[i].id == MLP_CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            books.cluster = config->attributes[i].value.cluster[0];
        else if (config->attributes[i].id == MLP_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            books.programmatic = config->attributes[i].value.programmatic;
    books.launches++;
    return 0;
}

FAKE(cuOccupancyMaxActiveClusters, (int *clusters, CUfunction function, const CUlaunchConfig *config)) {
    NEED_CONTEXT();
    MAY_FAIL();
    (void)function;
    *clusters = 132 / (int)((const cuda_launch_config *)config)->attributes[0].value.cluster[0];
    return 0;
}

FAKE(cuTensorMapEncodeTiled, (CUtensorMap * map, cuda_enum type, uint32_t rank, void *address, const uint64_t *size,
                              const uint64_t *stride, const uint32_t *box, const uint32_t *element_stride,
                              cuda_enum interleave, cuda_enum swizzle, cuda_enum l2_promotion, cuda_enum fill)) {
    MAY_FAIL();
    (void)address, (void)size, (void)stride, (void)box, (void)element_stride;
    const uint32_t written[] = {type, rank, interleave, swizzle, l2_promotion, fill};
    memset(map, 0, sizeof(dev_tensor_map));
    memcpy(map, written, sizeof written);
    return 0;
}

/* ---- memory ---- */

FAKE(cuMemAlloc_v2, (CUdeviceptr * pointer, size_t bytes)) {
    NEED_CONTEXT();
    MAY_FAIL();
    void *memory;
    if (posix_memalign(&memory, 512, bytes) != 0)
        return 2;
    *pointer = (CUdeviceptr)(uintptr_t)memory;
    books.allocations++;
    return 0;
}

static void *memory_of(CUdeviceptr pointer) {
    void *memory;
    memcpy(&memory, &pointer, sizeof memory);
    return memory;
}

FAKE(cuMemFree_v2, (CUdeviceptr pointer)) {
    NEED_CONTEXT();
    free(memory_of(pointer));
    books.allocations--;
    return 0;
}

FAKE(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes)) {
    NEED_CONTEXT();
    MAY_FAIL();
    memcpy(memory_of(to), from, bytes);
    return 0;
}

FAKE(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes)) {
    NEED_CONTEXT();
    MAY_FAIL();
    memcpy(to, memory_of(from), bytes);
    return 0;
}

FAKE(cuMemsetD8Async, (CUdeviceptr pointer, unsigned char value, size_t count, CUstream stream)) {
    NEED_CONTEXT();
    MAY_FAIL();
    (void)stream;
    memset(memory_of(pointer), value, count);
    return 0;
}

FAKE(cuMemsetD32Async, (CUdeviceptr pointer, unsigned value, size_t count, CUstream stream)) {
    NEED_CONTEXT();
    MAY_FAIL();
    (void)stream;
    for (size_t i = 0; i < count; i++)
        memcpy((char *)memory_of(pointer) + 4 * i, &value, 4);
    return 0;
}

/* ---- streams, events, graphs ---- */

#define MAKE(pointer, counter)                                                                                         \
    NEED_CONTEXT();                                                                                                    \
    MAY_FAIL();                                                                                                        \
    *(pointer) = calloc(1, sizeof **(pointer));                                                                        \
    books.counter++;                                                                                                   \
    return 0

#define DROP(pointer, counter)                                                                                         \
    free(pointer);                                                                                                     \
    books.counter--;                                                                                                   \
    return 0

FAKE(cuStreamCreate, (CUstream * stream, unsigned flags)) {
    (void)flags;
    MAKE(stream, streams);
}

FAKE(cuStreamDestroy_v2, (CUstream stream)) {
    DROP(stream, streams);
}

FAKE(cuStreamSynchronize, (CUstream stream)) {
    NEED_CONTEXT();
    MAY_FAIL();
    (void)stream;
    books.waits++;
    return 0;
}

FAKE(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags)) {
    NEED_CONTEXT();
    MAY_FAIL();
    (void)flags;
    if (stream && event->capture)
        stream->capture = event->capture;
    return 0;
}

FAKE(cuStreamBeginCapture_v2, (CUstream stream, cuda_enum mode)) {
    NEED_CONTEXT();
    MAY_FAIL();
    (void)mode;
    stream->capture = ++captures;
    return 0;
}

FAKE(cuStreamEndCapture, (CUstream stream, CUgraph *graph)) {
    stream->capture = 0;
    MAKE(graph, graphs);
}

FAKE(cuStreamGetCaptureInfo_v2, (CUstream stream, cuda_enum *status, uint64_t *id, CUgraph *graph,
                                 const CUgraphNode **dependencies, size_t *count)) {
    NEED_CONTEXT();
    MAY_FAIL();
    (void)graph, (void)dependencies, (void)count;
    *status = stream->capture ? 1 : 0;
    *id = stream->capture;
    return 0;
}

FAKE(cuStreamGetCaptureInfo_v3, (CUstream stream, cuda_enum *status, uint64_t *id, CUgraph *graph,
                                 const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count)) {
    static const CUgraphNode last[] = {(CUgraphNode)&loaded};
    NEED_CONTEXT();
    MAY_FAIL();
    (void)id, (void)graph, (void)edges;
    *status = stream->capture ? 1 : 0;
    *nodes = last;
    *count = 1;
    return 0;
}

FAKE(cuEventCreate, (CUevent * event, unsigned flags)) {
    (void)flags;
    MAKE(event, events);
}

FAKE(cuEventDestroy_v2, (CUevent event)) {
    DROP(event, events);
}

FAKE(cuEventRecord, (CUevent event, CUstream stream)) {
    NEED_CONTEXT();
    MAY_FAIL();
    event->capture = stream ? stream->capture : 0;
    return 0;
}

FAKE(cuEventSynchronize, (CUevent event)) {
    MAY_FAIL();
    (void)event;
    return 0;
}

FAKE(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end)) {
    MAY_FAIL();
    (void)start, (void)end;
    *milliseconds = 0.25f;
    return 0;
}

FAKE(cuGraphInstantiateWithFlags, (CUgraphExec * executable, CUgraph graph, unsigned long long flags)) {
    (void)graph, (void)flags;
    MAKE(executable, executables);
}

FAKE(cuGraphUpload, (CUgraphExec executable, CUstream stream)) {
    MAY_FAIL();
    (void)executable, (void)stream;
    return 0;
}

FAKE(cuGraphLaunch, (CUgraphExec executable, CUstream stream)) {
    MAY_FAIL();
    (void)executable, (void)stream;
    books.graph_launches++;
    return 0;
}

FAKE(cuGraphExecKernelNodeSetParams_v2,
     (CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)) {
    NEED_CONTEXT();
    MAY_FAIL();
    (void)executable;
    books.node_shared = node == (CUgraphNode)&loaded ? ((const cuda_node_params *)params)->shared_bytes : 0;
    return 0;
}

FAKE(cuGraphExecDestroy, (CUgraphExec executable)) {
    DROP(executable, executables);
}

FAKE(cuGraphDestroy, (CUgraph graph)) {
    DROP(graph, graphs);
}
