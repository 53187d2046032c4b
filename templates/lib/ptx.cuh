/* Inline PTX lives only here, one wrapper an instruction, so that a CPU emulation can give each another body.
 * Semantics: PTX ISA, the section named beside each. */
#ifndef MLPBWD_EMULATED
/* no instruction: what is computed from the result is not computed ahead of this place, where it would hold registers */
__device__ __forceinline__ int compute_here(int x) {
    asm volatile("" : "+r"(x));
    return x;
}
/* 9.7.9.20 cvta */
__device__ __forceinline__ u32 shared_address(const void *pointer) {
    u64 address;
    asm("cvta.to.shared.u64 %0, %1;" : "=l"(address) : "l"(pointer));
    return (u32)address;
}
/* 9.7.9.25.3 cp.async: 16 bytes, L2 only; bytes = 0 writes zeros and reads nothing */
__device__ __forceinline__ void cp_async_16(u32 shared, const void *global, u32 bytes) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}
__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int PENDING> __device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
/* 9.7.14.5.15 ldmatrix: four 8x8 matrices of 16-bit elements */
__device__ __forceinline__ void ldmatrix_x4(u32 (&r)[4], u32 shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(u32 (&r)[4], u32 shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared) : "memory");
}
/* 9.7.14.5 mma.m16n8k16, fp32 accumulators */
__device__ __forceinline__ void mma_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mma_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* 9.7.9.21 cvt: two fp32 to two 16-bit, round to nearest even; low is the lower half of the result */
__device__ __forceinline__ u32 pack_f16(float low, float high) {
    u32 packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}
__device__ __forceinline__ u32 pack_bf16(float low, float high) {
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}
/* 9.7.3 ex2, rcp: relative error below 2^-22 */
__device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float reciprocal_approx(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
/* 9.7.9.8 ld: read-once data does not push reused data out of L1 */
__device__ __forceinline__ float4 load_streaming(const float4 *pointer) {
    float4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(pointer));
    return v;
}
/* 9.7.9.16 prefetch */
__device__ __forceinline__ void prefetch_l2(const void *pointer) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(pointer));
}
#endif
