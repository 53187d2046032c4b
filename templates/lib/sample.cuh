/* A block of THREADS threads looks at up to 4 * QUADS * THREADS elements spread over a tensor and returns its exponent: a
 * guess from what it saw or, with partials (exact largest magnitudes of `blocks` pieces), the exact one. Every block of a
 * tensor comes to the same one; the block that gets `scale` writes it there with the mean square, and resets the largest
 * magnitude. */
template <int THREADS, int QUADS>
__device__ __forceinline__ int sample(const float *source, i64 elements, Scale *scale, const float *partials = nullptr, int blocks = 0) {
    constexpr int WARPS = THREADS / 32;
    __shared__ float maxima[WARPS], squares[WARPS], counts[WARPS];
    const i64 quads = elements / 4, stride = quads > THREADS * QUADS ? quads / (THREADS * QUADS) : 1;
    float largest = 0.0f;
    float4 x[QUADS];
#pragma unroll
    for (int i = 0; i < QUADS; ++i) {
        const i64 quad = ((i64)i * THREADS + threadIdx.x) * stride;
        x[i] = quad < quads ? ((const float4 *)source)[quad] : float4{0.0f, 0.0f, 0.0f, 0.0f};
    }
#pragma unroll
    for (int i = 0; i < QUADS; ++i)
        largest = max_finite_abs(max_finite_abs(max_finite_abs(max_finite_abs(largest, x[i].x), x[i].y), x[i].z), x[i].w);
    if (partials)
        for (int i = threadIdx.x; i < blocks; i += THREADS)
            largest = fmaxf(largest, partials[i]);
    largest = warp_max(largest);
    if (threadIdx.x % 32 == 0)
        maxima[threadIdx.x / 32] = largest;
    __syncthreads();
    largest = warp_max(maxima[threadIdx.x % WARPS]);
    const int exponent = partials ? exact_exponent(__float_as_uint(largest)) : guess_exponent(largest);
    if (!scale)
        return exponent;
    const Factor factor = make_factor(exponent);
    float square = 0.0f, count = 0.0f;
#pragma unroll
    for (int i = 0; i < QUADS; ++i)
        if (((i64)i * THREADS + threadIdx.x) * stride < quads) {
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
        for (int warp = 1; warp < WARPS; ++warp) {
            square += squares[warp];
            count += counts[warp];
        }
        *scale = {exponent, 0, count > 0.0f ? square / count : 0.0f, 0};
    }
    return exponent;
}
