/* One interface over everything that can run an emitted kernel: describe, compile, load a module, allocate, copy,
 * launch, time, synchronise. Backends: cuda (driver API, NVRTC and NVML through dlopen), host (emitted C, compiled by
 * the system compiler, loaded with dlopen, run by a thread pool) and emulated (emitted CUDA, run and checked on the
 * processor; built with MLPBWD_EMULATED). Another one is one more row of backends[] in device.c: nothing above this
 * header names a backend.
 *
 * Thread safety: a dev, dev_context, dev_module and dev_function may be used from any thread. Every function reports
 * failure as an mlpbwd_status with *why filled (why may be NULL). Times are in microseconds (double), sizes in bytes.
 */
#ifndef MLP_DEVICE_H
#define MLP_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "message.h"
#include "mlpbwd.h"

typedef struct dev dev; /* an open device; reference-counted */
typedef struct dev_context
    dev_context;                      /* one CUDA context on it (host: one dummy); what modules and streams belong to */
typedef struct dev_module dev_module; /* loaded machine code */
typedef struct dev_function dev_function; /* one entry of a module, fully loaded */
typedef void *dev_stream;                 /* CUstream; host: NULL */
typedef struct dev_event dev_event;       /* orders streams; host: no-op */
typedef struct dev_graph dev_graph;       /* recorded launches, enqueued as one */
typedef void *dev_graph_node;             /* one of them; owned by the graph */

enum { DEV_MAX_LADDER = 8, DEV_MAX_ARGUMENTS = 64 };

/* Facts read from the device, never from a table of models. A figure that the driver does not give is 0, a text "". */
typedef struct dev_info {
    char id[32];                     /* what mlpbwd_open takes: "cuda:0", "host" */
    char backend[16];                /* "cuda", "host" */
    char name[128];                  /* "NVIDIA H200"; host: the processor's model name */
    char arch[32];                   /* name of the best templates/arch file for it, = ladder[0] */
    char ladder[DEV_MAX_LADDER][32]; /* architectures whose machine code it runs, best first (see arch.c) */
    size_t ladder_length;
    bool timeless;          /* dev_time refuses: its times would say nothing; emulated */
    bool synchronous;       /* no streams: they must be NULL, and a launch returns when it has run; host */
    int compute_capability; /* 90 for 9.0; host 0 */
    int units;              /* SMs; host: processors this process may run on */
    int64_t memory_bytes, l2_bytes;
    int64_t shared_bytes_per_block; /* the opt-in maximum; host 0 */
    double max_clock_mhz, power_limit_w;
    char driver[64];   /* "580.159.04 (CUDA 13.0)"; host: kernel release */
    char compiler[64]; /* "NVRTC 13.0", "gcc 12.2.0"; "" when none can be used */
} dev_info;

/* ---- finding and opening ---- */

/* Calls visit for every device found, in the order cuda:0.., host. note receives (may be NULL), one call each, plain
 * sentences about what is missing and which package brings it ("libcuda.so.1 was not found: ..."). */
void dev_list(void (*visit)(void *user, const dev_info *info), void (*note)(void *user, const char *sentence),
              void *user);

/* spec: "cuda:N", "host", "emulated:ARCH", or NULL for: the device of the CUDA context current in the caller, else the
 * lowest CUDA ordinal, else host. Unknown spec or absent device: MLPBWD_NO_DEVICE naming what would be right. After
 * success *why is
 * "", or says why a device of a preferred backend could not be taken ("no CUDA device: ..."). */
mlpbwd_status dev_open(const char *spec, dev **out, mlp_message *why);
void dev_retain(dev *device);
void dev_release(dev *device); /* NULL is harmless */
/* Owned by the device. max_clock_mhz of cuda is the driver's; power_limit_w and compiler cost time to find out (NVML, a
 * compiler's start) and are 0 and "" here: dev_describe and dev_list give them. */
const dev_info *dev_get_info(const dev *device);
/* The same with everything filled in. Some 10 to 100 ms: for tuning and reports, not for mlpbwd_open. */
void dev_describe(const dev *device, dev_info *info);

/* Maps a compute capability (90) to the architectures whose machine code runs on it, best first; the only place, with
 * templates/arch, that knows names like sm_90a. Returns the number written (0: too old). Host: see dev_host_ladder. */
