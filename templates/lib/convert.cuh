/* One block's share of a tensor: fp32 -> x * 2^exponent in 16 bits, and the largest finite magnitude. */
__device__ __forceinline__ float block_max(float x) {
    __shared__ float warps[8];
    x = warp_max(x);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = x;
    __syncthreads();
    float result = warps[threadIdx.x % 8];
    __syncthreads();
    return warp_max(result);
}

__device__ __forceinline__ uint2 convert_quad(float4 x, Factor factor, float &largest) {
    largest = max_finite_abs(max_finite_abs(max_finite_abs(max_finite_abs(largest, x.x), x.y), x.z), x.w);
    return {${pack}(apply(x.x, factor), apply(x.y, factor)), ${pack}(apply(x.z, factor), apply(x.w, factor))};
}

__device__ __forceinline__ float convert_flat(const float *source, u16 *target, i64 elements, i64 block, Factor factor) {
    const i64 quads = elements / 4, first = block * 2048 + threadIdx.x;
    const float4 *in = (const float4 *)source;
    uint2 *out = (uint2 *)target;
    float4 x[8];
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i)
        x[i] = first + i * 256 < quads ? load_streaming(in + first + i * 256) : float4{0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < 8; ++i)
        if (first + i * 256 < quads)
            out[first + i * 256] = convert_quad(x[i], factor, largest);
    return largest;
}

/* Column sums of the 64 rows that a block of threads holds: x[i] of warp w is row 8 * i + w, four columns a lane. */
__device__ __forceinline__ void sum_columns(const float4 (&x)[8], float *partials, i64 block_row, i64 columns, i64 column,
                                            bool column_inside) {
    __shared__ float4 sums[8][32];
    float4 sum = x[0];
#pragma unroll
    for (int i = 1; i < 8; ++i) {
        sum.x += x[i].x;
        sum.y += x[i].y;
        sum.z += x[i].z;
        sum.w += x[i].w;
    }
    sums[threadIdx.x / 32][threadIdx.x % 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32 && column_inside) {
        float4 total = sums[0][threadIdx.x];
#pragma unroll
        for (int i = 1; i < 8; ++i) {
            float4 next = sums[i][threadIdx.x];
            total.x += next.x;
            total.y += next.y;
            total.z += next.z;
            total.w += next.w;
        }
        *(float4 *)(partials + block_row * columns + column) = total;
    }
}

/* 64 tokens x 128 columns of grad_output; with partials also their column sums, one row per 64 tokens */
__device__ __forceinline__ float convert_tokens(const float *source, u16 *target, float *partials, i64 tokens,
                                                i64 columns, i64 block, Factor factor) {
    const i64 strips = ceil_div(columns, 128), token_block = block / strips;
    const i64 column = block % strips * 128 + threadIdx.x % 32 * 4, token = token_block * 64 + threadIdx.x / 32;
    float4 x[8];
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i)
        x[i] = column < columns && token + i * 8 < tokens
                   ? load_streaming((const float4 *)(source + (token + i * 8) * columns + column))
                   : float4{0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < 8; ++i)
        if (column < columns && token + i * 8 < tokens)
            *(uint2 *)(target + (token + i * 8) * columns + column) = convert_quad(x[i], factor, largest);
    if (partials)
        sum_columns(x, partials, token_block, columns, column, column < columns);
    return largest;
}
