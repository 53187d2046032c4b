/* Of the persistent tcgen05 kernels: barriers of a block pair and the walk through the work. The kernel's constants: CTAS
 * (blocks that work on a tile together, 1 or 2), SPLIT (K in parts), STEALING (work is taken from clusters that have not
 * started, by cluster launch control, instead of every so many'th piece). */
struct Ring {
    int at;
    u32 phase;
    __device__ __forceinline__ void next(int count) {
        if (++at == count) {
            at = 0;
            phase ^= 1;
        }
    }
};

extern __shared__ __align__(1024) unsigned char shared_memory[];

/* Barriers that both blocks of a pair arrive on are the even block's; all are waited for in the block where they lie. */
__device__ __forceinline__ void arrive_at_even(u32 barrier) {
    if constexpr (CTAS == 1)
        mbarrier_arrive(barrier);
    else
        mbarrier_arrive_cluster(shared_of_rank(barrier, 0));
}
/* after arrivals by both; commits and copies need no more than mbarrier_wait, as they order nothing else */
__device__ __forceinline__ void wait_for_both(u32 barrier, u32 parity) {
    if constexpr (CTAS == 1)
        mbarrier_wait(barrier, parity);
    else
        mbarrier_wait_cluster(barrier, parity);
}
/* what has been issued is done: said in both blocks of a pair */
__device__ __forceinline__ void commit_to(u32 barrier) {
    if constexpr (CTAS == 1)
        umma_commit<1>(barrier);
    else
        umma_commit_multicast<2>(barrier, 3);
}
__device__ __forceinline__ void all_blocks_barrier() {
    if constexpr (CTAS == 1) {
        __syncthreads();
    } else {
        __syncwarp();
        cluster_barrier_arrive();
        cluster_barrier_wait();
    }
}

/* among the two warps of a writing warpgroup that have the same 64 rows; a barrier's number must be a constant */
__device__ __forceinline__ void rows_barrier(int rows) {
    if (rows == 0)
        named_barrier<1, 64>();
    else if (rows == 1)
        named_barrier<2, 64>();
    else if (rows == 2)
        named_barrier<3, 64>();
    else
        named_barrier<4, 64>();
}

/* blocks from the tile's origin on that exist */
__device__ __forceinline__ int blocks_inside(int blocks, int first, int most) {
    return max(min(blocks - first, most), 0);
}

/* A piece of work is a tile and its part of K. */
__device__ __forceinline__ int first_k_of(int work, int tiles, int part, int blocks_k) {
    return SPLIT ? min(work / tiles * part, blocks_k) : 0;
}
__device__ __forceinline__ int steps_of(int work, int tiles, int part, int blocks_k) {
    return SPLIT ? min(part, blocks_k - first_k_of(work, tiles, part, blocks_k)) : blocks_k;
}
__device__ __forceinline__ void tile_of(int work, int tiles, int group_m, int tiles_m, int tiles_n, int &tile_m, int &tile_n) {
    u32 m, n; /* unsigned division is cheaper */
    raster<u32>(SPLIT ? work % tiles : work, group_m, tiles_m, tiles_n, m, n);
    tile_m = (int)m;
    tile_n = (int)n;
}

/* What cluster launch control says: each answer goes to both blocks of a pair, where all warps that walk read it. */
struct Answers {
    u32 words[2][4]; /* aligned to 16 bytes */
    u64 here[2], read[2];
};
__device__ __forceinline__ void answers_init(Answers &answers, int walking_warps) {
    for (int i = 0; i < 2; ++i) {
        mbarrier_init(shared_address(answers.here + i), 1);
        mbarrier_init(shared_address(answers.read + i), CTAS * walking_warps);
    }
}
/* the first block of a cluster, which will not start, or -1 */
__device__ __forceinline__ int answered_block(const u32 (&from)[4]) {
    const u32 words[4] = {from[0], from[1], from[2], from[3]};
    return cancel_succeeded(words) ? (int)cancel_first_block<0>(words) : -1;
}

/* A warp's walk through the work of its block or pair. */
struct Walk {
    int work; /* negative: no more */
    bool stealing;
    Ring answer;
    __device__ __forceinline__ void next(const Answers &answers, int work_count, int lane) {
        if (STEALING && stealing) {
            wait_for_both(shared_address(answers.here + answer.at), answer.phase);
            const int block = answered_block(answers.words[answer.at]);
            cancel_fence_release();
            work = __shfl_sync(0xffffffffu, block < 0 ? -1 : block / CTAS, 0);
            __syncwarp();
            if (lane == 0)
                arrive_at_even(shared_address(answers.read + answer.at));
            answer.next(2);
        } else {
            work += gridDim.x / CTAS;
            if (work >= work_count)
                work = -1;
        }
    }
};

/* One thread of the even block asks for work until there is no more; asking after a refusal is not defined. */
__device__ __forceinline__ void ask_for_work(Answers &answers) {
    for (Ring answer = {0, 0};; answer.next(2)) {
        const u32 words = shared_address(answers.words[answer.at]), here = shared_address(answers.here + answer.at);
        wait_for_both(shared_address(answers.read + answer.at), answer.phase ^ 1);
        cancel_fence_acquire();
        if constexpr (CTAS == 1) {
            mbarrier_arrive_expect(here, 16);
            cancel_request(words, here);
        } else {
            mbarrier_arrive_expect_cluster(shared_of_rank(here, 0), 16);
            mbarrier_arrive_expect_cluster(shared_of_rank(here, 1), 16);
            cancel_request_multicast(words, here);
        }
        wait_for_both(here, answer.phase);
        if (answered_block(answers.words[answer.at]) < 0)
            break;
        cancel_fence_release();
    }
}