size_t dev_cuda_ladder(int compute_capability, char ladder[DEV_MAX_LADDER][32]);
size_t dev_host_ladder(char ladder[DEV_MAX_LADDER][32]);
/* The same for a CUDA architecture's name, from it on; *capability: the lowest that has it; *shared_bytes: the most a
 * block may have. 0: no such name. dev_cuda_architecture(i): the i-th name, NULL behind the last. */
size_t dev_architecture_ladder(const char *name, char ladder[DEV_MAX_LADDER][32], int *capability,
                               int64_t *shared_bytes);
const char *dev_cuda_architecture(size_t index);

/* ---- compiling (needs no device) ---- */

typedef struct dev_compile_request {
    const char *compiler; /* arch file's `compiler`: "nvrtc" or "cc"; or "emulated" */
    const char *target;   /* arch file's `target`: "sm_90a", "compute_80", "x86-64-v3" */
    const char *source;   /* self-contained CUDA C++ or C11 text */
    const char *name;     /* shown in diagnostics */
} dev_compile_request;

typedef struct dev_image {
    void *bytes; /* cubin, PTX text or shared object; malloc'ed, released by dev_image_free */
    size_t size;
    char format[16]; /* "cubin", "ptx", "elf-so", "emulated-so" */
    char *log;       /* compiler's output, may be ""; malloc'ed */
} dev_image;

/* COMPILE_ERROR: *why has the first lines of the log, image->log all of it. UNSUPPORTED: no such compiler here. */
mlpbwd_status dev_compile(const dev_compile_request *request, dev_image *image, mlp_message *why);
void dev_image_free(dev_image *image); /* {0} is harmless */
/* The compiler that makes machine code for the context's device where an architecture's file names `named`: that one,
 * but on emulated devices "emulated". What another compiler made does not run on the device. */
const char *dev_compiler_of(const dev_context *context, const char *named);
/* "NVRTC 13.0" / "gcc 12.2.0" into text, or UNSUPPORTED with the reason and the package that brings it. */
mlpbwd_status dev_compiler_version(const char *compiler, char *text, size_t capacity, mlp_message *why);

/* ---- contexts, modules, functions ---- */

/* The context current in this thread if it is on the device, else the device's primary context (retained). The result
 * is reference-counted and equal for equal contexts. */
mlpbwd_status dev_context_get(dev *device, dev_context **out, mlp_message *why);
void dev_context_release(dev_context *context);
/* For mlpbwd_execute: OK and *pushed=false when context is current; OK and *pushed=true when none was and it has been
 * made current; INVALID_ARGUMENT when another one is. dev_context_leave undoes it. No lock, no allocation. */
mlpbwd_status dev_context_enter(dev_context *context, bool *pushed, mlp_message *why);
void dev_context_leave(dev_context *context, bool pushed);

/* Loads machine code (cubin, PTX, shared object). The bytes may be freed afterwards. DATABASE_ERROR: cut short or
 * damaged; UNSUPPORTED: another backend's or architecture's, or newer than the driver. */
mlpbwd_status dev_module_load(dev_context *context, const void *bytes, size_t size, const char *format,
                              dev_module **out, mlp_message *why);
/* Neither waits nor disturbs a capture: work that was enqueued or is being captured may still need the code, so it
 * stays loaded until the next dev_synchronize of its context has succeeded, or until the context goes (a context that
 * the application also holds may keep it). A graph that captured its functions must not be replayed after that. */
void dev_module_unload(dev_module *module);

typedef struct dev_function_info {
    int registers, local_bytes, static_shared_bytes, max_threads; /* local_bytes > 0: spills or local arrays */
} dev_function_info;

/* Fully loads one entry and raises its dynamic shared memory limit. Owned by the module. info may be NULL. */
mlpbwd_status dev_function_get(dev_module *module, const char *entry, size_t shared_bytes, dev_function **out,
                               dev_function_info *info, mlp_message *why);

/* ---- memory, streams ---- */

mlpbwd_status dev_alloc(dev_context *context, size_t size, void **out, mlp_message *why); /* 256-byte aligned */
void dev_free(dev_context *context, void *pointer);
/* Copies end before these return. Not while a stream of the context is being captured. */
mlpbwd_status dev_copy_in(dev_context *context, void *device_memory, const void *host, size_t size, mlp_message *why);
mlpbwd_status dev_copy_out(dev_context *context, void *host, const void *device_memory, size_t size, mlp_message *why);
/* Sets bytes in stream order; may be captured. */
mlpbwd_status dev_fill(dev_context *context, void *device_memory, int byte, size_t size, dev_stream stream,
                       mlp_message *why);
