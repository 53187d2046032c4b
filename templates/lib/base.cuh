/* Types and warp-level helpers of every emitted CUDA kernel; no toolkit header is included. */
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

constexpr float FLOAT_MAX = 3.402823466e+38f;

__device__ __forceinline__ i64 ceil_div(i64 a, i64 b) {
    return (a + b - 1) / b;
}

__device__ __forceinline__ float max_finite_abs(float running, float x) {
    float magnitude = fabsf(x);
    return magnitude <= FLOAT_MAX ? fmaxf(running, magnitude) : running; /* skips Inf and NaN */
}

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int step = 16; step; step >>= 1)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}
