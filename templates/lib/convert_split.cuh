/* 64 rows x 128 columns of a tensor as hi and lo (split.cuh) in 64 x 64 blocks: a strip of 64 rows has all its hi blocks,
 * then all its lo blocks; inside a block the 128-byte swizzle, as in convert_blocked.cuh. Rows up to the end of the last
 * strip are zero. With partials also the column sums, one row per 64 rows. */
__device__ __forceinline__ float convert_split(const float *source, u16 *target, float *partials, i64 rows,
                                               i64 columns, i64 block, Factor factor) {
    const i64 strips = ceil_div(columns, 128), block_row = block / strips;
    const i64 column = block % strips * 128 + threadIdx.x % 32 * 4;
    const int row = threadIdx.x / 32;
    const bool column_inside = column < columns;
    float4 x[8];
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i)
        x[i] = column_inside && block_row * 64 + row + i * 8 < rows
                   ? load_streaming((const float4 *)(source + (block_row * 64 + row + i * 8) * columns + column))
                   : float4{0.0f, 0.0f, 0.0f, 0.0f};
    const i64 low_offset = columns / 64 * 8192;
    char *place = (char *)target + block_row * 2 * low_offset + column / 64 * 8192 + row * 128 +
                  ((column % 64 / 8 ^ (row & 7)) << 4) + column % 8 * 2;
    if (column_inside)
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            largest = max_finite_abs(max_finite_abs(max_finite_abs(max_finite_abs(largest, x[i].x), x[i].y), x[i].z), x[i].w);
            uint2 high, low;
            split_quad({apply(x[i].x, factor), apply(x[i].y, factor), apply(x[i].z, factor), apply(x[i].w, factor)}, high, low);
            *(uint2 *)(place + i * 1024) = high;
            *(uint2 *)(place + low_offset + i * 1024) = low;
        }
    if (partials)
        sum_columns(x, partials, block_row, columns, column, column_inside);
    return largest;
}
