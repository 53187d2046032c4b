/* The wrappers of templates/lib/ptx.cuh, and those of ptx_sm90_rs.cuh that belong to them. */

static __INLINE unsigned shared_address(const void *pointer) {
    return mlpbwd_api.shared_address(pointer);
}
static __INLINE int compute_here(int x) {
    return x;
}
static __INLINE void cp_async_16(unsigned shared, const void *global, unsigned bytes) {
    mlpbwd_api.cp_async(shared, global, 16, bytes);
}
static __INLINE void cp_async_commit() {
    mlpbwd_api.cp_async_commit();
}
template <int PENDING> static __INLINE void cp_async_wait() {
    mlpbwd_api.cp_async_wait(PENDING);
}
static __INLINE void cp_async_arrive(unsigned barrier) {
    mlpbwd_api.cp_async_arrive(barrier);
}
static __INLINE void ldmatrix_x4(unsigned (&r)[4], unsigned shared) {
    mlpbwd_api.ldmatrix(r, shared, 4, 0);
}
static __INLINE void ldmatrix_x4_trans(unsigned (&r)[4], unsigned shared) {
    mlpbwd_api.ldmatrix(r, shared, 4, 1);
}
static __INLINE void mma_f16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    mlpbwd_api.mma_m16n8k16(d, a, b0, b1, EMU_F16);
}
static __INLINE void mma_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    mlpbwd_api.mma_m16n8k16(d, a, b0, b1, EMU_BF16);
}

namespace emulated {
/* Round to nearest even, to MANTISSA bits at an exponent offset; overflow gives Inf, NaN the canonical one. */
static __INLINE unsigned to_f16(float x) {
    const unsigned bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return 0x7fffu;
    if (magnitude >= 0x477ff000u) /* 65520 and more */
        return sign | 0x7c00u;
    if (magnitude < 0x38800000u) /* below 2^-14: the sum has the subnormal's bits at its end */
        return sign | (__float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000u);
    return sign | (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
}
static __INLINE unsigned to_bf16(float x) {
    const unsigned bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fffu;
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
/* .ftz: a subnormal is a zero of the same sign */
static __INLINE float flush(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}
} // namespace emulated

static __INLINE unsigned pack_f16(float low, float high) {
    return emulated::to_f16(low) | emulated::to_f16(high) << 16;
}
static __INLINE unsigned pack_bf16(float low, float high) {
    return emulated::to_bf16(low) | emulated::to_bf16(high) << 16;
}
static __INLINE unsigned pack_ordered_f16(float low, float high) {
    return pack_f16(low, high);
}
static __INLINE unsigned pack_ordered_bf16(float low, float high) {
    return pack_bf16(low, high);
}
static __INLINE float exp2_approx(float x) {
    return emulated::flush(__builtin_exp2f(emulated::flush(x)));
}
static __INLINE float reciprocal_approx(float x) {
    return emulated::flush(1.0f / emulated::flush(x));
}
static __INLINE float4 load_streaming(const float4 *pointer) {
    return *pointer;
}
static __INLINE void prefetch_l2(const void *) {
}
