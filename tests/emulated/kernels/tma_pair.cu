/* Two blocks of a pair get the same box; both copies are counted on the barrier of the even block, which tells the other. */
extern __shared__ __align__(1024) unsigned char shared_memory[];
constexpr u32 bytes = 64 * 16 * 2; /* of a box */

extern "C" __global__ void pair(const __grid_constant__ TensorMap map, uint4 *out) {
    __shared__ u64 full_memory;
    u32 full = shared_address(&full_memory), box = shared_address(shared_memory), rank = cluster_rank();
    const uint4 *words = reinterpret_cast<const uint4 *>(shared_memory);
    if (threadIdx.x == 0) {
        mbarrier_init(full, 1);
        mbarrier_init_fence();
    }
    cluster_barrier_arrive();
    cluster_barrier_wait();
    if (rank == 0) {
        if (threadIdx.x == 0) {
            mbarrier_arrive_expect(full, 2 * bytes);
            ${load};
        }
        mbarrier_wait(full, 0);
    }
    cluster_barrier_arrive();
    cluster_barrier_wait();
    for (u32 i = threadIdx.x; i < bytes / 16; i += blockDim.x)
        out[rank * bytes / 16 + i] = words[i];
}
