/* One box of a tensor into shared memory, and shared memory as it is then: where every byte of the box lies, and what
 * stands for what the tensor has not. One block. */
extern __shared__ __align__(1024) unsigned char shared_memory[];

template <int RANK> __device__ __forceinline__ void load_box(const TensorMap &map, uint4 *out, int x, int y, int z, u32 bytes) {
    __shared__ u64 barrier_memory;
    u32 barrier = shared_address(&barrier_memory), box = shared_address(shared_memory)${place};
    const uint4 *words = reinterpret_cast<const uint4 *>(shared_memory);
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        mbarrier_init_fence();
        tma_prefetch_map(&map);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect(barrier, ${expected});
        if constexpr (RANK == 1)
            tma_load_1d(box, &map, x, barrier);
        else if constexpr (RANK == 2)
            tma_load_hint_2d(box, &map, x, y, barrier, EVICT_FIRST);
        else
            tma_load_3d(box, &map, x, y, z, barrier);
    }
    mbarrier_wait(barrier, 0);
    for (u32 i = threadIdx.x; i < bytes / 16; i += blockDim.x)
        out[i] = words[i];
}

extern "C" __global__ void load_1d(const __grid_constant__ TensorMap map, uint4 *out, int x, int y, int z, u32 bytes) {
    load_box<1>(map, out, x, y, z, bytes);
}
extern "C" __global__ void load_2d(const __grid_constant__ TensorMap map, uint4 *out, int x, int y, int z, u32 bytes) {
    load_box<2>(map, out, x, y, z, bytes);
}
extern "C" __global__ void load_3d(const __grid_constant__ TensorMap map, uint4 *out, int x, int y, int z, u32 bytes) {
    load_box<3>(map, out, x, y, z, bytes);
}

/* Rows narrower than the swizzle: the box's bytes, in the box's order. */
extern "C" __global__ void load_narrow(const __grid_constant__ TensorMap map, uint4 *out, int x, int y, u32 bytes, u32 row,
                                       u32 width, u32 mask) {
    __shared__ u64 barrier_memory;
    u32 barrier = shared_address(&barrier_memory);
    const uint4 *words = reinterpret_cast<const uint4 *>(shared_memory);
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        mbarrier_init_fence();
        mbarrier_arrive_expect(barrier, bytes);
        tma_load_2d(shared_address(shared_memory), &map, x, y, barrier);
    }
    __syncthreads();
    mbarrier_wait(barrier, 0);
    for (u32 i = threadIdx.x * 16; i < bytes; i += blockDim.x * 16) {
        u32 at = i / row * width + i % row;
        out[i / 16] = words[(at ^ (at >> 7 & mask) << 4) / 16];
    }
}

/* The reverse: shared memory as `in` says, then its box into the tensor, stored or added. */
template <int RANK> __device__ __forceinline__ void store_box(const TensorMap &map, const uint4 *in, int x, int y, int z,
                                                              u32 bytes, int add) {
    u32 box = shared_address(shared_memory);
    uint4 *words = reinterpret_cast<uint4 *>(shared_memory);
    for (u32 i = threadIdx.x; i < bytes / 16; i += blockDim.x)
        words[i] = in[i];
    ${fence}
    __syncthreads();
    if (threadIdx.x == 0) {
        if constexpr (RANK == 1)
            add ? tma_add_1d(&map, x, box) : tma_store_1d(&map, x, box);
        else if constexpr (RANK == 2)
            add ? tma_add_2d(&map, x, y, box) : tma_store_hint_2d(&map, x, y, box, EVICT_FIRST);
        else
            add ? tma_add_3d(&map, x, y, z, box) : tma_store_3d(&map, x, y, z, box);
        bulk_commit();
        bulk_wait<0>();
    }
}

extern "C" __global__ void store_1d(const __grid_constant__ TensorMap map, const uint4 *in, int x, int y, int z, u32 bytes,
                                    int add) {
    store_box<1>(map, in, x, y, z, bytes, add);
}
extern "C" __global__ void store_2d(const __grid_constant__ TensorMap map, const uint4 *in, int x, int y, int z, u32 bytes,
                                    int add) {
    store_box<2>(map, in, x, y, z, bytes, add);
}
extern "C" __global__ void store_3d(const __grid_constant__ TensorMap map, const uint4 *in, int x, int y, int z, u32 bytes,
                                    int add) {
    store_box<3>(map, in, x, y, z, bytes, add);
}

/* A map anywhere. */
extern "C" __global__ void prefetch_of(const void *map) {
    tma_prefetch_map(map);
}
