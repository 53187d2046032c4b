/* Inline PTX of Hopper: mbarrier, bulk copies, wgmma, register reallocation. PTX ISA sections beside each. */
#ifndef MLPBWD_EMULATED
/* 9.7.13.15 mbarrier, in shared memory */
__device__ __forceinline__ void mbarrier_init(u32 barrier, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
/* makes the initialised barriers visible to the copy engine; a block barrier must follow */
__device__ __forceinline__ void mbarrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/* the time is the longest that a try may sleep, in ns: without it waiting warps poll */
__device__ __forceinline__ void mbarrier_wait(u32 barrier, u32 parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1, 1000000;\n"
                 "@done bra.uni finished;\n"
                 "bra.uni again;\n"
                 "finished:\n"
                 "}" ::"r"(barrier), "r"(parity) : "memory");
}
/* 9.7.9.25.4.1 cp.async.bulk: contiguous bytes (a multiple of 16), completion counted on an mbarrier */
__device__ __forceinline__ void bulk_load(u32 shared, const void *global, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
                 "l"(global), "r"(bytes), "r"(barrier) : "memory");
}
/* 9.7.13.4 fence.proxy.async: ordinary writes to global memory before copies by the copy engine, and the reverse */
__device__ __forceinline__ void fence_proxy_async_global() {
    asm volatile("fence.proxy.async.global;" ::: "memory");
}
/* 9.7.19.5 setmaxnreg: a whole warpgroup */
template <int REGISTERS> __device__ __forceinline__ void registers_decrease() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> __device__ __forceinline__ void registers_increase() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
/* 9.7.13.1 barrier among part of a block */
template <int ID, int THREADS> __device__ __forceinline__ void named_barrier() {
    asm volatile("bar.sync %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}
template <int ID, int THREADS> __device__ __forceinline__ void named_barrier_arrive() {
    asm volatile("bar.arrive %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}
/* 9.7.15.7 wgmma ordering */
__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int PENDING> __device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
/* 9.7.15.5.2 wgmma.mma_async: D[64,N] (+)= A * B, both from shared memory; transposes for MN-major operands */
template <int TRANSPOSE_A> __device__ __forceinline__ void wgmma_${type}(float (&d)[${registers}], u64 a, u64 b, int accumulate) {
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 "setp.ne.b32 add, %${accumulate_index}, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n${n}k16.f32.${type}.${type} {${d_list}}, %${a_index}, %${b_index}, add, 1, 1, "
                 "%${transpose_index}, 1;\n"
                 "}"
                 : ${d_operands}
                 : "l"(a), "l"(b), "r"(accumulate), "n"(TRANSPOSE_A));
}
#endif
/* 9.7.15.5.1.2.2 matrix descriptor, 128-byte swizzle: start address, leading and stride offsets in 16-byte units */
__device__ __forceinline__ u64 matrix_descriptor(u32 shared, u32 leading_bytes, u32 stride_bytes) {
    return (u64)((shared & 0x3ffff) >> 4) | (u64)(leading_bytes >> 4) << 16 | (u64)(stride_bytes >> 4) << 32 | (u64)1 << 62;
}
/* the descriptor of what lies `bytes` further, within the first 256 KiB that addresses reach */
__device__ __forceinline__ u64 matrix_further(u64 descriptor, u32 bytes) {
    return (descriptor & 0xffffffff00000000ull) | (u32)((u32)descriptor + (bytes >> 4));
}
