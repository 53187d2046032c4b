${base}
${ptx}
${scale}
${sample}
/* Largest magnitude of every tensor, block by block; `scale` then puts the blocks together. */
__device__ __forceinline__ void measure(const float *source, i64 elements, float *partials) {
    __shared__ float maxima[8];
    const i64 quads = elements / 4, step = (i64)gridDim.x * 256;
    const float4 *in = (const float4 *)source;
    float largest = 0.0f;
    for (i64 first = (i64)blockIdx.x * 256 + threadIdx.x; first < quads; first += step * 8) {
        float4 x[8];
#pragma unroll
        for (int i = 0; i < 8; ++i)
            x[i] = first + i * step < quads ? load_streaming(in + first + i * step) : float4{0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int i = 0; i < 8; ++i)
            largest = max_finite_abs(max_finite_abs(max_finite_abs(max_finite_abs(largest, x[i].x), x[i].y), x[i].z), x[i].w);
    }
    largest = warp_max(largest);
    if (threadIdx.x % 32 == 0)
        maxima[threadIdx.x / 32] = largest;
    __syncthreads();
    if (threadIdx.x < 32) {
        largest = warp_max(maxima[threadIdx.x % 8]);
        if (threadIdx.x == 0)
            partials[blockIdx.x] = largest;
    }
}

extern "C" __global__ void __launch_bounds__(256) measure_all(${measured}int tokens, int hidden_size, int intermediate_size) {
${measures}}

extern "C" __global__ void __launch_bounds__(1024) scale(${parameters}int blocks, Scale *grad_intermediate_scale, int tokens,
                                                          int hidden_size, int intermediate_size) {
    if (blockIdx.x == 0 && threadIdx.x == 0 && grad_intermediate_scale)
        *grad_intermediate_scale = {0, 0, 0.0f, 0};
${cases}}
