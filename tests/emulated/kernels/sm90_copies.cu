/* to[i] = 2 * from[i], sum[i] += from[i] over all blocks: chunks come and go by bulk copies, through two buffers. */
constexpr int CHUNK = 512; /* floats, of a block of 128 threads */

extern __shared__ __align__(1024) unsigned char shared_memory[];

extern "C" __global__ void __launch_bounds__(128, 1) copies(const float *from, float *to, float *sum, int chunks) {
    __shared__ u64 barrier_memory;
    const u32 barrier = shared_address(&barrier_memory);
    float *const in = (float *)shared_memory, *const out = in + CHUNK;
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        mbarrier_init_fence();
    }
    __syncthreads();
    for (int i = 0; i < chunks; ++i) {
        const i64 at = (i64)(blockIdx.x * chunks + i) * CHUNK;
        if (threadIdx.x == 0) {
            mbarrier_arrive_expect(barrier, CHUNK * 4);
            bulk_load(shared_address(in), from + at, CHUNK * 4, barrier);
        }
        mbarrier_wait(barrier, i & 1);
        if (threadIdx.x == 0)
            bulk_wait_read<0>(); /* the last chunk's buffer may be written again */
        __syncthreads();
        for (int j = threadIdx.x; j < CHUNK; j += 128)
            out[j] = 2.0f * in[j];
        fence_proxy_async_shared();
        __syncthreads();
        if (threadIdx.x == 0) {
            bulk_store(to + at, shared_address(out), CHUNK * 4);
            bulk_add_f32(sum, shared_address(in), CHUNK * 4);
            bulk_commit();
            bulk_wait_read<0>();
        }
    }
    if (threadIdx.x == 0)
        bulk_wait<0>();
}
