/* mlpbwd: the backward pass of a transformer feed-forward block (linear, GELU, linear), fp32 in and out.
 *
 * Forward was   intermediate           = hidden_states * weight1^T + bias1            [T,I]
 *               intermediate_activated = gelu(intermediate)                           [T,I]
 *               output                 = intermediate_activated * weight2^T + bias2   [T,H]
 * with T = batch_size * seq_len, H = hidden_size, I = intermediate_size; every tensor contiguous, row-major, fp32.
 * The library computes, from grad_output [T,H], the gradients of hidden_states [T,H], weight1 [I,H], bias1 [I],
 * weight2 [H,I] and bias2 [H].
 *
 * Accuracy (against the same formulas in float64 on the given fp32 inputs; Frobenius relative error of the whole
 * tensor, and three times that per row and per column):
 *   class   grad_hidden_states, grad_weight1   grad_bias1, grad_weight2
 *   tf32    5.5e-4                             3.8e-4
 *   fp32    2e-6                               2e-6
 *   bf16    5.3e-3                             3.8e-3
 * or 1.3 times what cuBLAS of that class gives, whichever is larger. grad_bias2 (and grad_bias1, on top of its class):
 * |error| <= 2^-20 * sum |x| per element. In the classes tf32 and bf16 a row or column is also allowed the absolute
 * term K * 2^-38 * max|A| * max|B| of its product A*B (K: length of the sum): operands are scaled by one power of two
 * a tensor, chosen from the data on the device, and elements below 2^-24 of their tensor's largest lose bits.
 * Finite inputs never overflow unless the float64 result exceeds float32. Inf and NaN come out exactly where float64
 * has a non-finite value (which kind is not promised) and change no other token's scale.
 * Results are bitwise reproducible from run to run for one plan on one device, unless MLPBWD_FLAG_NONDETERMINISTIC was
 * given. Not promised: equal bits across T, retunes or GPU models.
 *
 * Thread safety: every function may be called from any thread at any time; one handle may be used by several threads,
 * except that its destruction must come after every other use. After fork(), in the child, every call that takes a
 * handle returns MLPBWD_DEVICE_ERROR; if other threads of the parent were inside the library, the child must not open
 * it again before exec().
 */
#ifndef MLPBWD_H
#define MLPBWD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MLPBWD_VERSION_MAJOR 0
#define MLPBWD_VERSION_MINOR 1
#define MLPBWD_VERSION_PATCH 0

#ifndef MLPBWD_API
#if defined(__GNUC__)
#define MLPBWD_API __attribute__((visibility("default")))
#else
#define MLPBWD_API
#endif
#endif

/* An open device with its tuning databases. Made by mlpbwd_open, released by mlpbwd_close. */
typedef struct mlpbwd_library mlpbwd_library;
/* What runs for one problem on one device: loaded kernels, geometry, buffers. Holds a reference to its library. */
typedef struct mlpbwd_plan mlpbwd_plan;

/* Append only; 0 is success. mlpbwd_last_error() has the detail. */
typedef enum {
    MLPBWD_OK = 0,
    MLPBWD_INVALID_ARGUMENT,   /* the caller broke a rule of this header; nothing was launched */
    MLPBWD_UNSUPPORTED,        /* a legal request that this build or this database cannot serve */
    MLPBWD_NO_DEVICE,          /* no such device, or its driver cannot be used */
    MLPBWD_DATABASE_ERROR,     /* a database that was asked for cannot be opened, or is damaged, newer or unsafe */
    MLPBWD_COMPILE_ERROR,      /* NVRTC or the system compiler refused a kernel */
    MLPBWD_DEVICE_ERROR,       /* the driver reported an error (it may stem from earlier work), or fork() was used */
    MLPBWD_OUT_OF_MEMORY,      /* host or device memory */
    MLPBWD_WORKSPACE_TOO_SMALL /* workspace_size < mlpbwd_plan_workspace_size() */
} mlpbwd_status;

typedef enum { MLPBWD_GELU_TANH = 0, MLPBWD_GELU_ERF = 1 } mlpbwd_activation;

typedef enum { MLPBWD_ACCURACY_TF32 = 0, MLPBWD_ACCURACY_FP32 = 1, MLPBWD_ACCURACY_BF16 = 2 } mlpbwd_accuracy;

enum {
    MLPBWD_FLAG_NONDETERMINISTIC = 1, /* results may differ in the last bits from run to run */
    MLPBWD_FLAG_ACCUMULATE = 2,       /* the four weight and bias gradients are added to what the tensors hold */
    MLPBWD_FLAG_ALLOW_COMPILE = 4     /* mlpbwd_plan_create may compile a stored source that has no machine code */
};

/* One problem. Frozen layout. T = batch_size * seq_len may be 0; hidden_size and intermediate_size are positive
 * multiples of 64. Unknown enum values or flags, or reserved != 0: MLPBWD_INVALID_ARGUMENT. */
