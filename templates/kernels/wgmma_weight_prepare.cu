${base}
${ptx}
${scale}
${convert}
/* Guesses the exponent of a tensor from up to 4096 elements spread over it; every block of a tensor comes to the same guess, so
 * that no launch before this one is needed. The one that gets `scale` writes it and the mean square there. */
__device__ __forceinline__ int sample(const float *source, i64 elements, Scale *scale) {
    __shared__ float squares[8], counts[8];
    const i64 quads = elements / 4, stride = quads > 1024 ? quads / 1024 : 1;
    float4 x[4];
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const i64 quad = ((i64)i * 256 + threadIdx.x) * stride;
        x[i] = quad < quads ? ((const float4 *)source)[quad] : float4{0.0f, 0.0f, 0.0f, 0.0f};
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
        largest = max_finite_abs(max_finite_abs(max_finite_abs(max_finite_abs(largest, x[i].x), x[i].y), x[i].z), x[i].w);
    const int guess = guess_exponent(block_max(largest));
    if (scale) {
        const Factor factor = make_factor(guess);
        float square = 0.0f, count = 0.0f;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (((i64)i * 256 + threadIdx.x) * stride < quads) {
                const float elements_of_quad[4] = {x[i].x, x[i].y, x[i].z, x[i].w};
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    if (fabsf(elements_of_quad[e]) <= FLOAT_MAX) {
                        const float scaled = apply(elements_of_quad[e], factor);
                        square += scaled * scaled;
                        count += 1.0f;
                    }
            }
#pragma unroll
        for (int step = 16; step; step >>= 1) {
            square += __shfl_xor_sync(0xffffffffu, square, step);
            count += __shfl_xor_sync(0xffffffffu, count, step);
        }
        if (threadIdx.x % 32 == 0) {
            squares[threadIdx.x / 32] = square;
            counts[threadIdx.x / 32] = count;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int warp = 1; warp < 8; ++warp) {
                square += squares[warp];
                count += counts[warp];
            }
            *scale = {guess, 0, count > 0.0f ? square / count : 0.0f, 0};
        }
    }
    return guess;
}

/* Every block takes one piece of one tensor, the last one the sample of weight2; a tensor that is not wanted is NULL. */
extern "C" __global__ void __launch_bounds__(256)
    prepare(${parameters}const float *weight2, Scale *weight2_scale, Scale *grad_intermediate_scale, int tokens, int hidden_size,
            int intermediate_size) {
    i64 block = blockIdx.x;
${cases}
    if (weight2) {
        sample(weight2, (i64)hidden_size * intermediate_size, weight2_scale);
        if (threadIdx.x == 0)
            *grad_intermediate_scale = {0, 0, 0.0f, 0};
    }
}
