/* A cluster of two blocks: each loads one of two boxes and gives it to both (multicast), twice, through one stage: the
 * second time only when both have read the first. Out: [block][round][2 boxes]. */
extern __shared__ __align__(1024) unsigned char shared_memory[];
constexpr u32 BOX_BYTES = 64 * 16 * 2, bytes = 2 * BOX_BYTES; /* bytes: of both boxes */

extern "C" __global__ void multicast(const __grid_constant__ TensorMap map, uint4 *out) {
    __shared__ u64 full_memory, empty_memory;
    u32 full = shared_address(&full_memory), empty = shared_address(&empty_memory), rank = cluster_rank();
    u32 box = shared_address(shared_memory) + rank * BOX_BYTES;
    const uint4 *words = reinterpret_cast<const uint4 *>(shared_memory);
    if (threadIdx.x == 0) {
        mbarrier_init(full, 1);
        mbarrier_init(empty, 2 * blockDim.x); /* the threads of both blocks */
        mbarrier_init_fence();
    }
    ${start}
    for (int round = 0; round < 2; round++) {
        if (threadIdx.x == 0) {
            if (round > 0)
                mbarrier_wait_cluster(empty, 0);
            mbarrier_arrive_expect(full, ${expected});
            tma_load_multicast_2d(box, &map, 0, 16 * (2 * round + rank), full, 3);
        }
        mbarrier_wait(full, round);
        for (u32 i = threadIdx.x; i < 2 * BOX_BYTES / 16; i += blockDim.x)
            out[(blockIdx.x * 2 + round) * 2 * BOX_BYTES / 16 + i] = words[i];
        ${fence}
        for (u32 peer = 0; peer < 2; peer++)
            mbarrier_arrive_cluster(shared_of_rank(empty, peer));
    }
    if (threadIdx.x == 0) {
        ${drain}
    }
}
