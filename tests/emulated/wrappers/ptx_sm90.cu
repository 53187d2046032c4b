/* Every wrapper of ptx_sm90.cuh once: for compilers only. */
extern "C" __global__ void __launch_bounds__(128) wrappers(float *values, const void *global) {
    __shared__ __align__(1024) unsigned char memory[32768];
    __shared__ u64 barrier_memory;
    u32 shared = shared_address(memory), barrier = shared_address(&barrier_memory);
    float d[${registers}] = {};
    registers_decrease<40>();
    registers_increase<64>();
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        mbarrier_init_fence();
        fence_proxy_async_global();
        mbarrier_arrive_expect(barrier, 16384);
        bulk_load(shared, global, 16384, barrier);
    }
    named_barrier_arrive<1, 128>();
    named_barrier<2, 128>();
    mbarrier_wait(barrier, 0);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 1000 /* Hopper alone has it */
    wgmma_fence();
    wgmma_${type}<1>(d, matrix_descriptor(shared, 8192, 1024), matrix_descriptor(shared + 8192, 8192, 1024), 0);
    wgmma_commit();
    wgmma_wait<0>();
#endif
    if (threadIdx.x == 0)
        mbarrier_arrive(barrier);
    values[threadIdx.x] = d[0];
}
