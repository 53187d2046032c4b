${base}
${ptx}
${ptx_sm90}
${ptx_cluster}
${ptx_sm100}
${raster}
${scale}
${gelu}
${split_pair}
/* C[M,N] = A * B in the fp32 class on tcgen05, as wgmma_split_gemm does it on Hopper, whose text says what the class keeps:
 * operands are pairs hi + 2^-11 lo (split.cuh) in 64 x 64 blocks of 8 KiB, each in the 128-byte swizzle; a strip of 64
 * rows has its hi blocks, then its lo blocks (convert_split.cuh). hi * hi goes to accumulators of its own, which the
 * writing warps add to fp32 totals in registers after every PROMOTED blocks of K, as tensor cores cut sums off instead of
 * rounding them; hi * lo + lo * hi counts 2^-11 times as much and stays in tensor memory for all of K. There are two
 * accumulators of each kind, so that the next part, and the next tile, go on meanwhile. Warps and pairs of blocks are as
 * in umma_gemm. */
constexpr int CTAS = ${ctas}, TILE_M = CTAS * 128, TILE_N = 128;
constexpr int A_BLOCKS = 2, B_BLOCKS = TILE_N / 64 / CTAS; /* what one block loads */
constexpr int STAGES = ${stages}, BLOCK_BYTES = 8192, STAGE_BYTES = (A_BLOCKS + B_BLOCKS) * BLOCK_BYTES; /* hi or lo */
constexpr int COLUMNS = 4 * TILE_N, CROSS = 2 * TILE_N; /* of tensor memory; where the cross products' begin */
constexpr int PROMOTED = ${promoted};                   /* blocks of K */
constexpr int WRITERS = 2, SLICE = 64;                  /* warpgroups; columns that each writes */
constexpr int LOADER = WRITERS * 4, MULTIPLIER = LOADER + 1, SCHEDULER = LOADER + 2; /* warps */
constexpr bool STEALING = ${stealing}, SPLIT = ${split}, A_K_MAJOR = ${a_k_major};
constexpr int THREADS = (LOADER + 2 + STEALING) * 32;
constexpr u32 INSTRUCTION = umma_instruction(0, TILE_M, TILE_N, !A_K_MAJOR, true);

${umma}
struct Barriers {
    Answers answers;
    u64 full[STAGES], empty[STAGES], high_full[2], high_empty[2], cross_full[2], cross_empty[2];
    Factor unscale; /* of sums: kept here, not in registers */
    float rescale;  /* from sums to grad_intermediate's 16 bits */
    int guess;      /* of grad_intermediate's exponent */
    u32 tmem;
};

/* accumulators (+)= A of one stage * B of another (or the same), a block of K; by one thread */
__device__ __forceinline__ void multiply(u32 sums, u64 a, u64 b, int accumulate) {
#pragma unroll
    for (int step = 0; step < 4; ++step)
        umma_f16<CTAS>(sums, matrix_further(a, step * (A_K_MAJOR ? 32 : 2048)), matrix_further(b, step * 2048), INSTRUCTION, accumulate + step > 0);
}

extern "C" __global__ void ${cluster} __launch_bounds__(THREADS, 1)
    umma_split_gemm(const u16 *__restrict__ a, const u16 *__restrict__ b, const Scale *scale_a,
                    const Scale *scale_b, ${epilogue_parameters} int tokens, int hidden_size, int intermediate_size, int option, int group_m,
                    int split_k, int work_count, int tiles_m, int tiles_n, int part) {
    const int M = ${m}, N = ${n}, K = ${k};
    ${early_exit}
    __shared__ __align__(16) Barriers barriers;
    /* by shuffle, so that the compiler knows that a warp agrees on it: tcgen05 takes uniform registers */
    const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const int rank = CTAS == 1 ? 0 : (int)cluster_rank();
    const u32 ring = shared_address(shared_memory), full = shared_address(barriers.full), empty = shared_address(barriers.empty);
    const u32 high_full = shared_address(barriers.high_full), high_empty = shared_address(barriers.high_empty);
    const u32 cross_full = shared_address(barriers.cross_full), cross_empty = shared_address(barriers.cross_empty);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(full + i * 8, CTAS == 2 && rank == 0 ? 2 : 1); /* the even block's counts the odd one's, too */
            mbarrier_init(empty + i * 8, 1);
        }
        for (int i = 0; i < 2; ++i) {
            mbarrier_init(high_full + i * 8, 1);
            mbarrier_init(cross_full + i * 8, 1);
            mbarrier_init(high_empty + i * 8, CTAS * WRITERS * 4);
            mbarrier_init(cross_empty + i * 8, CTAS * WRITERS * 4);
        }
        ${start}
            const int first = first_k * 2, last = first + steps_of(walk.work, tiles, part, blocks_k) * 2;
