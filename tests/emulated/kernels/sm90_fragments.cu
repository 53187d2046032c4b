/* D[64, N] = A * B with A in registers: A is row-major in global memory, 64 x (16 * steps), and every fragment is used
 * while the next one is loaded; B, K-major [step][N][16] without a swizzle, comes by one bulk copy. */
constexpr int N = ${n}, STEP_BYTES = N * 32;

extern __shared__ __align__(1024) unsigned char shared_memory[];

__device__ __forceinline__ u64 plain_descriptor(u32 shared, u32 leading_bytes, u32 stride_bytes) {
    return (u64)(shared >> 4 & 0x3fff) | (u64)(leading_bytes >> 4) << 16 | (u64)(stride_bytes >> 4) << 32;
}

__device__ __forceinline__ void load_fragment(u32 (&a)[4], const u16 *from, int columns) {
    for (int i = 0; i < 4; ++i) {
        const u16 *pair = from + (i & 1) * 8 * columns + (i >> 1) * 8;
        a[i] = pair[0] | (u32)pair[1] << 16;
    }
}

extern "C" __global__ void __launch_bounds__(128, 1) fragments(const u16 *a, const u16 *b, float *d, int steps) {
    __shared__ u64 barrier_memory;
    const u32 base = shared_address(shared_memory), barrier = shared_address(&barrier_memory);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, columns = steps * 16;
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        mbarrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect(barrier, steps * STEP_BYTES);
        bulk_load(base, b, steps * STEP_BYTES, barrier);
    }
    const u16 *from = a + (warp * 16 + lane / 4) * columns + lane % 4 * 2;
    u32 fragment[2][4];
    float sums[N / 2];
    load_fragment(fragment[0], from, columns);
    mbarrier_wait(barrier, 0);
    for (int step = 0; step < steps; step += 2) {
        wgmma_fence();
        wgmma_registers_${type}(sums, fragment[0], plain_descriptor(base + step * STEP_BYTES, 128, 256), step > 0);
        wgmma_commit();
        load_fragment(fragment[1], from + (step + 1) * 16, columns);
        wgmma_fence();
        wgmma_registers_${type}(sums, fragment[1], plain_descriptor(base + (step + 1) * STEP_BYTES, 128, 256), 1);
        wgmma_commit();
        wgmma_wait<1>();
        if (step + 2 < steps)
            load_fragment(fragment[0], from + (step + 2) * 16, columns);
        wgmma_wait<0>();
    }
    const int row = warp * 16 + lane / 4;
    for (int j = 0; j < N / 8; ++j) {
        float *to = d + row * N + j * 8 + lane % 4 * 2;
        to[0] = sums[4 * j];
        to[1] = sums[4 * j + 1];
        to[8 * N] = sums[4 * j + 2];
        to[8 * N + 1] = sums[4 * j + 3];
    }
}
