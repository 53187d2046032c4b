/* CUDA's language and built-ins for a kernel that the system's C++ compiler compiles (C++17 with GNU extensions). Comes
 * before every other header and the kernel's text; includes nothing. CUDA C++ Programming Guide, chapter "C++ Language
 * Extensions"; CUDA Math API for the functions.
 *
 * What calls the emulator is inlined, so that the emulator finds the line of the kernel by its own return address. */
#define MLPBWD_EMULATED 1
#define __CUDA_ARCH__ MLPBWD_CAPABILITY /* 900 for 9.0; told by the compiler's command line */

/* Functions whose loads and stores are not reported. Clang would report at least their beginning. */
#ifdef __clang__
#define MLPBWD_UNSEEN no_sanitize("thread"), no_sanitize("undefined"), disable_sanitizer_instrumentation
#else
#define MLPBWD_UNSEEN no_sanitize("thread"), no_sanitize("undefined")
#endif

/* ---- the table of the emulator, filled by mlpbwd_bind (entry.hpp) ---- */

extern "C" {
/* Constant for the compiler, whose thread sanitizer then leaves reads of the table alone. */
extern __attribute__((visibility("hidden"))) const struct emu_api mlpbwd_api;
}

/* ---- language ---- */

#define __device__
#define __host__
#define __constant__
#define __managed__
#define __global__ __attribute__((noinline))
#define __forceinline__ __attribute__((always_inline)) inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ thread_local
#define __restrict__
#define __inline_hint__
#define __INLINE __attribute__((always_inline)) inline

/* The window of dynamic shared memory. One name serves every kernel: the text declares it again, unsized. */
alignas(1024) thread_local unsigned char shared_memory[232448];

/* ---- vector types, aligned as CUDA aligns them ---- */

#define MLPBWD_VECTOR2(name, element, alignment)                                                                       \
    struct __align__(alignment) name##2 {                                                                              \
        element x, y;                                                                                                  \
    };                                                                                                                 \
    static __INLINE name##2 make_##name##2(element x, element y) {                                                     \
        return {x, y};                                                                                                 \
    }
#define MLPBWD_VECTOR3(name, element)                                                                                  \
    struct name##3 {                                                                                                   \
        element x, y, z;                                                                                               \
    };                                                                                                                 \
    static __INLINE name##3 make_##name##3(element x, element y, element z) {                                          \
        return {x, y, z};                                                                                              \
    }
#define MLPBWD_VECTOR4(name, element, alignment)                                                                       \
    struct __align__(alignment) name##4 {                                                                              \
        element x, y, z, w;                                                                                            \
    };                                                                                                                 \
    static __INLINE name##4 make_##name##4(element x, element y, element z, element w) {                               \
        return {x, y, z, w};                                                                                           \
    }
#define MLPBWD_VECTORS(name, element, size)                                                                            \
    MLPBWD_VECTOR2(name, element, (size)*2)                                                                            \
    MLPBWD_VECTOR3(name, element)                                                                                      \
    MLPBWD_VECTOR4(name, element, (size)*4 < 16 ? (size)*4 : 16)
MLPBWD_VECTORS(char, signed char, 1)
MLPBWD_VECTORS(uchar, unsigned char, 1)
MLPBWD_VECTORS(short, short, 2)
MLPBWD_VECTORS(ushort, unsigned short, 2)
MLPBWD_VECTORS(int, int, 4)
MLPBWD_VECTORS(uint, unsigned, 4)
MLPBWD_VECTORS(float, float, 4)
MLPBWD_VECTORS(longlong, long long, 8)
MLPBWD_VECTORS(ulonglong, unsigned long long, 8)
MLPBWD_VECTORS(double, double, 8)

struct dim3 {
    unsigned x, y, z;
    __INLINE constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {
    }
    __INLINE constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {
    }
    __INLINE constexpr operator uint3() const {
        return {x, y, z};
    }
};

/* ---- where a thread is ---- */

namespace emulated {
/* Does not change while a thread runs: asked once a function. */
static __attribute__((const, noinline, MLPBWD_UNSEEN)) unsigned builtin(int which) {
    return mlpbwd_api.builtin(which);
}
template <int WHICH> struct Coordinate {
    __INLINE operator unsigned() const {
        return builtin(WHICH);
    }
};
template <int WHICH> struct Coordinates {
    Coordinate<WHICH> x;
    Coordinate<WHICH + 1> y;
    Coordinate<WHICH + 2> z;
    __INLINE operator uint3() const {
        return {x, y, z};
    }
    __INLINE operator dim3() const {
        return dim3(x, y, z);
    }
};
} // namespace emulated

constexpr emulated::Coordinates<EMU_THREAD_INDEX> threadIdx{};
constexpr emulated::Coordinates<EMU_BLOCK_INDEX> blockIdx{};
constexpr emulated::Coordinates<EMU_BLOCK_SIZE> blockDim{};
constexpr emulated::Coordinates<EMU_GRID_SIZE> gridDim{};
constexpr int warpSize = 32;

/* ---- block and warp ---- */

static __INLINE void __syncthreads() {
    mlpbwd_api.barrier_sync(0, 0);
}
static __INLINE void __syncwarp(unsigned mask = 0xffffffffu) {
    mlpbwd_api.warp_sync(mask);
}
static __INLINE unsigned __ballot_sync(unsigned mask, int predicate) {
    return mlpbwd_api.ballot(mask, predicate);
}
static __INLINE int __any_sync(unsigned mask, int predicate) {
    return mlpbwd_api.ballot(mask, predicate) != 0;
}
static __INLINE int __all_sync(unsigned mask, int predicate) {
    return mlpbwd_api.ballot(mask, !predicate) == 0;
}
static __INLINE unsigned __activemask() {
    return mlpbwd_api.active_mask();
}

