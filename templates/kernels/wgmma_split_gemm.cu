${base}
${ptx}
${ptx_sm90}
${raster}
${scale}
${gelu}
${split}
/* C[M,N] = A * B in the fp32 class on wgmma. Operands are pairs hi + 2^-11 lo (split.cuh) in 64 x 64 blocks of 8 KiB, each
 * in the 128-byte swizzle that wgmma reads; a strip of 64 rows has its hi blocks, then its lo blocks (convert_split.cuh).
 * For every 64 of K: hi * hi in accumulators of their own, added to fp32 sums while the cross products run, because the
 * tensor core cuts its sums off instead of rounding them (measured: 1e-5 at K = 8192 without this, under 4e-7 with it);
 * hi * lo + lo * hi, which counts 2^-11 times as much, so that its own cut-off does not matter; lo * lo is below the
 * split's own error.
 * What it keeps: one scale a tensor puts the largest magnitude into [2^13, 2^16) (grad_intermediate: [2^10, 2^16)), so an
 * element is off by at most 2^-23 of itself or 2^-49 (2^-46) of the tensor's largest: whatever is above 2^-27 (2^-24) of
 * the largest has the class's accuracy, and a product A * B gains an absolute error of at most K 2^-45 max|A| max|B|.
 * Persistent: warpgroup 0 loads, two others multiply, 64 rows each. */
constexpr int CONSUMERS = 2, TILE_M = CONSUMERS * 64, TILE_N = 128, HALF_TILE = TILE_N / 2;
constexpr int SLOTS = ${slots}, THREADS = 128 * (CONSUMERS + 1), BLOCK_BYTES = 8192;
constexpr int A_BLOCKS = CONSUMERS, B_BLOCKS = TILE_N / 64, SLOT_BYTES = (A_BLOCKS + B_BLOCKS) * BLOCK_BYTES;
constexpr bool A_K_MAJOR = ${a_k_major};

struct Barriers {
    u64 full[SLOTS], empty[SLOTS];
};

/* A slot holds hi or lo of both operands for 64 of K; hi comes first. */
struct Ring {
    int slot;
    u32 phase;
    __device__ __forceinline__ void next() {
        if (++slot == SLOTS) {
            slot = 0;
            phase ^= 1;
        }
    }
};

extern __shared__ __align__(1024) unsigned char shared_memory[];

/* among the warps of one consumer; a barrier's number must be a constant */
__device__ __forceinline__ void consumer_barrier(int consumer) {
    if (consumer == 0)
        named_barrier<1, 128>();
    else
        named_barrier<2, 128>();
}