/* Waits for everything in the context, then frees the code of modules that were unloaded before the call. Not while a
 * stream of the context is being captured: that fails and breaks the capture. */
mlpbwd_status dev_synchronize(dev_context *context, mlp_message *why);

mlpbwd_status dev_stream_create(dev_context *context, dev_stream *out, mlp_message *why); /* non-blocking stream */
void dev_stream_destroy(dev_context *context, dev_stream stream);
mlpbwd_status dev_event_create(dev_context *context, dev_event **out, mlp_message *why);
void dev_event_destroy(dev_context *context, dev_event *event);
/* What follows in `later` waits for what is now in `earlier`. No lock, no allocation, may be captured. */
mlpbwd_status dev_stream_order(dev_context *context, dev_stream earlier, dev_stream later, dev_event *event,
                               mlp_message *why);
/* 0: not capturing; else an id that is equal for streams of one capture. (Legacy default stream: 0.) */
mlpbwd_status dev_stream_capture_id(dev_context *context, dev_stream stream, uint64_t *id, mlp_message *why);

/* ---- launching ---- */

/* arguments[i] points at the i-th kernel parameter's value (as cuLaunchKernel's kernelParams). cuda: asynchronous.
 * host: entry(arguments, x, y, z) is called once per grid point, block[0] = most threads to use, returns when all
 * have run. Grids with a 0 launch nothing. No lock, no allocation. */
mlpbwd_status dev_launch(const dev_function *function, const uint32_t grid[3], const uint32_t block[3],
                         size_t shared_bytes, void **arguments, dev_stream stream, mlp_message *why);

/* What a launch has beside its grid; {0} adds nothing. Compute capability 9.0 or later, real or emulated. */
typedef struct dev_launch_attributes {
    uint32_t cluster[3]; /* blocks of a cluster: divisors of the grid, at most DEV_MAX_CLUSTER in all; zeros: none */
    bool programmatic;   /* may start while earlier work of its stream still runs (programmatic dependent launch): the
                            kernel executes griddepcontrol.wait before it touches what that work reads or writes */
} dev_launch_attributes;
enum { DEV_MAX_CLUSTER = 8 }; /* the portable size; larger ones are not on every device of a generation */

/* dev_launch with attributes (NULL: none). UNSUPPORTED: the device has no such launches; INVALID_ARGUMENT: a cluster
 * that is too large or does not divide the grid. No lock, no allocation, may be captured. */
mlpbwd_status dev_launch_with(const dev_function *function, const uint32_t grid[3], const uint32_t block[3],
                              size_t shared_bytes, void **arguments, const dev_launch_attributes *attributes,
                              dev_stream stream, mlp_message *why);
/* How many clusters (blocks, with cluster {1,1,1}) of such a launch can run at once on an idle device: the largest grid
 * whose blocks may wait for each other. Errors as dev_launch_with. */
mlpbwd_status dev_active_clusters(const dev_function *function, const uint32_t block[3], size_t shared_bytes,
                                  const uint32_t cluster[3], int *count, mlp_message *why);

/* ---- recorded launches: many enqueued for the price of one ---- */

/* Begins recording: launches into the stream, and into streams ordered behind it, do not run but become a graph, with
 * the order between them. The stream is not the legacy default one. UNSUPPORTED: the device records nothing. */
mlpbwd_status dev_graph_begin(dev_context *context, dev_stream stream, mlp_message *why);
/* The launch just enqueued into a stream that is being recorded. */
mlpbwd_status dev_graph_last(dev_context *context, dev_stream stream, dev_graph_node *out, mlp_message *why);
/* Ends recording; every stream has been joined with the one it began with. out NULL: what was recorded is dropped. The
 * context is kept by the caller for as long as the graph. */
mlpbwd_status dev_graph_end(dev_context *context, dev_stream stream, dev_graph **out, mlp_message *why);
/* From the next dev_graph_launch on the node launches so; the function is the recorded one or of the same module, and
 * attributes stay as they were recorded. What is enqueued already is not changed. Not from two threads at once. No
 * lock, no allocation. */
