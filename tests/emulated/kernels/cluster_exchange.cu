/* Shared memory of a cluster of four blocks: each writes a word into its neighbour, adds up what all have, and copies a
 * line to its neighbour in bulk. Out: [block][34]: sum, word of the neighbour, line. */
extern "C" __global__ void exchange(u32 *out) {
    __shared__ __align__(16) u32 line[32], copied[32];
    __shared__ u32 word;
    __shared__ u64 barrier_memory;
    u32 rank = cluster_rank(), size = cluster_size(), next = (rank + 1) % size, barrier = shared_address(&barrier_memory);
    line[threadIdx.x] = 100 * blockIdx.x + threadIdx.x;
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        mbarrier_init_fence();
    }
    fence_proxy_async_shared();
    cluster_barrier_arrive();
    cluster_barrier_wait();
    if (threadIdx.x == 0) {
        store_shared_cluster(shared_of_rank(shared_address(&word), next), 1000 + rank);
        mbarrier_arrive_expect(barrier, sizeof copied);
    }
    u32 sum = 0;
    for (u32 peer = 0; peer < size; peer++)
        sum += load_shared_cluster(shared_of_rank(shared_address(&line[threadIdx.x]), peer));
    ${barrier}
    if (threadIdx.x == 0)
        bulk_copy_cluster(shared_of_rank(shared_address(copied), next), shared_address(line), sizeof copied,
                          shared_of_rank(barrier, next));
    mbarrier_wait(barrier, 0);
    out[blockIdx.x * 34 + 2 + threadIdx.x] = copied[threadIdx.x];
    if (threadIdx.x == 0) {
        out[blockIdx.x * 34] = sum;
        out[blockIdx.x * 34 + 1] = word;
    }
    ${last}
}
