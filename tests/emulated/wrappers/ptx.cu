/* Every wrapper of ptx.cuh once: for compilers only. */
extern "C" __global__ void __launch_bounds__(32) wrappers(u32 *words, const float4 *vectors) {
    __shared__ __align__(128) unsigned char memory[2048];
    u32 shared = shared_address(memory), a[4], b[4];
    float d[4] = {};
    cp_async_16(shared, vectors, 16);
    cp_async_commit();
    cp_async_wait<0>();
    ldmatrix_x4(a, shared);
    ldmatrix_x4_trans(b, shared + 512);
    mma_f16(d, a, b[0], b[1]);
    mma_bf16(d, a, b[2], b[3]);
    float4 v = load_streaming(vectors + threadIdx.x);
    prefetch_l2(vectors + 64);
    words[threadIdx.x] = pack_f16(exp2_approx(d[0]), reciprocal_approx(d[1])) + pack_bf16(v.x + d[2], v.y + d[3]);
}
