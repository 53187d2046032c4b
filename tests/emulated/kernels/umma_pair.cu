/* C[M,N] = A * B on tcgen05 of block pairs: tiles of PAIR_M rows, half of which each block loads and stores, and TILE_N
 * columns, half of which each block loads. A is K-major, B MN-major, both in the 128-byte swizzle of tensor copies. Warp
 * 0 loads, warp 1 of the even block multiplies, warps 2-5 store. One tile a pair. */
constexpr int PAIR_M = ${pair_m}, TILE_N = ${tile_n}, STAGES = 2, BLOCK_K = 64;
constexpr int ROWS = PAIR_M / 2, B_COLUMNS = TILE_N / 2, A_BYTES = ROWS * 128, B_BYTES = B_COLUMNS * 128;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES, COLUMNS = TILE_N < 32 ? 32 : TILE_N;
constexpr u32 INSTRUCTION = umma_instruction(${operand_type}, PAIR_M, TILE_N, false, true);

struct Barriers {
    u64 full[STAGES], empty[STAGES], sums_full;
};

extern __shared__ __align__(1024) unsigned char shared_memory[];

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(192, 1)
    umma_pair(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, float *c, int tiles_n,
              int blocks_k) {
    __shared__ Barriers barriers;
    __shared__ u32 tmem_address;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 rank = cluster_rank(), ring = shared_address(shared_memory);
    const u32 full = shared_address(barriers.full), empty = shared_address(barriers.empty);
    const u32 sums_full = shared_address(&barriers.sums_full);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(full + i * 8, 1);
            mbarrier_init(empty + i * 8, 1);
        }
        mbarrier_init(sums_full, 1);
        mbarrier_init_fence();
    }
    cluster_barrier_arrive();
    cluster_barrier_wait();
    if (warp == 1)
        tmem_allocate<2, COLUMNS>(shared_address(&tmem_address));
    __syncthreads();
    const u32 tmem = tmem_address;

    const int tile = blockIdx.x / 2, tile_m = tile / tiles_n, tile_n = tile % tiles_n;
    if (warp == 0 && lane == 0) {
        for (int k = 0; k < blocks_k; ++k) {
            const int at = k % STAGES;
            const u32 stage = ring + at * STAGE_BYTES, barrier = shared_of_rank(full + at * 8, 0);
            mbarrier_wait_cluster(empty + at * 8, (k / STAGES & 1) ^ 1);
            if (rank == 0) /* both blocks' bytes are counted here */
                mbarrier_arrive_expect(full + at * 8, 2 * STAGE_BYTES);
            tma_load_pair_2d(stage, &map_a, k * BLOCK_K, tile_m * PAIR_M + (int)rank * ROWS, barrier);
            for (int i = 0; i < B_COLUMNS; i += 64)
                tma_load_pair_2d(stage + A_BYTES + i * 128, &map_b, tile_n * TILE_N + (int)rank * B_COLUMNS + i, k * BLOCK_K,
                                 barrier);
        }
    } else if (warp == 1 && lane == 0 && rank == 0) {
        for (int k = 0; k < blocks_k; ++k) {
            const int at = k % STAGES;
            const u32 stage = ring + at * STAGE_BYTES;
            mbarrier_wait_cluster(full + at * 8, k / STAGES & 1);
            tcgen05_fence_after();
            for (int step = 0; step < 4; ++step)
                umma_f16<2>(tmem, umma_descriptor(stage + step * 32, 0, 1024),
                            umma_descriptor(stage + A_BYTES + step * 2048, 8192, 1024), INSTRUCTION, k + step > 0);
            umma_commit_multicast<2>(empty + at * 8, 3);
        }
        umma_commit_multicast<2>(sums_full, 3);
    } else if (warp >= 2) {
        const int quarter = warp % 4, n = tiles_n * TILE_N;
        /* M = 128: the lower lanes hold the first half of the columns of 64 rows, the upper ones the second half */
        const int columns = PAIR_M == 128 ? TILE_N / 2 : TILE_N, first = PAIR_M == 128 ? quarter / 2 * columns : 0;
        const int row = tile_m * PAIR_M + (int)rank * ROWS + (PAIR_M == 128 ? quarter % 2 : quarter) * 32 + lane;
        mbarrier_wait_cluster(sums_full, 0);
        tcgen05_fence_after();
        for (int column = 0; column < columns; column += 32) {
            u32 sums[32];
            tmem_load_32x32b(sums, tmem + ((u32)quarter << 21) + column);
            tmem_wait_load();
            for (int i = 0; i < 32; ++i)
                c[(i64)row * n + tile_n * TILE_N + first + column + i] = __uint_as_float(sums[i]);
        }
        tcgen05_fence_before();
    }
    __syncthreads(); /* together: a warp's lanes meet again before the barrier of the cluster */
    cluster_barrier_arrive();
    cluster_barrier_wait();
    if (warp == 1) {
        tmem_relinquish<2>();
        tmem_free<2, COLUMNS>(tmem);
    }
}
