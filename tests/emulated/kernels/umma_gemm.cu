/* C[M,N] = A * B on tcgen05 of one block, fp32 sums in tensor memory, two accumulators. Operands lie in memory as 64 x 64
 * blocks of 8 KiB in the 128-byte swizzle, K-major or MN-major. Warp 0 loads, warp 1 multiplies, warps 2-5 store. */
constexpr int TILE_M = ${tile_m}, TILE_N = ${tile_n}, STAGES = 3, BLOCK_BYTES = 8192;
constexpr bool A_MN_MAJOR = ${a_mn_major}, B_MN_MAJOR = ${b_mn_major};
constexpr int A_BLOCKS = TILE_M / 64, B_BLOCKS = TILE_N / 64, STAGE_BYTES = (A_BLOCKS + B_BLOCKS) * BLOCK_BYTES;
constexpr int ACCUMULATORS = 2, COLUMNS = ACCUMULATORS * TILE_N;
constexpr u32 INSTRUCTION = umma_instruction(${operand_type}, TILE_M, TILE_N, A_MN_MAJOR, B_MN_MAJOR);

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

template <bool MN_MAJOR>
__device__ __forceinline__ void load_blocks(u32 stage, const u16 *from, int blocks, int first, int all, int k, int blocks_k,
                                            u32 barrier) {
    if (MN_MAJOR) {
        bulk_load(stage, from + ((i64)k * all + first) * 4096, blocks * BLOCK_BYTES, barrier);
    } else {
        for (int i = 0; i < blocks; ++i)
            bulk_load(stage + i * BLOCK_BYTES, from + ((i64)(first + i) * blocks_k + k) * 4096, BLOCK_BYTES, barrier);
    }
}

extern "C" __global__ void __launch_bounds__(192, 1)
    umma_gemm(const u16 *__restrict__ a, const u16 *__restrict__ b, float *c, int tiles_m, int tiles_n, int blocks_k) {
    __shared__ Barriers barriers;
    __shared__ u32 tmem_address;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 ring = shared_address(shared_memory), full = shared_address(barriers.full), empty = shared_address(barriers.empty);
    const u32 sums_full = shared_address(barriers.sums_full), sums_empty = shared_address(barriers.sums_empty);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(full + i * 8, 1);
            mbarrier_init(empty + i * 8, 1);
        }
        for (int i = 0; i < ACCUMULATORS; ++i) {
            mbarrier_init(sums_full + i * 8, 1);
            mbarrier_init(sums_empty + i * 8, 128);
        }
        mbarrier_init_fence();
    }
    if (warp == 1)
        tmem_allocate<1, COLUMNS>(shared_address(&tmem_address));
    __syncthreads();
    const u32 tmem = tmem_address;

    const int tiles = tiles_m * tiles_n;
    Ring stage_of = {0, 0}, sums_of = {0, 0};
    if (warp == 0 && lane == 0) {
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            for (int k = 0; k < blocks_k; ++k) {
                const u32 stage = ring + stage_of.at * STAGE_BYTES, barrier = full + stage_of.at * 8;
                mbarrier_wait(empty + stage_of.at * 8, stage_of.phase ^ 1);
                mbarrier_arrive_expect(barrier, STAGE_BYTES);
                load_blocks<A_MN_MAJOR>(stage, a, A_BLOCKS, tile / tiles_n * A_BLOCKS, tiles_m * A_BLOCKS, k, blocks_k, barrier);
                load_blocks<B_MN_MAJOR>(stage + A_BLOCKS * BLOCK_BYTES, b, B_BLOCKS, tile % tiles_n * B_BLOCKS,
                                        tiles_n * B_BLOCKS, k, blocks_k, barrier);
                stage_of.next(STAGES);
            }
        }
    } else if (warp == 1 && lane == 0) {
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            mbarrier_wait(sums_empty + sums_of.at * 8, sums_of.phase ^ 1);
            tcgen05_fence_after();
            for (int k = 0; k < blocks_k; ++k) {
                const u32 stage = ring + stage_of.at * STAGE_BYTES;
                mbarrier_wait(full + stage_of.at * 8, stage_of.phase);
                tcgen05_fence_after();
                for (int step = 0; step < 4; ++step)
                    umma_f16<1>(tmem + sums_of.at * TILE_N,
                                umma_descriptor(stage + step * (A_MN_MAJOR ? 2048 : 32), BLOCK_BYTES, 1024),
                                umma_descriptor(stage + A_BLOCKS * BLOCK_BYTES + step * (B_MN_MAJOR ? 2048 : 32), BLOCK_BYTES, 1024),
                                INSTRUCTION, k + step > 0);
                umma_commit<1>(empty + stage_of.at * 8);
                stage_of.next(STAGES);
            }
            umma_commit<1>(sums_full + sums_of.at * 8);
            sums_of.next(ACCUMULATORS);
        }
    } else if (warp >= 2) {
        const int quarter = warp % 4, n = tiles_n * TILE_N;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            float *to = c + (i64)(tile / tiles_n) * TILE_M * n + tile % tiles_n * TILE_N;
            mbarrier_wait(sums_full + sums_of.at * 8, sums_of.phase);
            tcgen05_fence_after();
            const u32 from = tmem + ((u32)quarter << 21) + sums_of.at * TILE_N;
            u32 sums[32];
            if (TILE_M == 64) { /* 16 rows in each quarter of the lanes */
                for (int column = 0; column < TILE_N; column += 64) {
                    tmem_load_16x256b(sums, from + column);
                    tmem_wait_load();
                    for (int i = 0; i < 32; ++i)
                        to[(i64)(quarter * 16 + lane / 4 + i / 2 % 2 * 8) * n + column + i / 4 * 8 + lane % 4 * 2 + i % 2] =
                            __uint_as_float(sums[i]);
                }
            } else {
                for (int column = 0; column < TILE_N; column += 32) {
                    tmem_load_32x32b(sums, from + column);
                    tmem_wait_load();
                    for (int i = 0; i < 32; ++i)
                        to[(i64)(quarter * 32 + lane) * n + column + i] = __uint_as_float(sums[i]);
                }
            }
            tcgen05_fence_before();
            mbarrier_arrive(sums_empty + sums_of.at * 8);
            sums_of.next(ACCUMULATORS);
        }
    }
    __syncthreads();
    if (warp == 1) {
        tmem_relinquish<1>();
        tmem_free<1, COLUMNS>(tmem);
    }
}
