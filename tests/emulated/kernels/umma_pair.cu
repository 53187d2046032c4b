/* C[M,N] = A * B on tcgen05 of block pairs: tiles of PAIR_M rows, half of which each block loads and stores, and TILE_N
 * columns, half of which each block loads. A is K-major, B MN-major, both in the 128-byte swizzle of tensor copies. Warp
 * 0 loads, warp 1 of the even block multiplies, warps 2-5 store; two accumulators. */
constexpr int PAIR_M = ${pair_m}, TILE_N = ${tile_n}, STAGES = 2, BLOCK_K = 64, ACCUMULATORS = 2;
constexpr int ROWS = PAIR_M / 2, B_COLUMNS = TILE_N / 2, A_BYTES = ROWS * 128, B_BYTES = B_COLUMNS * 128;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
/* M = 128: the lower lanes hold the first half of the columns of 64 rows, the upper ones the second half */
constexpr bool HALVES = PAIR_M == 128;
constexpr int SUM_COLUMNS = HALVES ? TILE_N / 2 : TILE_N, COLUMNS = ACCUMULATORS * SUM_COLUMNS;
constexpr u32 INSTRUCTION = umma_instruction(${operand_type}, PAIR_M, TILE_N, false, true);

struct Barriers {
    u64 full[STAGES], empty[STAGES], sums_full[ACCUMULATORS], sums_empty[ACCUMULATORS];
};

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

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(192, 1)
    umma_pair(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, float *c, int tiles_m,
              int tiles_n, int blocks_k) {
    __shared__ Barriers barriers;
    __shared__ u32 tmem_address;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 rank = cluster_rank(), ring = shared_address(shared_memory);
    const u32 full = shared_address(barriers.full), empty = shared_address(barriers.empty);
    const u32 sums_full = shared_address(barriers.sums_full), sums_empty = shared_address(barriers.sums_empty);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(full + i * 8, 1);
            mbarrier_init(empty + i * 8, 1);
        }
        for (int i = 0; i < ACCUMULATORS; ++i) {
            mbarrier_init(sums_full + i * 8, 1);
            mbarrier_init(sums_empty + i * 8, 256); /* of both blocks */
        }
        mbarrier_init_fence();
    }
    cluster_barrier_arrive();
    cluster_barrier_wait();
    if (warp == 1)
        tmem_allocate<2, COLUMNS>(shared_address(&tmem_address));
    __syncthreads();
    const u32 tmem = tmem_address;

    const int tiles = tiles_m * tiles_n, first_tile = blockIdx.x / 2, step_tile = gridDim.x / 2;
    Ring stage_of = {0, 0}, sums_of = {0, 0};
    if (warp == 0 && lane == 0) {
        for (int tile = first_tile; tile < tiles; tile += step_tile) {
            const int row = tile / tiles_n * PAIR_M + (int)rank * ROWS, column = tile % tiles_n * TILE_N + (int)rank * B_COLUMNS;
            for (int k = 0; k < blocks_k; ++k) {
                const u32 stage = ring + stage_of.at * STAGE_BYTES, barrier = shared_of_rank(full + stage_of.at * 8, 0);
                mbarrier_wait_cluster(empty + stage_of.at * 8, stage_of.phase ^ 1);
                if (rank == 0) /* both blocks' bytes are counted here */
                    mbarrier_arrive_expect(full + stage_of.at * 8, 2 * STAGE_BYTES);
                tma_load_pair_2d(stage, &map_a, k * BLOCK_K, row, barrier);
                for (int i = 0; i < B_COLUMNS; i += 64)
                    tma_load_pair_2d(stage + A_BYTES + i * 128, &map_b, column + i, k * BLOCK_K, barrier);
                stage_of.next(STAGES);
            }
        }
    } else if (warp == 1 && lane == 0 && rank == 0) {
        for (int tile = first_tile; tile < tiles; tile += step_tile) {
            mbarrier_wait_cluster(sums_empty + sums_of.at * 8, sums_of.phase ^ 1);
            tcgen05_fence_after();
            for (int k = 0; k < blocks_k; ++k) {
                const u32 stage = ring + stage_of.at * STAGE_BYTES;
                mbarrier_wait_cluster(full + stage_of.at * 8, stage_of.phase);
                tcgen05_fence_after();
                for (int step = 0; step < 4; ++step)
                    umma_f16<2>(tmem + sums_of.at * SUM_COLUMNS, umma_descriptor(stage + step * 32, 0, 1024),
                                umma_descriptor(stage + A_BYTES + step * 2048, 8192, 1024), INSTRUCTION, k + step > 0);
                umma_commit_multicast<2>(empty + stage_of.at * 8, 3);
                stage_of.next(STAGES);
            }
            umma_commit_multicast<2>(sums_full + sums_of.at * 8, 3);
            sums_of.next(ACCUMULATORS);
        }
    } else if (warp >= 2) {
        const int quarter = warp % 4, n = tiles_n * TILE_N;
        const int row = (int)rank * ROWS + (HALVES ? quarter % 2 : quarter) * 32 + lane, first = HALVES ? quarter / 2 * SUM_COLUMNS : 0;
        for (int tile = first_tile; tile < tiles; tile += step_tile) {
            float *to = c + (i64)(tile / tiles_n * PAIR_M + row) * n + tile % tiles_n * TILE_N + first;
            mbarrier_wait_cluster(sums_full + sums_of.at * 8, sums_of.phase);
            tcgen05_fence_after();
            for (int column = 0; column < SUM_COLUMNS; column += 32) {
                u32 sums[32];
                tmem_load_32x32b(sums, tmem + ((u32)quarter << 21) + sums_of.at * SUM_COLUMNS + column);
                tmem_wait_load();
                for (int i = 0; i < 32; ++i)
                    to[column + i] = __uint_as_float(sums[i]);
            }
            tcgen05_fence_before();
            mbarrier_arrive_cluster(shared_of_rank(sums_empty + sums_of.at * 8, 0));
            sums_of.next(ACCUMULATORS);
        }
    }
    __syncthreads(); /* a warp's lanes meet again before the barrier of the cluster */
    cluster_barrier_arrive();
    cluster_barrier_wait();
    if (warp == 1) {
        tmem_relinquish<2>();
        tmem_free<2, COLUMNS>(tmem);
    }
}