/* accumulators (+)= 64 rows of one slot's A * B of another (or the same), 64 of K; a and b are descriptors */
__device__ __forceinline__ void multiply(float (&accumulators)[HALF_TILE], u64 a, u64 b, int accumulate) {
#pragma unroll
    for (int step = 0; step < 4; ++step)
        wgmma_f16<!A_K_MAJOR>(accumulators, matrix_further(a, step * (A_K_MAJOR ? 32 : 2048)), matrix_further(b, step * 2048),
                              accumulate + step > 0);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    wgmma_split_gemm(const u16 *__restrict__ a, const u16 *__restrict__ b, const Scale *scale_a,
                     const Scale *scale_b, ${epilogue_parameters} int tokens, int hidden_size, int intermediate_size, int option,
                     int group_m, int split_k, int work_count) {
    const int M = ${m}, N = ${n}, K = ${k};
    ${early_exit}
    __shared__ Barriers barriers;
    /* by a shuffle, so that the compiler knows it equal in a warp and keeps what follows from it in uniform registers */
    const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    const u32 ring = shared_address(shared_memory), full = shared_address(barriers.full), empty = shared_address(barriers.empty);
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < SLOTS; ++slot) {
            mbarrier_init(full + slot * 8, 1);
            mbarrier_init(empty + slot * 8, CONSUMERS * 4);
        }
        mbarrier_init_fence();
    }
    __syncthreads();

    /* counts of blocks and tiles fit 32 bits: a plan whose work_count does not is refused */
    const int blocks_m = (int)ceil_div(M, 64), blocks_n = N / 64, blocks_k = (int)ceil_div(K, 64);
    const int tiles_m = (int)ceil_div(M, TILE_M), tiles_n = (int)ceil_div(N, TILE_N), tiles = tiles_m * tiles_n;
    const int part = (int)ceil_div(blocks_k, split_k);
    Ring at = {0, 0};
    if (warpgroup == 0) {
        registers_decrease<40>();
        if (threadIdx.x == 0) {
            fence_proxy_async_global();
            for (int work = blockIdx.x; work < work_count; work += gridDim.x) {
                int tile_m, tile_n;
                raster(work % tiles, group_m, tiles_m, tiles_n, tile_m, tile_n);
                const int first_k = min(work / tiles * part, blocks_k), last_k = min(first_k + part, blocks_k);
                const int block_m = tile_m * A_BLOCKS, block_n = tile_n * B_BLOCKS;
                const int count_a = min(blocks_m - block_m, A_BLOCKS), count_b = min(blocks_n - block_n, B_BLOCKS);
                for (int half = first_k * 2; half < last_k * 2; ++half) { /* hi and lo of each 64 of K */
                    const u32 slot = ring + at.slot * SLOT_BYTES, barrier = full + at.slot * 8;
                    mbarrier_wait(empty + at.slot * 8, at.phase ^ 1);
                    mbarrier_arrive_expect(barrier, (count_a + count_b) * BLOCK_BYTES);
                    if (A_K_MAJOR) {
                        for (int i = 0; i < count_a; ++i)
                            bulk_load(slot + i * BLOCK_BYTES, a + ((i64)((block_m + i) * 2 + half % 2) * blocks_k + half / 2) * 4096,
                                      BLOCK_BYTES, barrier);
                    } else {
                        bulk_load(slot, a + ((i64)half * blocks_m + block_m) * 4096, count_a * BLOCK_BYTES, barrier);
                    }
                    bulk_load(slot + A_BLOCKS * BLOCK_BYTES, b + ((i64)half * blocks_n + block_n) * 4096, count_b * BLOCK_BYTES, barrier);
                    at.next();
                }
            }
        }
    } else {
        registers_increase<232>();
        const int consumer = warpgroup - 1, lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
        const int exponent_a = exponent_in_force(scale_a, ${lowest_a}), exponent_b = exponent_in_force(scale_b, LOWEST_INPUT);
        const Factor unscale = make_factor(-(exponent_a + exponent_b));
        const u64 first_a = matrix_descriptor(ring + consumer * BLOCK_BYTES, BLOCK_BYTES, 1024);
        const u64 first_b = matrix_descriptor(ring + A_BLOCKS * BLOCK_BYTES, BLOCK_BYTES, 1024);
        for (int work = blockIdx.x; work < work_count; work += gridDim.x) {
            int tile_m, tile_n;
            raster(work % tiles, group_m, tiles_m, tiles_n, tile_m, tile_n);
            const int first_k = min(work / tiles * part, blocks_k), last_k = min(first_k + part, blocks_k);
            const int steps = last_k - first_k;
            float sums[HALF_TILE];
#pragma unroll
            for (int e = 0; e < HALF_TILE; ++e)
                sums[e] = 0.0f;
            ${prefetch}
            float high[HALF_TILE], cross[HALF_TILE];
            u32 previous_high = 0, previous_low = 0;
#pragma unroll 1
            for (int k = 0; k < steps; ++k) {
                const u64 high_a = matrix_further(first_a, at.slot * SLOT_BYTES), high_b = matrix_further(first_b, at.slot * SLOT_BYTES);
                const u32 high_empty = empty + at.slot * 8;
                mbarrier_wait(full + at.slot * 8, at.phase);
                at.next();
                const u64 low_a = matrix_further(first_a, at.slot * SLOT_BYTES), low_b = matrix_further(first_b, at.slot * SLOT_BYTES);
                const u32 low_empty = empty + at.slot * 8;
                wgmma_fence();
                multiply(high, high_a, high_b, 0);
                wgmma_commit();
                wgmma_wait<1>(); /* the cross products of the step before have read their slots */
                if (k > 0 && lane == 0) {
                    mbarrier_arrive(previous_high);
                    mbarrier_arrive(previous_low);
                }
                previous_high = high_empty;
                previous_low = low_empty;
                mbarrier_wait(full + at.slot * 8, at.phase);
                at.next();
                wgmma_fence();
                multiply(cross, high_a, low_b, k);
                multiply(cross, low_a, high_b, 1);
                wgmma_commit();
                wgmma_wait<1>();
#pragma unroll
                for (int e = 0; e < HALF_TILE; ++e)
                    sums[e] += high[e];
            }
            wgmma_wait<0>();
            if (steps > 0) {
                if (lane == 0) {
                    mbarrier_arrive(previous_high);
                    mbarrier_arrive(previous_low);
                }
#pragma unroll
                for (int e = 0; e < HALF_TILE; ++e)
                    sums[e] = fmaf(cross[e], 1.0f / LOW_SCALE, sums[e]);
            }
            ${epilogue}
        }
    }
}
${split_reduction}
