/* One interface over everything that can run an emitted kernel: describe, compile, load a module, allocate, copy,
 * launch, time, synchronise. Backends: cuda (driver API, NVRTC and NVML through dlopen) and host (emitted C, compiled
 * by the system compiler, loaded with dlopen, run by a thread pool). A third (emulated) can be added as one more row
 * of backends[] in device.c: nothing above this header names a backend.
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

enum { DEV_MAX_LADDER = 8, DEV_MAX_ARGUMENTS = 64 };

/* Facts read from the device, never from a table of models. A figure that the driver does not give is 0, a text "". */
typedef struct dev_info {
    char id[32];                     /* what mlpbwd_open takes: "cuda:0", "host" */
    char backend[16];                /* "cuda", "host" */
    char name[128];                  /* "NVIDIA H200"; host: the processor's model name */
    char arch[32];                   /* name of the best templates/arch file for it, = ladder[0] */
    char ladder[DEV_MAX_LADDER][32]; /* architectures whose machine code it runs, best first (see arch.c) */
    size_t ladder_length;
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

/* spec: "cuda:N", "host", or NULL for: the device of the CUDA context current in the caller, else the lowest CUDA
 * ordinal, else host. Unknown spec or absent device: MLPBWD_NO_DEVICE naming what would be right. After success *why is
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

/* ---- compiling (needs no device) ---- */

typedef struct dev_compile_request {
    const char *compiler; /* arch file's `compiler`: "nvrtc" or "cc" */
    const char *target;   /* arch file's `target`: "sm_90a", "compute_80", "x86-64-v3" */
    const char *source;   /* self-contained CUDA C++ or C11 text */
    const char *name;     /* shown in diagnostics */
} dev_compile_request;

typedef struct dev_image {
    void *bytes; /* cubin, PTX text or shared object; malloc'ed, released by dev_image_free */
    size_t size;
    char format[16]; /* "cubin", "ptx", "elf-so" */
    char *log;       /* compiler's output, may be ""; malloc'ed */
} dev_image;

/* COMPILE_ERROR: *why has the first lines of the log, image->log all of it. UNSUPPORTED: no such compiler here. */
mlpbwd_status dev_compile(const dev_compile_request *request, dev_image *image, mlp_message *why);
void dev_image_free(dev_image *image); /* {0} is harmless */
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

/* ---- timing ---- */

typedef struct dev_timing {
    double *microseconds; /* repetitions values, caller's array */
    int repetitions;
    int warmup;        /* replays before the first counted one */
    bool cold;         /* write a buffer of twice the L2 and synchronise before each repetition */
    double clock_mhz;  /* out: clock64 over globaltimer just after the last repetition; 0 on host */
    char protocol[96]; /* out: "cold L2, graph replay, 20 repetitions after 3" */
} dev_timing;

/* Times `enqueue` (which launches into the stream it is given): cuda captures it once into a graph and replays that
 * between two events, one repetition at a time; host calls it between two readings of CLOCK_MONOTONIC. */
mlpbwd_status dev_time(dev_context *context, mlpbwd_status (*enqueue)(void *user, dev_stream stream, mlp_message *why),
                       void *user, dev_timing *timing, mlp_message *why);

#endif
