/* grad_intermediate = sums x gelu'(intermediate), 16-bit in blocks; its column sums over 64 tokens; its largest
 * magnitude. A warp moves 16 rows x 32 columns at a time through shared memory, so that one rolled loop does the work
 * with whole 128-byte rows. The sums stay in the operands' scaled units until they leave. */
        constexpr int CHUNK = 32, PITCH = CHUNK + 8;
        constexpr int BATCH = ${batch}; /* rows a lane has in flight: more hides latency, fewer saves registers */
        const int exponent = attempt == 0 ? guess_intermediate(scale_a, scale_b, K)
                                          : exponent_in_force(scale_out, LOWEST_INTERMEDIATE);
        if (attempt == 0 && work == 0 && threadIdx.x % 128 == 0)
            scale_out->guess = exponent;
        const float rescale = power_of_two(min(max(exponent - exponent_a - exponent_b, -126), 127));
        float *staging = (float *)(shared_memory + STAGES * STAGE_BYTES) + (consumer * 4 + warp) * 16 * PITCH;
        float *column_staging = (float *)(shared_memory + STAGES * STAGE_BYTES) + CONSUMERS * 4 * 16 * PITCH + consumer * 4 * TILE_N;
        float largest = 0.0f;
        auto work_on = [&](auto form) {
#pragma unroll
            for (int i = 0; i < TILES_M; ++i) {
                const int block_row = tile_m * A_BLOCKS + rows_of + i;
                const int rows_left = M - block_row * 64; /* may be negative */
                const int row0 = warp * 16 + lane / 8, column0 = tile_n * TILE_N + lane % 8 * 4;
                const float *in = intermediate + ((i64)block_row * 64 + row0) * N + column0;
                char *out = (char *)grad_intermediate + (i64)block_row * blocks_n * BLOCK_BYTES + row0 * 128;
#pragma unroll 1
                for (int chunk = 0; chunk < TILE_N / CHUNK; ++chunk) {
                    const int column = column0 + chunk * CHUNK;
                    const bool column_inside = column < N && block_row < blocks_m;
                    __syncwarp();
#pragma unroll
                    for (int c = 0; c < TILE_N / CHUNK; ++c)
                        if (chunk == c)
#pragma unroll
                            for (int j = 0; j < CHUNK / 8; ++j)
#pragma unroll
                                for (int half = 0; half < 2; ++half)
                                    *(float2 *)(staging + (half * 8 + lane / 4) * PITCH + j * 8 + lane % 4 * 2) = {
                                        sums[i][(c * CHUNK / 8 + j) * 4 + half * 2], sums[i][(c * CHUNK / 8 + j) * 4 + half * 2 + 1]};
                    __syncwarp();
                    float4 column_sums = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 1
                    for (int first = 0; first < 4; first += BATCH) {
                        float4 before[BATCH];
#pragma unroll
                        for (int k = 0; k < BATCH; ++k)
                            before[k] = column_inside && row0 + (first + k) * 4 < rows_left
                                            ? load_streaming((const float4 *)(in + (i64)(first + k) * 4 * N + chunk * CHUNK))
                                            : float4{0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
                        for (int k = 0; k < BATCH; ++k) {
                            const int row = row0 + (first + k) * 4;
                            const float4 x = *(const float4 *)(staging + (lane / 8 + (first + k) * 4) * PITCH + lane % 8 * 4);
                            float4 y = {x.x * gelu_derivative<form.value>(before[k].x), x.y * gelu_derivative<form.value>(before[k].y),
                                        x.z * gelu_derivative<form.value>(before[k].z), x.w * gelu_derivative<form.value>(before[k].w)};
                            if (row >= rows_left) /* rows up to the end of the block are zero: they meet zero rows later */
                                y = {0.0f, 0.0f, 0.0f, 0.0f};
                            column_sums.x += y.x;
                            column_sums.y += y.y;
                            column_sums.z += y.z;
                            column_sums.w += y.w;
                            const float before_these = largest;
                            largest = fmaxf(fmaxf(fmaxf(fmaxf(largest, fabsf(y.x)), fabsf(y.y)), fabsf(y.z)), fabsf(y.w));
                            if (largest > FLOAT_MAX) /* Inf must not count */
                                largest = max_finite_abs(max_finite_abs(max_finite_abs(max_finite_abs(before_these, y.x), y.y), y.z), y.w);
                            if (column_inside)
                                *(uint2 *)(out + column / 64 * BLOCK_BYTES + (first + k) * 512 +
                                           ((column % 64 / 8 ^ (row & 7)) << 4) + column % 8 * 2) = {
                                    ${pack}(y.x * rescale, y.y * rescale), ${pack}(y.z * rescale, y.w * rescale)};
                        }
                    }
#pragma unroll
                    for (int step = 8; step < 32; step *= 2) {
                        column_sums.x += __shfl_xor_sync(0xffffffffu, column_sums.x, step);
                        column_sums.y += __shfl_xor_sync(0xffffffffu, column_sums.y, step);
                        column_sums.z += __shfl_xor_sync(0xffffffffu, column_sums.z, step);
                        column_sums.w += __shfl_xor_sync(0xffffffffu, column_sums.w, step);
                    }
                    if (lane < 8)
                        *(float4 *)(column_staging + warp * TILE_N + chunk * CHUNK + lane * 4) = column_sums;
                }
                consumer_barrier(consumer);
                for (int c = threadIdx.x % 128; c < TILE_N; c += 128) {
                    const int column = tile_n * TILE_N + c;
                    const float sum = (column_staging[c] + column_staging[TILE_N + c]) +
                                      (column_staging[2 * TILE_N + c] + column_staging[3 * TILE_N + c]);
                    if (block_row < blocks_m && column < N)
                        column_partials[(i64)block_row * N + column] = apply(sum, unscale);
                }
                consumer_barrier(consumer);
            }
        };
        if (option == 0)
            work_on(Form<0>());
        else
            work_on(Form<1>());
        largest = fminf(apply(warp_max(largest), unscale), FLOAT_MAX);
        if (lane == 0 && attempt == 0)
            atomicMax(&scale_out->largest, __float_as_uint(largest));
