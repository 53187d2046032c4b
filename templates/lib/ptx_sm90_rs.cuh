/* Inline PTX of Hopper beside ptx_sm90.cuh: wgmma with A in registers. */
#ifndef MLPBWD_EMULATED
/* 9.7.15.5.2 wgmma.mma_async: D[64,N] (+)= A * B, A (64 x 16) in registers, B K-major in shared memory. Lane l of warp w
 * holds rows 16w + l/4 (a[0], a[2]) and 8 further (a[1], a[3]), columns 2(l%4) + {0,1} (a[0], a[1]) and 8 further. */
__device__ __forceinline__ void wgmma_registers_${type}(float (&d)[${registers}], const u32 (&a)[4], u64 b, int accumulate) {
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 "setp.ne.b32 add, %${accumulate_index}, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n${n}k16.f32.${type}.${type} {${d_list}}, {${a_list}}, %${b_index}, add, 1, 1, 0;\n"
                 "}"
                 : ${d_operands}
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}
/* 9.7.9.21 cvt as in ptx.cuh, but kept behind the wgmma_wait before it: the result is a register that the product waited for
 * may still have read */
__device__ __forceinline__ u32 pack_ordered_f16(float low, float high) {
    u32 packed;
    asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low) : "memory");
    return packed;
}
__device__ __forceinline__ u32 pack_ordered_bf16(float low, float high) {
    u32 packed;
    asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low) : "memory");
    return packed;
}
#endif
