/* 64 rows x 128 columns of a tensor as 16-bit elements in 64 x 64 blocks: blocks row by row, 8 KiB each; in a block 64
 * rows of 128 bytes whose 16-byte chunks are XORed with the row (the 128-byte swizzle of PTX ISA 5.5.7). Rows up to the
 * end of the last block are zero. With partials also the column sums, one row per 64 rows. */
__device__ __forceinline__ float convert_blocked(const float *source, u16 *target, float *partials, i64 rows,
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
    char *place = (char *)target + (block_row * (columns / 64) + column / 64) * 8192 + row * 128 +
                  ((column % 64 / 8 ^ (row & 7)) << 4) + column % 8 * 2;
    if (column_inside)
#pragma unroll
        for (int i = 0; i < 8; ++i)
            *(uint2 *)(place + i * 1024) = convert_quad(x[i], factor, largest);
    if (partials)
        sum_columns(x, partials, block_row, columns, column, column_inside);
    return largest;
}