typedef struct {
    int64_t batch_size, seq_len, hidden_size, intermediate_size;
    int32_t activation, accuracy; /* mlpbwd_activation, mlpbwd_accuracy */
    uint32_t flags, reserved;
} mlpbwd_problem;

/* Device pointers (host pointers on device "host"), each 16-byte aligned, owned by the caller. Frozen layout.
 * A NULL output is not computed; an input may be NULL when no wanted output reads it; bias1 and bias2 are never read.
 * No output may overlap an input, another output or the workspace. */
typedef struct {
    const float *grad_output, *hidden_states, *weight1, *bias1, *weight2, *bias2, *intermediate,
        *intermediate_activated;
    float *grad_hidden_states, *grad_weight1, *grad_bias1, *grad_weight2, *grad_bias2;
} mlpbwd_tensors;

/* Opens a device and its tuning databases.
 * database_path: a database file, or NULL for the user's ($MLPBWD_DATABASE, else $XDG_DATA_HOME/mlpbwd/tuning.sqlite,
 *   else ~/.local/share/mlpbwd/tuning.sqlite) and then the one shipped with the library. A path given here (or in
 *   $MLPBWD_DATABASE) that cannot be opened is MLPBWD_DATABASE_ERROR; a bad user database found by default is one log
 * line. device: "cuda:N" or "host"; NULL: the device of the CUDA context current in the caller, else the lowest CUDA
 *   ordinal, else host.
 * On success *out owns the library; on failure *out is NULL. */
MLPBWD_API mlpbwd_status mlpbwd_open(const char *database_path, const char *device, mlpbwd_library **out);

/* Drops the caller's reference; plans made from it stay valid. NULL is harmless. */
MLPBWD_API void mlpbwd_close(mlpbwd_library *library);

/* "cuda:0", "host", ...; owned by the library; NULL for NULL. */
MLPBWD_API const char *mlpbwd_library_device(const mlpbwd_library *library);

/* Finds the stored plan that serves the problem (forced, exact, nearest, architecture, default: mlpbwd_plan_describe
 * says which) and loads its kernels. Never compiles unless MLPBWD_FLAG_ALLOW_COMPILE is given. A cuda plan belongs to
 * the context current now if that is on the library's device, else to the device's primary context. */
MLPBWD_API mlpbwd_status mlpbwd_plan_create(mlpbwd_library *library, const mlpbwd_problem *problem, mlpbwd_plan **out);

/* Legal while work launched by the plan still runs. A CUDA graph that captured the plan needs it alive at each replay.
 * NULL is harmless. */
MLPBWD_API void mlpbwd_plan_destroy(mlpbwd_plan *plan);

/* Bytes of workspace that mlpbwd_execute needs; 0 for NULL. */
MLPBWD_API size_t mlpbwd_plan_workspace_size(const mlpbwd_plan *plan);

/* Writes a JSON object that says what the plan runs and why (tokens, device, match, median_us or null,
 * measured_tokens, database, pipeline, parameters, launches, workspace_bytes). *needed (may be NULL) becomes its size
 * with the final NUL; json may be NULL if capacity is 0. capacity < size, capacity > 0: MLPBWD_INVALID_ARGUMENT and an
 * empty string. */
MLPBWD_API mlpbwd_status mlpbwd_plan_describe(const mlpbwd_plan *plan, char *json, size_t capacity, size_t *needed);

/* Launches the backward pass. workspace: 256-byte aligned device memory of at least mlpbwd_plan_workspace_size bytes,
 * any contents, keeps nothing between calls, one per concurrent execute, NULL if the size is 0. stream: a CUstream or
 * cudaStream_t, NULL for the legacy default stream; on host it must be NULL and the call is synchronous.
 * Allocates, loads, compiles and opens nothing, takes no lock, does not synchronise; works under stream capture and
 * from several threads on several streams at once. Reports launch errors only. Another CUDA context current than the
 * plan's: MLPBWD_INVALID_ARGUMENT; none: the plan's is used and left as found. */
MLPBWD_API mlpbwd_status mlpbwd_execute(const mlpbwd_plan *plan, const mlpbwd_tensors *tensors, void *workspace,
                                        size_t workspace_size, void *stream);

/* Static text; "unknown status" for a value outside the enum. */
MLPBWD_API const char *mlpbwd_status_string(mlpbwd_status status);

/* Detail of this thread's last failed call, "" after a success; valid until this thread's next call. */
MLPBWD_API const char *mlpbwd_last_error(void);

/* "major.minor.patch" of the library at run time. */
MLPBWD_API const char *mlpbwd_version(void);

/* Sends one-line messages (a fallback taken, a database skipped) to fn, from any thread; NULL silences (the default).
 */
MLPBWD_API void mlpbwd_set_log(void (*fn)(void *user, const char *message), void *user);

#ifdef __cplusplus
}
#endif
#endif
