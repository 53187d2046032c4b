${base}
${ptx}
${ptx_sm90}
${raster}
${scale}
${gelu}
${convert}
/* C[M,N] = A * B on wgmma, 16-bit operands, fp32 sums. Operands lie in memory as 64 x 64 blocks of 8 KiB, each in the
 * 128-byte swizzle that wgmma reads (convert_blocked.cuh): one bulk copy brings blocks into a stage as they are, with
 * no tensor map, and the same copy serves as K-major and as MN-major operand. Persistent: warpgroup 0 loads, the others
 * multiply, 64 * TILES_M rows each. Cooperative: both consumers work on one tile. Ping-pong: each has every other tile of
 * the block, so that the epilogue of one runs under the main loop of the other. */
constexpr int CONSUMERS = 2, TILES_M = ${tiles_m}, TILE_N = ${tile_n};
constexpr bool PING_PONG = ${ping_pong};
constexpr int TILE_M = (PING_PONG ? 1 : CONSUMERS) * TILES_M * 64;
constexpr int STAGES = ${stages}, THREADS = 128 * (CONSUMERS + 1), BLOCK_BYTES = 8192;
constexpr int A_BLOCKS = TILE_M / 64, B_BLOCKS = TILE_N / 64, STAGE_BYTES = (A_BLOCKS + B_BLOCKS) * BLOCK_BYTES;
constexpr bool SPLIT = ${split}; /* K in parts */
constexpr bool A_K_MAJOR = ${a_k_major};

struct Barriers {
    u64 full[STAGES], empty[STAGES];
    Factor unscale; /* of sums: kept here, not in registers */
    float rescale;  /* from sums to grad_intermediate's 16 bits */
    u32 *largest;   /* of grad_intermediate's scale */
    ${conversions}
};

struct Ring {
    int stage;
    u32 phase;
    __device__ __forceinline__ void next() {
        if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }
    __device__ __forceinline__ void skip(int steps) {
        stage += steps;
        phase ^= stage / STAGES & 1;
        stage %= STAGES;
    }
};

extern __shared__ __align__(1024) unsigned char shared_memory[];

/* Ping-pong turns: a consumer starts its main loop when the other has waited for its last stage. Without that order the
 * parity of a stage's barrier could be that of an earlier round. The barrier's number must be a constant. */
__device__ __forceinline__ void wait_for_turn(int consumer) {
    if (consumer == 0)
        named_barrier<4, 256>();
    else
        named_barrier<5, 256>();
}
__device__ __forceinline__ void give_turn(int consumer) { /* to the other one */
    if (consumer == 0)
        named_barrier_arrive<5, 256>();
    else
        named_barrier_arrive<4, 256>();
}

/* among the warps of one consumer */
__device__ __forceinline__ void consumer_barrier(int consumer) {
    if (consumer == 0)
        named_barrier<1, 128>();
    else
        named_barrier<2, 128>();
}

/* blocks from the tile's origin on that exist */
__device__ __forceinline__ int blocks_inside(int blocks, int first, int most) {
    return min(blocks - first, most);
}

/* A piece of work is a tile and its part of K. These are computed anew each time: as loop invariants they would hold
 * registers throughout the main loop. */
