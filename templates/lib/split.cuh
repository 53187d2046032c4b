/* Split of the fp32 class: x = hi + 2^-11 * lo, both fp16 and rounded to nearest: what is lost is at most 2^-23 |x|, or
 * 2^-36 (a subnormal lo) where that is more. */
constexpr float LOW_SCALE = 2048.0f;

/* LOW_SCALE * (x - hi), exact. fp16_bits: hi's sign in bit 31, the rest of it in bits 13 to 27, so that as fp32 it is hi
 * times 2^-112, subnormals included. Inf comes out as 65536; the result for an x of Inf or NaN is not finite either way. */
__device__ __forceinline__ float scaled_residual(float x, int fp16_bits) {
    return fmaf(__int_as_float(fp16_bits & (int)0x8fffe000), -LOW_SCALE * 0x1p112f, x * LOW_SCALE);
}

/* four neighbours, already scaled, in two pairs of 16 bits each */
__device__ __forceinline__ void split_quad(float4 x, uint2 &high, uint2 &low) {
    high = {pack_f16(x.x, x.y), pack_f16(x.z, x.w)};
    low = {pack_f16(scaled_residual(x.x, (int)(high.x << 16) >> 3), scaled_residual(x.y, (int)high.x >> 3)),
           pack_f16(scaled_residual(x.z, (int)(high.y << 16) >> 3), scaled_residual(x.w, (int)high.y >> 3))};
}
