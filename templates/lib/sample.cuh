/* One block of 1024 threads a tensor: looks at up to 32768 elements spread over it, sets the exponent and the mean
 * square, resets the largest magnitude that the conversion collects. With partials (exact largest magnitudes of
 * `blocks` pieces) the exponent is the exact one, else a guess from what it saw. */
__device__ __forceinline__ void sample(const float *source, i64 elements, Scale *scale, const float *partials, int blocks) {
    __shared__ float maxima[32], squares[32], counts[32];
    const i64 quads = elements / 4, stride = quads > 8192 ? quads / 8192 : 1;
    float largest = 0.0f;
    float4 x[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        i64 quad = ((i64)i * 1024 + threadIdx.x) * stride;
        x[i] = quad < quads ? ((const float4 *)source)[quad] : float4{0.0f, 0.0f, 0.0f, 0.0f};
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
        largest = max_finite_abs(max_finite_abs(max_finite_abs(max_finite_abs(largest, x[i].x), x[i].y), x[i].z), x[i].w);
    if (partials)
        for (int i = threadIdx.x; i < blocks; i += 1024)
            largest = fmaxf(largest, partials[i]);
    largest = warp_max(largest);
    if (threadIdx.x % 32 == 0)
        maxima[threadIdx.x / 32] = largest;
    __syncthreads();
    largest = warp_max(maxima[threadIdx.x % 32]);
    const int guess = partials ? exact_exponent(__float_as_uint(largest)) : guess_exponent(largest);
    const Factor factor = make_factor(guess);
    float square = 0.0f, count = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (((i64)i * 1024 + threadIdx.x) * stride < quads) {
            const float elements_of_quad[4] = {x[i].x, x[i].y, x[i].z, x[i].w};
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (fabsf(elements_of_quad[e]) <= FLOAT_MAX) {
                    const float scaled = apply(elements_of_quad[e], factor);
                    square += scaled * scaled;
                    count += 1.0f;
                }
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
    if (threadIdx.x < 32) {
        square = squares[threadIdx.x];
        count = counts[threadIdx.x];
#pragma unroll
        for (int step = 16; step; step >>= 1) {
            square += __shfl_xor_sync(0xffffffffu, square, step);
            count += __shfl_xor_sync(0xffffffffu, count, step);
        }
        if (threadIdx.x == 0)
            *scale = {guess, 0, count > 0.0f ? square / count : 0.0f, 0};
    }
}