__device__ __forceinline__ int first_k_of(int work, int tiles, int part, int blocks_k) {
    return SPLIT ? min(work / compute_here(tiles) * part, blocks_k) : 0;
}
__device__ __forceinline__ int steps_of(int work, int tiles, int part, int blocks_k) {
    return SPLIT ? min(part, blocks_k - first_k_of(work, tiles, part, blocks_k)) : blocks_k;
}
__device__ __forceinline__ void tile_of(int work, int tiles, int group_m, int tiles_m, int tiles_n, int &tile_m, int &tile_n) {
    u32 m, n; /* unsigned division is cheaper */
    raster<u32>(SPLIT ? work % compute_here(tiles) : work, compute_here(group_m), tiles_m, compute_here(tiles_n), m, n);
    tile_m = (int)m;
    tile_n = (int)n;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    wgmma_gemm(const u16 *__restrict__ a, const u16 *__restrict__ b, const Scale *scale_a,
               const Scale *scale_b, ${epilogue_parameters} ${convert_parameters} int tokens, int hidden_size, int intermediate_size, int option,
               int group_m, int split_k, int work_count, int tiles_m, int tiles_n, int part) {
    const int M = ${m}, N = ${n}, K = ${k};
    ${early_exit}
    __shared__ Barriers barriers;
    /* by shuffle, so that the compiler knows that a warp agrees on it and keeps the loops' state in uniform registers */
    const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    const u32 ring = shared_address(shared_memory), full = shared_address(barriers.full), empty = shared_address(barriers.empty);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(full + stage * 8, 1);
            mbarrier_init(empty + stage * 8, PING_PONG ? 4 : CONSUMERS * 4);
        }
        mbarrier_init_fence();
    }
    __syncthreads();

    /* counts of blocks and tiles fit 32 bits: a plan whose work_count does not is refused */
    const int blocks_m = (M + 63) / 64, blocks_n = N / 64, blocks_k = (K + 63) / 64;
    const int tiles = tiles_m * tiles_n;
    (void)split_k;
    Ring at = {0, 0};
    if (warpgroup == 0) {
        registers_decrease<${producer_registers}>();
        if (threadIdx.x == 0) {
            fence_proxy_async_global();
            for (int work = blockIdx.x; work < work_count; work += gridDim.x) {
                int tile_m, tile_n;
                tile_of(work, tiles, group_m, tiles_m, tiles_n, tile_m, tile_n);
                const int first_k = first_k_of(work, tiles, part, blocks_k);
                const int block_m = tile_m * A_BLOCKS, block_n = tile_n * B_BLOCKS;
                const int count_a = blocks_inside(blocks_m, block_m, A_BLOCKS), count_b = blocks_inside(blocks_n, block_n, B_BLOCKS);
                /* a K block on is one block further in a K-major operand, a row of blocks further in an MN-major one */
                const char *from_a = (const char *)a + (A_K_MAJOR ? (i64)block_m * blocks_k + first_k : (i64)first_k * blocks_m + block_m) * BLOCK_BYTES;
                const char *from_b = (const char *)b + ((i64)first_k * blocks_n + block_n) * BLOCK_BYTES;
#pragma unroll 1
                for (int left = steps_of(work, tiles, part, blocks_k); left > 0; --left) {
                    const u32 stage = ring + at.stage * STAGE_BYTES, barrier = full + at.stage * 8;
                    mbarrier_wait(empty + at.stage * 8, at.phase ^ 1);
                    mbarrier_arrive_expect(barrier, (count_a + count_b) * BLOCK_BYTES);
                    if (A_K_MAJOR) {
#pragma unroll
                        for (int i = 0; i < A_BLOCKS; ++i)
                            if (i < count_a)
                                bulk_load(stage + i * BLOCK_BYTES, from_a + (i64)blocks_k * (i * BLOCK_BYTES), BLOCK_BYTES, barrier);
                    } else {
                        bulk_load(stage, from_a, count_a * BLOCK_BYTES, barrier);
                    }
                    bulk_load(stage + A_BLOCKS * BLOCK_BYTES, from_b, count_b * BLOCK_BYTES, barrier);
                    from_a += A_K_MAJOR ? BLOCK_BYTES : (i64)blocks_m * BLOCK_BYTES;
                    from_b += (i64)blocks_n * BLOCK_BYTES;
                    at.next();
                }
            }
        }
        ${convert_beside}
    } else {
        registers_increase<${consumer_registers}>();
        if (threadIdx.x == 128 && work_count > 0) { /* while the first copies are under way */
            const int exponent_ab = exponent_in_force(scale_a, ${lowest_a}) + exponent_in_force(scale_b, LOWEST_INPUT);
            barriers.unscale = make_factor(-exponent_ab);
            ${setup}
        }
        named_barrier<3, 128 * CONSUMERS>();
        const int consumer = warpgroup - 1, rows_of = PING_PONG ? 0 : consumer * TILES_M, lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
        if (PING_PONG && consumer == 1) { /* the first tile is the other's */
            give_turn(consumer);
            at.skip(steps_of(blockIdx.x, tiles, part, blocks_k));
        }
        const u64 first_a = matrix_descriptor(ring + rows_of * BLOCK_BYTES, BLOCK_BYTES, 1024);
        const u64 first_b = matrix_descriptor(ring + A_BLOCKS * BLOCK_BYTES, BLOCK_BYTES, 1024);
        constexpr u32 STEP_A = A_K_MAJOR ? 32 : 2048;
#pragma unroll 1
        for (int work = blockIdx.x + (PING_PONG ? consumer * gridDim.x : 0); work < work_count; work += compute_here(gridDim.x)) {
            int tile_m, tile_n;
            tile_of(work, tiles, group_m, tiles_m, tiles_n, tile_m, tile_n);
            const int steps = steps_of(work, tiles, part, blocks_k);
            float sums[TILES_M][TILE_N / 2];
            if (steps == 0) {
#pragma unroll
                for (int i = 0; i < TILES_M; ++i)
#pragma unroll
                    for (int e = 0; e < TILE_N / 2; ++e)
                        sums[i][e] = 0.0f;
            }
            ${prefetch}
            if (PING_PONG)
                wait_for_turn(consumer);
            u32 previous = 0;
#pragma unroll 1
            for (int k = 0; k < steps; ++k) {
                mbarrier_wait(full + at.stage * 8, at.phase);
                const u64 stage_a = matrix_further(first_a, at.stage * STAGE_BYTES), stage_b = matrix_further(first_b, at.stage * STAGE_BYTES);
                wgmma_fence();
#pragma unroll
                for (int step = 0; step < 4; ++step)
#pragma unroll
                    for (int i = 0; i < TILES_M; ++i)
                        wgmma_${operand_type}<!A_K_MAJOR>(
                            sums[i],
                            matrix_further(stage_a, i * BLOCK_BYTES + step * STEP_A),
                            matrix_further(stage_b, step * 2048), k + step > 0);
                wgmma_commit();
                wgmma_wait<1>(); /* the previous stage has been read */
                if (k > 0 && lane == 0)
                    mbarrier_arrive(previous);
                previous = empty + at.stage * 8;
                at.next();
            }
            if (PING_PONG && work + compute_here(gridDim.x) < work_count)
                give_turn(consumer);
            wgmma_wait<0>();
            if (steps > 0 && lane == 0)
                mbarrier_arrive(previous);
            ${epilogue}
            if (PING_PONG) { /* the other consumer's tile */
                work += compute_here(gridDim.x);
                at.skip(steps_of(work, tiles, part, blocks_k));
            }
        }
    }
}
${split_reduction}