/* One shuffle moves 32 bits; wider values take two. */
#define MLPBWD_SHUFFLE(name, kind)                                                                                     \
    template <class T> static __INLINE T name(unsigned mask, T value, int operand, int width = 32) {                   \
        static_assert(sizeof(T) == 4 || sizeof(T) == 8, #name " moves values of 4 or 8 bytes");                        \
        unsigned words[sizeof(T) / 4];                                                                                 \
        __builtin_memcpy(words, &value, sizeof value);                                                                 \
        for (unsigned &word : words)                                                                                   \
            word = mlpbwd_api.shuffle(mask, word, operand, kind, width);                                               \
        __builtin_memcpy(&value, words, sizeof value);                                                                 \
        return value;                                                                                                  \
    }
MLPBWD_SHUFFLE(__shfl_sync, EMU_SHUFFLE_INDEX)
MLPBWD_SHUFFLE(__shfl_xor_sync, EMU_SHUFFLE_XOR)
MLPBWD_SHUFFLE(__shfl_up_sync, EMU_SHUFFLE_UP)
MLPBWD_SHUFFLE(__shfl_down_sync, EMU_SHUFFLE_DOWN)

/* ---- memory between threads ---- */

static __INLINE void __threadfence_block() {
    mlpbwd_api.fence(EMU_FENCE_BLOCK);
}
static __INLINE void __threadfence() {
    mlpbwd_api.fence(EMU_FENCE_DEVICE);
}
static __INLINE void __threadfence_system() {
    mlpbwd_api.fence(EMU_FENCE_SYSTEM);
}

static __INLINE unsigned atomicAdd(unsigned *address, unsigned value) {
    return (unsigned)mlpbwd_api.reduce(address, value, 0, EMU_ADD_U32, EMU_RELAXED);
}
static __INLINE int atomicAdd(int *address, int value) {
    return (int)mlpbwd_api.reduce(address, (unsigned)value, 0, EMU_ADD_U32, EMU_RELAXED);
}
static __INLINE unsigned long long atomicAdd(unsigned long long *address, unsigned long long value) {
    return mlpbwd_api.reduce(address, value, 0, EMU_ADD_U64, EMU_RELAXED);
}
static __INLINE float atomicAdd(float *address, float value) {
    unsigned bits;
    __builtin_memcpy(&bits, &value, 4);
    bits = (unsigned)mlpbwd_api.reduce(address, bits, 0, EMU_ADD_F32, EMU_RELAXED);
    __builtin_memcpy(&value, &bits, 4);
    return value;
}
static __INLINE unsigned atomicSub(unsigned *address, unsigned value) {
    return atomicAdd(address, 0u - value);
}
static __INLINE int atomicSub(int *address, int value) {
    return atomicAdd(address, -value);
}
#define MLPBWD_ATOMIC(name, reduction)                                                                                 \
    static __INLINE unsigned name(unsigned *address, unsigned value) {                                                 \
        return (unsigned)mlpbwd_api.reduce(address, value, 0, reduction, EMU_RELAXED);                                 \
    }
MLPBWD_ATOMIC(atomicMin, EMU_MIN_U32)
MLPBWD_ATOMIC(atomicMax, EMU_MAX_U32)
MLPBWD_ATOMIC(atomicAnd, EMU_AND_U32)
MLPBWD_ATOMIC(atomicOr, EMU_OR_U32)
MLPBWD_ATOMIC(atomicExch, EMU_EXCHANGE_U32)
static __INLINE int atomicExch(int *address, int value) {
    return (int)mlpbwd_api.reduce(address, (unsigned)value, 0, EMU_EXCHANGE_U32, EMU_RELAXED);
}
static __INLINE unsigned atomicCAS(unsigned *address, unsigned compare, unsigned value) {
    return (unsigned)mlpbwd_api.reduce(address, value, compare, EMU_COMPARE_AND_SWAP_U32, EMU_RELAXED);
}
static __INLINE int atomicCAS(int *address, int compare, int value) {
    return (int)mlpbwd_api.reduce(address, (unsigned)value, (unsigned)compare, EMU_COMPARE_AND_SWAP_U32, EMU_RELAXED);
}

/* Cached loads and stores are plain ones: what a cache hint may change is time. */
template <class T> static __INLINE T __ldg(const T *pointer) {
    return *pointer;
}
template <class T> static __INLINE T __ldcg(const T *pointer) {
    return *pointer;
}
template <class T> static __INLINE T __ldcs(const T *pointer) {
    return *pointer;
}
template <class T> static __INLINE void __stcg(T *pointer, T value) {
    *pointer = value;
}
template <class T> static __INLINE void __stcs(T *pointer, T value) {
    *pointer = value;
}

/* ---- the rest of the machine ---- */

static __INLINE void __nanosleep(unsigned nanoseconds) {
    mlpbwd_api.nanosleep(nanoseconds);
}
static __INLINE long long clock64() {
    return (long long)mlpbwd_api.clock();
}
static __INLINE int clock() {
    return (int)mlpbwd_api.clock();
}
static __INLINE void __trap() {
    mlpbwd_api.trap();
    __builtin_unreachable();
}
#define assert(condition) ((condition) ? (void)0 : __trap())
