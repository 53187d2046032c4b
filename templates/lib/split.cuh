/* Split of the fp32 class: x = hi + 2^-11 * lo, both fp16 and rounded to nearest: what is lost is at most 2^-23 |x|, or
 * 2^-36 (a subnormal lo) where that is more. */
constexpr float LOW_SCALE = 2048.0f;

/* An fp16 in bits 0..14 (bits 15.. must be 0) as fp32 without its sign: the exponents differ by 112, subnormals included.
 * Inf comes out as 65536; a residual of Inf or NaN is not finite either way. */
__device__ __forceinline__ float magnitude_of_f16(u32 bits) {
    return __uint_as_float(bits << 13) * 0x1p112f;
}

/* x * 2^exponent of four neighbours, in two pairs of 16 bits each */
__device__ __forceinline__ void split_quad(float4 x, uint2 &high, uint2 &low) {
    high = {pack_f16(x.x, x.y), pack_f16(x.z, x.w)};
    const float4 rounded = {copysignf(magnitude_of_f16(high.x & 0x7fffu), x.x), copysignf(magnitude_of_f16(high.x >> 16 & 0x7fffu), x.y),
                            copysignf(magnitude_of_f16(high.y & 0x7fffu), x.z), copysignf(magnitude_of_f16(high.y >> 16 & 0x7fffu), x.w)};
    low = {pack_f16((x.x - rounded.x) * LOW_SCALE, (x.y - rounded.y) * LOW_SCALE),
           pack_f16((x.z - rounded.z) * LOW_SCALE, (x.w - rounded.w) * LOW_SCALE)};
}
