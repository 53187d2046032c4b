${base}
${ptx}
${ptx_sm90}
${ptx_cluster}
${ptx_sm100}
${ptx_tma}
${raster}
${scale}
${gelu}
/* C[M,N] = A * B on tcgen05, 16-bit operands, fp32 sums in tensor memory. Operands lie in memory as 64 x 64 blocks of
 * 8 KiB, each in the 128-byte swizzle that tcgen05 reads (convert_blocked.cuh): bulk copies bring blocks into a stage as
 * they are, with no tensor map, and the same copy serves as K-major and as MN-major operand. Persistent: one warp loads,
 * one issues the products, warpgroups write results. There are two accumulators, so that a tile is written under the main
 * loop of the next. A pair of blocks (CTAS = 2) works on tiles of 256 rows: each block loads its 128 rows of A and half
 * of the columns of B, the even one issues the products for both, and each has its 128 rows of sums. */
constexpr int CTAS = ${ctas}, TILE_M = CTAS * 128, TILE_N = ${tile_n};
constexpr int A_BLOCKS = 2, B_BLOCKS = TILE_N / 64 / CTAS; /* what one block loads */
constexpr int STAGES = ${stages}, BLOCK_BYTES = 8192, STAGE_BYTES = (A_BLOCKS + B_BLOCKS) * BLOCK_BYTES;
constexpr int SUMS = 2, COLUMNS = TILE_N > 128 ? 512 : SUMS * TILE_N; /* of tensor memory: a power of two */
constexpr int WRITERS = ${writers}, SLICE = ${slice}; /* warpgroups; columns that they take up at once */
constexpr int LOADER = WRITERS * 4, MULTIPLIER = LOADER + 1, SCHEDULER = LOADER + 2; /* warps */
constexpr bool STEALING = ${stealing}, SPLIT = ${split}, A_K_MAJOR = ${a_k_major};
constexpr int THREADS = (LOADER + 2 + STEALING) * 32;
constexpr u32 INSTRUCTION = umma_instruction(${operand_type}, TILE_M, TILE_N, !A_K_MAJOR, true);

${umma}
struct Barriers {
    Answers answers;
    u64 full[STAGES], empty[STAGES], sums_full[SUMS], sums_empty[SUMS];
    Factor unscale; /* of sums: kept here, not in registers */
    float rescale;  /* from sums to grad_intermediate's 16 bits */
    int guess;      /* of grad_intermediate's exponent */
    u32 tmem;
};

extern "C" __global__ void ${cluster} __launch_bounds__(THREADS, 1)
    umma_gemm(const u16 *__restrict__ a, const u16 *__restrict__ b, const Scale *scale_a, const Scale *scale_b,
              ${epilogue_parameters} int tokens, int hidden_size, int intermediate_size, int option, int group_m,
              int split_k, int work_count, int tiles_m, int tiles_n, int part) {
    const int M = ${m}, N = ${n}, K = ${k};
    ${early_exit}
    __shared__ __align__(16) Barriers barriers;
    /* by shuffle, so that the compiler knows that a warp agrees on it: tcgen05 takes uniform registers */
    const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const int rank = CTAS == 1 ? 0 : (int)cluster_rank();
    const u32 ring = shared_address(shared_memory), full = shared_address(barriers.full), empty = shared_address(barriers.empty);
    const u32 sums_full = shared_address(barriers.sums_full), sums_empty = shared_address(barriers.sums_empty);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(full + i * 8, CTAS == 2 && rank == 0 ? 2 : 1); /* the even block's counts the odd one's, too */
            mbarrier_init(empty + i * 8, 1);
        }
        for (int i = 0; i < SUMS; ++i) {
            mbarrier_init(sums_full + i * 8, 1);
            mbarrier_init(sums_empty + i * 8, CTAS * WRITERS * 4);
        }
        ${start}
            /* a K block on is one block further in a K-major operand, a row of blocks further in an MN-major one */
            const char *from_a = (const char *)a + (A_K_MAJOR ? (i64)block_m * blocks_k + first_k : (i64)first_k * blocks_m + block_m) * BLOCK_BYTES;
            const char *from_b = (const char *)b + ((i64)first_k * blocks_n + block_n) * BLOCK_BYTES;
