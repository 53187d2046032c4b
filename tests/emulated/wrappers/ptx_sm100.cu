/* Every wrapper of ptx_sm100.cuh once: for compilers only. */
#define MOVE(shape, count)                                                                                             \
    {                                                                                                                  \
        u32 r[count];                                                                                                  \
        tmem_load_##shape(r, tmem);                                                                                    \
        tmem_wait_load();                                                                                              \
        tmem_store_##shape(tmem, r);                                                                                   \
        tmem_wait_store();                                                                                             \
    }
/* A kernel may use one size of group only. */
template <int CTAS> __device__ __forceinline__ void all(const void *map, u32 *words, u16 mask) {
    __shared__ __align__(1024) unsigned char memory[32768];
    __shared__ u64 barrier_memory;
    __shared__ __align__(16) u32 answer_memory[4];
    u32 shared = shared_address(memory), barrier = shared_address(&barrier_memory), tmem;
    tmem_allocate<CTAS, 128>(shared);
    tmem = *reinterpret_cast<u32 *>(memory);
    tmem_relinquish<CTAS>();
    u64 a = umma_descriptor(shared, 8192, 1024), b = umma_descriptor(shared + 16384, 8192, 1024);
    umma_f16<CTAS>(tmem, a, b, umma_instruction(0, 128, 128, false, true), 0);
    umma_f16_tmem<CTAS>(tmem, tmem + 64, b, umma_instruction(1, 128, 64, false, true), 1);
    umma_tf32<CTAS>(tmem, a, b, umma_instruction(2, 128, 128, false, false), 0);
    umma_tf32_tmem<CTAS>(tmem, tmem + 64, b, umma_instruction(2, 128, 64, false, false), 1);
    umma_commit<CTAS>(barrier);
    umma_commit_multicast<CTAS>(barrier, mask);
    tcgen05_fence_before();
    tcgen05_fence_after();
    MOVE(32x32b, 8)
    MOVE(32x32b, 16)
    MOVE(32x32b, 32)
    MOVE(32x32b, 64)
    MOVE(32x32b, 128)
    MOVE(16x256b, 4)
    MOVE(16x256b, 8)
    MOVE(16x256b, 16)
    MOVE(16x256b, 32)
    MOVE(16x256b, 64)
    MOVE(16x256b, 128)
    u32 answer = shared_address(answer_memory), read[4];
    cancel_request(answer, barrier);
    cancel_request_multicast(answer, barrier);
    for (int i = 0; i < 4; i++)
        read[i] = answer_memory[i];
    cancel_fence_release();
    cancel_fence_acquire();
    words[threadIdx.x] = cancel_succeeded(read) ? cancel_first_block<0>(read) + cancel_first_block<2>(read) : 0;
    if constexpr (CTAS == 2) {
        tma_load_pair_2d(shared, map, 0, 1, barrier);
        tma_load_pair_3d(shared, map, 0, 1, 2, barrier);
        tma_load_pair_multicast_2d(shared, map, 0, 1, barrier, mask);
        tma_load_pair_multicast_3d(shared, map, 0, 1, 2, barrier, mask);
    }
    tmem_free<CTAS, 128>(tmem);
}
extern "C" __global__ void __launch_bounds__(128) wrappers(const void *map, u32 *words, u16 mask) {
    all<1>(map, words, mask);
}
extern "C" __global__ void __launch_bounds__(128) wrappers_pair(const void *map, u32 *words, u16 mask) {
    all<2>(map, words, mask);
}
