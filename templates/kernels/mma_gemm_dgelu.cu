/* grad_intermediate = sums x gelu'(intermediate): its column sums over the 64 tokens of this warp, its largest
 * magnitude (for the exponent), and itself as 16-bit, through shared memory so that 16-byte rows go out. */
    const int exponent = attempt == 0 ? guess_intermediate(scale_a, scale_b, K)
                                      : exponent_in_force(scale_out, LOWEST_INTERMEDIATE);
    if (attempt == 0 && blockIdx.x == 0 && threadIdx.x == 0)
        scale_out->guess = exponent;
    const Factor rescale = make_factor(exponent);
    constexpr u32 STAGING_PITCH = WARP_N * 2, STAGING_CHUNKS = WARP_N / 8;
    unsigned char *staging = shared_memory + warp * WARP_M * STAGING_PITCH;
    auto staging_swizzle = [](u32 row) { return STAGING_CHUNKS >= 8 ? row & 7 : (row >> 1) & 3; };
    float column_sums[FRAGMENTS_N][2];
    float largest = 0.0f;
#pragma unroll
    for (int j = 0; j < FRAGMENTS_N; ++j)
        column_sums[j][0] = column_sums[j][1] = 0.0f;
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i) {
        float2 before[2][FRAGMENTS_N];
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) {
                i64 row = row0 + i * 16 + half * 8, column = column0 + j * 8;
                before[half][j] = row < M && column < N ? load_streaming((const float2 *)(intermediate + row * N + column))
                                                        : float2{0.0f, 0.0f};
            }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            u32 staging_row = i * 16 + half * 8 + lane / 4;
            bool row_inside = row0 + i * 16 + half * 8 < M;
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) {
                float x = apply(sums[i][j][half * 2], unscale) * gelu_derivative(before[half][j].x, option);
                float y = apply(sums[i][j][half * 2 + 1], unscale) * gelu_derivative(before[half][j].y, option);
                if (row_inside) { /* a row past the end could hold 0 * Inf */
                    column_sums[j][0] += x;
                    column_sums[j][1] += y;
                    largest = max_finite_abs(max_finite_abs(largest, x), y);
                }
                *(u32 *)(staging + staging_row * STAGING_PITCH + ((j ^ staging_swizzle(staging_row)) << 4) + (lane % 4) * 4) =
                    ${pack}(apply(x, rescale), apply(y, rescale));
            }
        }
    }
    __syncwarp();
#pragma unroll
    for (int pass = 0; pass < WARP_M * (int)STAGING_CHUNKS / 32; ++pass) {
        u32 unit = pass * 32 + lane, staging_row = unit / STAGING_CHUNKS, chunk = unit % STAGING_CHUNKS;
        i64 row = m0 + warp_m * WARP_M + staging_row, column = n0 + warp_n * WARP_N + chunk * 8;
        if (row < M && column < N)
            *(uint4 *)(grad_intermediate + row * N + column) =
                *(const uint4 *)(staging + staging_row * STAGING_PITCH + ((chunk ^ staging_swizzle(staging_row)) << 4));
    }
#pragma unroll
    for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            float sum = column_sums[j][e];
            sum += __shfl_xor_sync(0xffffffffu, sum, 4);
            sum += __shfl_xor_sync(0xffffffffu, sum, 8);
            sum += __shfl_xor_sync(0xffffffffu, sum, 16);
            i64 token_block = tile_m * (TILE_M / 64) + warp_m, column = column0 + j * 8 + e;
            if (lane < 4 && token_block * 64 < M && column < N)
                column_partials[token_block * N + column] = sum;
        }
    largest = warp_max(largest);
    if (lane == 0 && attempt == 0)
        atomicMax(&scale_out->largest, __float_as_uint(largest));
