/* A cluster of two blocks: in every round each block brings half of the values to both, and nobody overwrites them
 * before all warps of both blocks have said so on the `empty` barrier of whoever will. to: [rank][round][2 * HALF]. */
constexpr int HALF = 256; /* words; blocks of 128 threads */

extern __shared__ __align__(1024) unsigned char shared_memory[];

extern "C" __global__ void __launch_bounds__(128, 1) __cluster_dims__(2, 1, 1)
    pair(const u32 *from, u32 *to, int rounds) {
    __shared__ u64 barriers[3];
    const u32 full = shared_address(barriers), empty = full + 8, copied = full + 16, rank = cluster_rank(), peer = rank ^ 1;
    const u32 *values = (const u32 *)shared_memory;
    u32 *const own = (u32 *)shared_memory + 2 * HALF;
    if (threadIdx.x == 0) {
        mbarrier_init(full, 1);
        mbarrier_init(empty, 8);
        mbarrier_init(copied, 1);
        mbarrier_init_fence();
    }
    cluster_barrier_arrive();
    cluster_barrier_wait();
    for (int round = 0; round < rounds; ++round) {
        if (threadIdx.x == 0) {
            mbarrier_wait(empty, (round & 1) ^ 1);
            mbarrier_arrive_expect(full, 2 * HALF * 4);
            bulk_load_multicast(shared_address(values) + rank * HALF * 4, from + (round * 2 + rank) * HALF, HALF * 4, full, 3);
        }
        mbarrier_wait(full, round & 1);
        for (int i = threadIdx.x; i < 2 * HALF; i += 128)
            to[(rank * rounds + round) * 2 * HALF + i] = values[i];
        fence_proxy_async_shared();
        __syncwarp();
        if (threadIdx.x % 32 == 0) {
            mbarrier_arrive(empty);
            mbarrier_arrive_cluster(shared_of_rank(empty, peer));
        }
    }
    /* the first words of this block into the other one's memory, behind all else */
    own[threadIdx.x] = 1000 * rank + threadIdx.x;
    fence_proxy_async_shared();
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect(copied, 512);
        bulk_copy_cluster(shared_of_rank(shared_address(own) + 512, peer), shared_address(own), 512, shared_of_rank(copied, peer));
    }
    mbarrier_wait(copied, 0);
    to[(2 * rounds + rank) * 2 * HALF + threadIdx.x] = own[128 + threadIdx.x];
    cluster_barrier_arrive();
    cluster_barrier_wait();
}
