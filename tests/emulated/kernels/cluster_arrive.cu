/* Two blocks of a cluster hand a value back and forth: the one whose turn it is reads its word, adds to it, writes it into
 * the other's and arrives at the other's barrier. */
extern "C" __global__ void hand_over(u32 *out, u32 turns) {
    __shared__ u32 word;
    __shared__ u64 barrier_memory;
    u32 rank = cluster_rank(), barrier = shared_address(&barrier_memory);
    if (threadIdx.x == 0) {
        word = 1;
        mbarrier_init(barrier, 1);
        mbarrier_init_fence();
    }
    cluster_barrier_arrive();
    cluster_barrier_wait();
    u32 other_word = shared_of_rank(shared_address(&word), rank ^ 1), other_barrier = shared_of_rank(barrier, rank ^ 1);
    if (threadIdx.x == 0) {
        if (rank == 0) {
            store_shared_cluster(other_word, 5);
            mbarrier_arrive_cluster(other_barrier);
        }
        for (u32 turn = 0; turn < turns; turn++) {
            mbarrier_wait_cluster(barrier, turn & 1);
            u32 value = word;
            if (rank == 1 || turn + 1 < turns) { /* block 0 has the last word */
                store_shared_cluster(other_word, value * 2 + rank);
                mbarrier_arrive_cluster(other_barrier);
            }
            out[rank * turns + turn] = value;
        }
    }
    ${last}
}

/* Block 1 reads a word of block 0, which ends when it is told so. */
extern "C" __global__ void peek(u32 *out, u32 *flag) {
    __shared__ u32 word;
    if (threadIdx.x == 0)
        word = 7;
    cluster_barrier_arrive();
    cluster_barrier_wait();
    if (threadIdx.x != 0)
        return;
    if (cluster_rank() == 1) {
        out[0] = load_shared_cluster(shared_of_rank(shared_address(&word), 0));
        ${set};
    } else {
        while (${get} == 0)
            ;
    }
}