mlpbwd_status dev_graph_set(dev_graph *graph, dev_graph_node node, const dev_function *function, const uint32_t grid[3],
                            const uint32_t block[3], size_t shared_bytes, void **arguments, mlp_message *why);
/* Enqueues all of it. A launch of one graph starts when its previous one has ended, also on another stream. Not while
 * the stream is being captured. No lock, no allocation. */
mlpbwd_status dev_graph_launch(dev_graph *graph, dev_stream stream, mlp_message *why);
void dev_graph_destroy(dev_graph *graph); /* legal while it runs; NULL is harmless */

/* ---- tensor maps: what copies of boxes of a tensor (TMA) are told about it ---- */

enum dev_element { DEV_U8, DEV_F16, DEV_BF16, DEV_F32 };
/* How the 16-byte chunks of a box are permuted in shared memory: the name is the width of the box's row that they stay
 * in (PTX ISA 5.5.7). */
enum dev_swizzle { DEV_SWIZZLE_NONE, DEV_SWIZZLE_32B, DEV_SWIZZLE_64B, DEV_SWIZZLE_128B };

enum { DEV_MAX_TENSOR_RANK = 5 };
/* A tensor in device memory and the box that one copy moves; dimensions innermost first. What lies outside the tensor
 * is read as 0 and not written. */
typedef struct dev_tensor {
    void *address; /* device memory, 16-byte aligned */
    enum dev_element element;
    int rank;                           /* 1 to DEV_MAX_TENSOR_RANK */
    uint64_t size[DEV_MAX_TENSOR_RANK]; /* elements, 1 to 2^32 */
    /* Bytes from one element of dimension i + 1 to the next: multiples of 16 below 2^40. */
    uint64_t stride[DEV_MAX_TENSOR_RANK - 1];
    uint32_t box[DEV_MAX_TENSOR_RANK]; /* elements, 1 to 256; a row of the box a multiple of 16 bytes */
    enum dev_swizzle swizzle;          /* the row of the box may not be wider */
    int l2_bytes;                      /* L2 fetches so much around what is read: 0, 64, 128 or 256 */
} dev_tensor;

/* Opaque and of one backend; a kernel takes it by value as a __grid_constant__ parameter (templates/lib/ptx_tma.cuh).
 * Valid while the tensor's memory is. */
typedef struct dev_tensor_map {
    _Alignas(128) unsigned char bytes[128];
} dev_tensor_map;

/* Bytes of an element of a tensor; of the row that a swizzle permutes in (none: 0). Valid values only. */
unsigned dev_element_bytes(enum dev_element element);
unsigned dev_swizzle_bytes(enum dev_swizzle swizzle);

/* UNSUPPORTED: the device has no copies of boxes. */
mlpbwd_status dev_tensor_maps_available(const dev_context *context, mlp_message *why);
/* The rules above, those for the address aside: INVALID_ARGUMENT names the member that breaks one. */
mlpbwd_status dev_tensor_check(const dev_tensor *tensor, mlp_message *why);

/* Encodes. INVALID_ARGUMENT names the member that breaks a rule above; UNSUPPORTED: the device has no such copies. No
 * lock, no allocation. */
mlpbwd_status dev_tensor_map_encode(dev_context *context, const dev_tensor *tensor, dev_tensor_map *out,
                                    mlp_message *why);

/* ---- timing ---- */

typedef struct dev_timing {
    double *microseconds; /* repetitions values, caller's array */
    int repetitions;
    int warmup;        /* replays before the first counted one */
    bool cold;         /* write a buffer of twice the L2 and synchronise before each repetition */
    double clock_mhz;  /* out: clock64 over globaltimer just after the last repetition; 0 on host */
    char protocol[96]; /* out: "cold L2, graph replay, 20 repetitions after 3" */
} dev_timing;

/* UNSUPPORTED where dev_time would refuse (info's timeless): for callers who would have prepared much before. */
mlpbwd_status dev_check_times(const dev *device, mlp_message *why);

/* Times `enqueue` (which launches into the stream it is given): cuda captures it once into a graph and replays that
 * between two events, one repetition at a time; host calls it between two readings of CLOCK_MONOTONIC. */
mlpbwd_status dev_time(dev_context *context, mlpbwd_status (*enqueue)(void *user, dev_stream stream, mlp_message *why),
                       void *user, dev_timing *timing, mlp_message *why);

#endif
