/* One product tile, D[128,N] = A[128,K] * B[N,K], of operands that the threads themselves store to shared memory: the
 * forms of tcgen05 that umma_gemm.cu does not use, and, where the test changes a line, what can be done wrong with them.
 * A and B are K-major fp16 or tf32, 128 bytes of K. */
constexpr int N = 64, ROW_BYTES = 128;
constexpr bool TF32 = ${tf32}, A_IN_TENSOR_MEMORY = ${a_in_tensor_memory};
constexpr u32 INSTRUCTION = umma_instruction(TF32 ? 2 : 0, 128, N, false, false);

extern __shared__ __align__(1024) unsigned char shared_memory[];

/* Rows of 128 bytes, in the 128-byte swizzle. */
__device__ __forceinline__ void store_rows(unsigned char *to, const uint4 *from, int rows) {
    for (int i = threadIdx.x; i < rows * 8; i += 128)
        *reinterpret_cast<uint4 *>(to + i * 16 / ROW_BYTES * ROW_BYTES + ((i % 8 ^ i / 8 % 8) * 16)) = from[i];
}

extern "C" __global__ void __launch_bounds__(128, 1) umma_small(const uint4 *a, const uint4 *b, float *d) {
    __shared__ u64 done_memory;
    __shared__ u32 tmem_address;
    const int warp = threadIdx.x / 32;
    const u32 stage = shared_address(shared_memory), done = shared_address(&done_memory);
    if (threadIdx.x == 0) {
        mbarrier_init(done, 1);
        mbarrier_init_fence();
    }
    if (warp == 0)
        tmem_allocate<1, 128>(shared_address(&tmem_address));
    store_rows(shared_memory, a, 128);
    store_rows(shared_memory + 128 * ROW_BYTES, b, N);
    fence_proxy_async_shared();
    __syncthreads();
    const u32 tmem = tmem_address, mine = tmem + ((u32)warp << 21);
    if (A_IN_TENSOR_MEMORY) { /* a row a lane, 32 columns behind the sums */
        u32 row[32];
        for (int i = 0; i < 8; ++i) {
            const uint4 chunk = a[threadIdx.x * 8 + i];
            row[4 * i] = chunk.x, row[4 * i + 1] = chunk.y, row[4 * i + 2] = chunk.z, row[4 * i + 3] = chunk.w;
        }
        tmem_store_32x32b(mine + N, row);
        tmem_wait_store();
        tcgen05_fence_before();
    }
    __syncthreads();
    tcgen05_fence_after();
    if (threadIdx.x == 0) {
        for (int step = 0; step < 4; ++step) {
            const u64 at_b = umma_descriptor(stage + 128 * ROW_BYTES + step * 32, 0, 1024);
            const u64 at_a = umma_descriptor(stage + step * 32, 0, 1024);
            const u32 tmem_a = tmem + N + step * 8;
            if (TF32 && A_IN_TENSOR_MEMORY)
                umma_tf32_tmem<1>(tmem, tmem_a, at_b, INSTRUCTION, step > 0);
            else if (TF32)
                umma_tf32<1>(tmem, at_a, at_b, INSTRUCTION, step > 0);
            else if (A_IN_TENSOR_MEMORY)
                umma_f16_tmem<1>(tmem, tmem_a, at_b, INSTRUCTION, step > 0);
            else
                umma_f16<1>(tmem, at_a, at_b, INSTRUCTION, step > 0);
        }
        umma_commit<1>(done);
    }
    mbarrier_wait(done, 0);
    tcgen05_fence_after();
    u32 sums[64];
    tmem_load_32x32b(sums, mine);
    tmem_wait_load();
    for (int i = 0; i < N; ++i)
        d[threadIdx.x * N + i] = __uint_as_float(sums[i]);
    __syncthreads();
    if (warp == 0)
        tmem_free<1, 128>(tmem);
}