#pragma unroll 1
            for (int left = steps_of(walk.work, tiles, part, blocks_k); left > 0; --left) {
                const u32 stage = ring + stage_of.at * STAGE_BYTES, barrier = full + stage_of.at * 8;
                mbarrier_wait(empty + stage_of.at * 8, stage_of.phase ^ 1);
                if (elect_one()) {
                    mbarrier_arrive_expect(barrier, (count_a + count_b) * BLOCK_BYTES);
                    if (A_K_MAJOR) {
#pragma unroll
                        for (int i = 0; i < A_BLOCKS; ++i)
                            if (i < count_a)
                                bulk_load(stage + i * BLOCK_BYTES, from_a + (i64)blocks_k * (i * BLOCK_BYTES), BLOCK_BYTES, barrier);
                    } else if (count_a > 0) {
                        bulk_load(stage, from_a, count_a * BLOCK_BYTES, barrier);
                    }
                    if (count_b > 0)
                        bulk_load(stage + A_BLOCKS * BLOCK_BYTES, from_b, count_b * BLOCK_BYTES, barrier);
                }
                __syncwarp();
                from_a += A_K_MAJOR ? BLOCK_BYTES : (i64)blocks_m * BLOCK_BYTES;
                from_b += (i64)blocks_n * BLOCK_BYTES;
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
            constexpr u32 STEP_A = A_K_MAJOR ? 32 : 2048;
            for (; walk.work >= 0; walk.next(barriers.answers, work_count, lane)) {
                const u32 sums = tmem + sums_of.at * TILE_N;
                wait_for_both(sums_empty + sums_of.at * 8, sums_of.phase ^ 1);
                u32 more = 0;
#pragma unroll 1
                for (int left = steps_of(walk.work, tiles, part, blocks_k); left > 0; --left) {
                    wait_for_both(full + stage_of.at * 8, stage_of.phase);
                    tcgen05_fence_after();
                    const u64 stage_a = matrix_further(first_a, stage_of.at * STAGE_BYTES);
                    const u64 stage_b = matrix_further(first_b, stage_of.at * STAGE_BYTES);
                    if (elect_one()) { /* the same lane every time, as commits demand */
#pragma unroll
                        for (int step = 0; step < 4; ++step)
                            umma_f16<CTAS>(sums, matrix_further(stage_a, step * STEP_A), matrix_further(stage_b, step * 2048), INSTRUCTION,
                                           step == 0 ? more : 1);
                        commit_to(empty + stage_of.at * 8);
                    }
                    __syncwarp();
                    more = 1;
                    stage_of.next(STAGES);
                }
                if (elect_one())
                    commit_to(sums_full + sums_of.at * 8);
                __syncwarp();
                sums_of.next(SUMS);
            }
        } else { /* bulk copies arrive in their own block only: the odd block passes that on */
            for (; walk.work >= 0; walk.next(barriers.answers, work_count, lane))
#pragma unroll 1
                for (int left = steps_of(walk.work, tiles, part, blocks_k); left > 0; --left) {
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
            const u32 sums_at = tmem + sums_of.at * TILE_N + ((u32)quarter << 21);
            ${prefetch}
            mbarrier_wait(sums_full + sums_of.at * 8, sums_of.phase);
            tcgen05_fence_after();
            ${epilogue}
            tcgen05_fence_before(); /* the sums have been read */
            __syncwarp();
            if (lane == 0)
                arrive_at_even(sums_empty + sums_of.at * 8);
            __syncwarp();
            sums_of.next(SUMS);
        }
        ${writer_end}
    }
    all_blocks_barrier();
    if (warp == MULTIPLIER) {
        tmem_relinquish<CTAS>();
        tmem_free<CTAS, COLUMNS>(tmem);
    }
}
${split_reduction}
