/* Clusters that take the work of clusters which have not started: the launch has one cluster a tile, few of which fit at
 * once. Every block adds its rank's mark to each tile that its cluster works on. */
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64, 1) umma_clc(u32 *marks, u32 *workers) {
    __shared__ __align__(16) u32 answer_memory[4];
    __shared__ u64 answered_memory;
    const u32 rank = cluster_rank(), answer = shared_address(answer_memory), answered = shared_address(&answered_memory);
    if (threadIdx.x == 0) {
        mbarrier_init(answered, 1);
        mbarrier_init_fence();
    }
    cluster_barrier_arrive();
    cluster_barrier_wait();
    u32 first = blockIdx.x - rank;
    for (u32 phase = 0;; phase ^= 1) {
        if (threadIdx.x == 0)
            mbarrier_arrive_expect(answered, 16);
        cluster_barrier_arrive(); /* every block of the cluster expects its bytes, and has read the last answer */
        cluster_barrier_wait();
        if (rank == 0 && threadIdx.x == 0) {
            cancel_fence_acquire();
            cancel_request_multicast(answer, answered);
        }
        if (threadIdx.x == 32) { /* the tile's work */
            marks[first + rank] += 1 + rank;
            workers[first + rank] = blockIdx.x;
        }
        mbarrier_wait_cluster(answered, phase);
        const u32 words[4] = {answer_memory[0], answer_memory[1], answer_memory[2], answer_memory[3]};
        if (!cancel_succeeded(words))
            break;
        first = cancel_first_block<0>(words);
        cancel_fence_release();
    }
    cluster_barrier_arrive();
    cluster_barrier_wait();
}
