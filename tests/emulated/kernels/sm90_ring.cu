/* D[64 * blocks, N] = A * B: one producer thread brings blocks of 64 x 64 in wgmma's 128-byte swizzle into a ring of
 * stages, one warpgroup multiplies, one only gives its registers away. B is MN-major: [k][n / 64] blocks; A K-major:
 * [m][k], or MN-major: [k][m]. */
constexpr int N = ${n}, STAGES = ${stages}, BLOCK_BYTES = 8192, STAGE_BYTES = BLOCK_BYTES * (1 + N / 64);
constexpr bool A_K_MAJOR = ${a_k_major};

struct Barriers {
    u64 full[STAGES], empty[STAGES];
};

extern __shared__ __align__(1024) unsigned char shared_memory[];

extern "C" __global__ void __launch_bounds__(384, 1) ring(const u16 *a, const u16 *b, float *d, int blocks_k) {
    __shared__ Barriers barriers;
    const u32 base = shared_address(shared_memory), full = shared_address(barriers.full), empty = shared_address(barriers.empty);
    const int thread = threadIdx.x, block = blockIdx.x, blocks = gridDim.x;
    if (thread == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(full + stage * 8, 1);
            mbarrier_init(empty + stage * 8, 4);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    if (thread >= 128) {
        registers_decrease<64>();
        if (thread == 128) {
            for (int k = 0; k < blocks_k; ++k) {
                const u32 stage = base + k % STAGES * STAGE_BYTES, barrier = full + k % STAGES * 8;
                mbarrier_wait(empty + k % STAGES * 8, (k / STAGES & 1) ^ 1);
                mbarrier_arrive_expect(barrier, STAGE_BYTES);
                bulk_load(stage, a + (A_K_MAJOR ? block * blocks_k + k : k * blocks + block) * 4096, BLOCK_BYTES, barrier);
                bulk_load(stage + BLOCK_BYTES, b + (i64)k * (N / 64) * 4096, BLOCK_BYTES * (N / 64), barrier);
            }
        }
    } else {
        registers_increase<256>();
        const int lane = thread % 32, warp = thread / 32;
        constexpr u32 STEP_A = A_K_MAJOR ? 32 : 2048;
        float sums[N / 2];
        for (int k = 0; k < blocks_k; ++k) {
            const u32 stage = base + k % STAGES * STAGE_BYTES;
            mbarrier_wait(full + k % STAGES * 8, k / STAGES & 1);
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < 4; ++step)
                wgmma_${type}<!A_K_MAJOR>(sums, matrix_descriptor(stage + step * STEP_A, BLOCK_BYTES, 1024),
                                          matrix_descriptor(stage + BLOCK_BYTES + step * 2048, BLOCK_BYTES, 1024), k + step > 0);
            wgmma_commit();
            wgmma_wait<1>();
            if (k > 0 && lane == 0)
                mbarrier_arrive(empty + (k - 1) % STAGES * 8);
        }
        wgmma_wait<0>();
        const i64 row = block * 64 + warp * 16 + lane / 4;
        for (int j = 0; j < N / 8; ++j) {
            float *to = d + row * N + j * 8 + lane % 4 * 2;
            to[0] = sums[4 * j];
            to[1] = sums[4 * j + 1];
            to[8 * N] = sums[4 * j + 2];
            to[8 * N + 1] = sums[4 * j + 3];
        }
    }
}