#pragma unroll 1
            for (int half = first; half < last; ++half) { /* hi and lo of each block of K */
                const u32 stage = ring + stage_of.at * STAGE_BYTES, barrier = full + stage_of.at * 8;
                mbarrier_wait(empty + stage_of.at * 8, stage_of.phase ^ 1);
                if (elect_one()) {
                    mbarrier_arrive_expect(barrier, (count_a + count_b) * BLOCK_BYTES);
                    if (A_K_MAJOR) {
#pragma unroll
                        for (int i = 0; i < A_BLOCKS; ++i)
                            if (i < count_a)
                                bulk_load(stage + i * BLOCK_BYTES, a + ((i64)((block_m + i) * 2 + half % 2) * blocks_k + half / 2) * 4096,
                                          BLOCK_BYTES, barrier);
                    } else if (count_a > 0) {
                        bulk_load(stage, a + ((i64)half * blocks_m + block_m) * 4096, count_a * BLOCK_BYTES, barrier);
                    }
                    if (count_b > 0)
                        bulk_load(stage + A_BLOCKS * BLOCK_BYTES, b + ((i64)half * blocks_n + block_n) * 4096, count_b * BLOCK_BYTES, barrier);
                }
                __syncwarp();
                stage_of.next(STAGES);
            }
        }
        for (int i = 0; i < STAGES; ++i) { /* nobody leaves before the last commits have arrived */
            mbarrier_wait(empty + stage_of.at * 8, stage_of.phase ^ 1);
            stage_of.next(STAGES);
        }
    } else if (warp == MULTIPLIER) {
        if (rank == 0) {
            const u64 first_a = umma_descriptor(ring, BLOCK_BYTES, 1024);
            const u64 first_b = umma_descriptor(ring + A_BLOCKS * BLOCK_BYTES, BLOCK_BYTES, 1024);
            for (; walk.work >= 0; walk.next(barriers.answers, work_count, lane)) {
                const int steps = steps_of(walk.work, tiles, part, blocks_k);
                const u32 cross = tmem + CROSS + cross_of.at * TILE_N;
#pragma unroll 1
                for (int k = 0; k < steps; ++k) {
                    const u32 high = tmem + high_of.at * TILE_N, empty_high = empty + stage_of.at * 8;
                    const bool begins = k % PROMOTED == 0, ends = k % PROMOTED == PROMOTED - 1 || k + 1 == steps;
                    if (begins)
                        wait_for_both(high_empty + high_of.at * 8, high_of.phase ^ 1);
                    wait_for_both(full + stage_of.at * 8, stage_of.phase);
                    tcgen05_fence_after();
                    const u64 high_a = matrix_further(first_a, stage_of.at * STAGE_BYTES), high_b = matrix_further(first_b, stage_of.at * STAGE_BYTES);
                    if (elect_one()) { /* the same lane every time, as commits demand */
                        multiply(high, high_a, high_b, !begins);
                        if (ends)
                            commit_to(high_full + high_of.at * 8);
                    }
                    __syncwarp();
                    if (ends)
                        high_of.next(2);
                    stage_of.next(STAGES);
                    if (k == 0)
                        wait_for_both(cross_empty + cross_of.at * 8, cross_of.phase ^ 1);
                    wait_for_both(full + stage_of.at * 8, stage_of.phase);
                    tcgen05_fence_after();
                    const u64 low_a = matrix_further(first_a, stage_of.at * STAGE_BYTES), low_b = matrix_further(first_b, stage_of.at * STAGE_BYTES);
                    if (elect_one()) {
                        multiply(cross, high_a, low_b, k > 0);
                        multiply(cross, low_a, high_b, 1);
                        commit_to(empty_high);
                        commit_to(empty + stage_of.at * 8);
                        if (k + 1 == steps)
                            commit_to(cross_full + cross_of.at * 8);
                    }
                    __syncwarp();
                    stage_of.next(STAGES);
                }
                if (steps > 0)
                    cross_of.next(2);
            }
        } else { /* bulk copies arrive in their own block only: the odd block passes that on */
            for (; walk.work >= 0; walk.next(barriers.answers, work_count, lane))
#pragma unroll 1
                for (int left = steps_of(walk.work, tiles, part, blocks_k) * 2; left > 0; --left) {
                    mbarrier_wait(full + stage_of.at * 8, stage_of.phase);
                    if (lane == 0)
                        arrive_at_even(full + stage_of.at * 8);
                    __syncwarp();
                    stage_of.next(STAGES);
                }
        }
    } else if (STEALING && warp == SCHEDULER) {
        if (lane == 0 && rank == 0 && walk.stealing)
            ask_for_work(barriers.answers);
    } else {
        const int quarter = warp % 4, writer = warp / 4; /* a warp reaches a quarter of the lanes of tensor memory */
        ${writer_state}
        for (; walk.work >= 0; walk.next(barriers.answers, work_count, lane)) {
            int tile_m, tile_n;
            tile_of(walk.work, tiles, group_m, tiles_m, tiles_n, tile_m, tile_n);
            const int row0 = (tile_m * CTAS + rank) * 128 + quarter * 32; /* of the warp's 32 rows */
            const int columns_here = min(TILE_N, N - tile_n * TILE_N);
            const u32 columns_at = tmem + ((u32)quarter << 21) + writer * SLICE;
            ${prefetch}
            ${whole_sums}
            ${epilogue}
        }
    }
    all_blocks_barrier();
    if (warp == MULTIPLIER) {
        tmem_relinquish<CTAS>();
        tmem_free<CTAS, COLUMNS>(tmem);
    }
}
${split_reduction}
