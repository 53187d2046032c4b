/* grad_intermediate = sums x gelu'(intermediate) as hi and lo in blocks; its column sums over 64 tokens; its largest
 * magnitude. A warp moves 16 rows x 32 columns at a time through shared memory, so that one rolled loop does the work
 * with whole 128-byte rows. The sums stay in the operands' scaled units until they leave. */
            constexpr int CHUNK = 32, PITCH = CHUNK + 8;
            constexpr int DEPTH = ${fetch_depth}; /* chunks of intermediate in flight by cp.async, each lane its own; 0: plain loads */
            const int exponent = attempt == 0 ? guess_intermediate(scale_a, scale_b, K)
                                              : exponent_in_force(scale_out, LOWEST_INTERMEDIATE);
            if (attempt == 0 && work == 0 && threadIdx.x == 128)
                scale_out->guess = exponent;
            const float rescale = power_of_two(min(max(exponent - exponent_a - exponent_b, -126), 127));
            float *const shared_floats = (float *)(shared_memory + SLOTS * SLOT_BYTES);
            float *const staging = shared_floats + (consumer * 4 + warp) * 16 * PITCH;
            float *const column_staging = shared_floats + CONSUMERS * 4 * 16 * PITCH + consumer * 4 * TILE_N;
            float4 *const fetched = (float4 *)(shared_floats + CONSUMERS * 4 * (16 * PITCH + TILE_N)) + (consumer * 4 + warp) * 128 * DEPTH + lane;
            const int chunks = min(TILE_N, N - tile_n * TILE_N) / CHUNK;
            const int block_row = tile_m * A_BLOCKS + consumer, rows_left = M - block_row * 64;
            const i64 low_offset = (i64)blocks_n * BLOCK_BYTES;
            float largest = 0.0f;
            auto work_on = [&](auto form) {
                const int row0 = warp * 16 + lane / 8; /* this lane's rows are row0 + 0, 4, 8, 12 */
                const float *const intermediate_row = intermediate + ((i64)block_row * 64 + row0) * N + tile_n * TILE_N + lane % 8 * 4;
                char *out = (char *)grad_intermediate + block_row * 2 * low_offset + tile_n * B_BLOCKS * BLOCK_BYTES + row0 * 128;
                /* 16-byte chunk (lane % 8) / 2 of the row, XORed with row % 8; 4 rows or 32 columns on flip its bit 2 */
                const int place0 = ((lane % 8 / 2 ^ lane / 8) << 4) + lane % 2 * 8;
                auto fetch = [&](int chunk) {
#pragma unroll
                    for (int k = 0; k < 4; ++k)
                        if (chunk < chunks)
                            cp_async_16(shared_address(fetched + chunk % (DEPTH > 0 ? DEPTH : 1) * 128 + k * 32),
                                        intermediate_row + (i64)k * 4 * N + chunk * CHUNK, row0 + k * 4 < rows_left ? 16 : 0);
                    cp_async_commit();
                };
#pragma unroll
                for (int chunk = 0; chunk < DEPTH - 1; ++chunk)
                    fetch(chunk);
#pragma unroll 1
                for (int chunk = 0; chunk < chunks; ++chunk) {
                    float4 column_sums = {0.0f, 0.0f, 0.0f, 0.0f};
                    float4 before[4];
                    if (DEPTH > 0) {
                        fetch(chunk + DEPTH - 1);
                        cp_async_wait<(DEPTH > 0 ? DEPTH - 1 : 0)>();
                    } else {
#pragma unroll
                        for (int k = 0; k < 4; ++k)
                            before[k] = row0 + k * 4 < rows_left ? load_streaming((const float4 *)(intermediate_row + (i64)k * 4 * N + chunk * CHUNK))
                                                                 : float4{0.0f, 0.0f, 0.0f, 0.0f};
                    }
                    __syncwarp();
#pragma unroll
                    for (int c = 0; c < TILE_N / CHUNK; ++c)
                        if (chunk == c)
#pragma unroll
                            for (int j = 0; j < CHUNK / 8; ++j)
#pragma unroll
                                for (int half = 0; half < 2; ++half)
                                    *(float2 *)(staging + (half * 8 + lane / 4) * PITCH + j * 8 + lane % 4 * 2) = {
                                        sums[(c * CHUNK / 8 + j) * 4 + half * 2], sums[(c * CHUNK / 8 + j) * 4 + half * 2 + 1]};
                    __syncwarp();
                    float chunk_largest = 0.0f;
#pragma unroll
                    for (int k = 0; k < 4; ++k) {
                        if (DEPTH > 0)
                            before[k] = fetched[chunk % (DEPTH > 0 ? DEPTH : 1) * 128 + k * 32];
                        const float4 x = *(const float4 *)(staging + (lane / 8 + k * 4) * PITCH + lane % 8 * 4);
                        const float4 y = {x.x * gelu_derivative<form.value>(before[k].x), x.y * gelu_derivative<form.value>(before[k].y),
                                          x.z * gelu_derivative<form.value>(before[k].z), x.w * gelu_derivative<form.value>(before[k].w)};
                        uint2 high, low;
                        split_quad({y.x * rescale, y.y * rescale, y.z * rescale, y.w * rescale}, high, low);
                        if (row0 + k * 4 < rows_left) {
                            column_sums.x += y.x;
                            column_sums.y += y.y;
                            column_sums.z += y.z;
                            column_sums.w += y.w;
                            chunk_largest = fmaxf(fmaxf(fmaxf(fmaxf(chunk_largest, fabsf(y.x)), fabsf(y.y)), fabsf(y.z)), fabsf(y.w));
                        } else {
                            high = low = {0, 0}; /* rows up to the end of the block meet zero rows later */
                        }
                        char *const place = out + k * 512 + (place0 ^ ((k + chunk) & 1) << 6);
                        *(uint2 *)place = high;
                        *(uint2 *)(place + low_offset) = low;
                    }
                    if (chunk_largest > FLOAT_MAX) { /* seldom: Inf must not count, so look again one by one */
                        chunk_largest = 0.0f;
#pragma unroll 1
                        for (int element = 0; element < 16; ++element) {
                            const int row = element / 4 * 4;
                            if (row0 + row < rows_left)
                                chunk_largest = max_finite_abs(
                                    chunk_largest, staging[(lane / 8 + row) * PITCH + lane % 8 * 4 + element % 4] *
                                                       gelu_derivative<form.value>(intermediate_row[(i64)row * N + chunk * CHUNK + element % 4]));
                        }
                    }
                    largest = fmaxf(largest, chunk_largest);
#pragma unroll
                    for (int step = 8; step < 32; step *= 2) {
                        column_sums.x += __shfl_xor_sync(0xffffffffu, column_sums.x, step);
                        column_sums.y += __shfl_xor_sync(0xffffffffu, column_sums.y, step);
                        column_sums.z += __shfl_xor_sync(0xffffffffu, column_sums.z, step);
                        column_sums.w += __shfl_xor_sync(0xffffffffu, column_sums.w, step);
                    }
                    if (lane < 8)
                        *(float4 *)(column_staging + warp * TILE_N + chunk * CHUNK + lane * 4) = column_sums;
                    out += (chunk & 1) * BLOCK_BYTES;
                }
                consumer_barrier(consumer);
                for (int c = threadIdx.x % 128; c < chunks * CHUNK; c += 128) {
                    const float sum = (column_staging[c] + column_staging[TILE_N + c]) +
                                      (column_staging[2 * TILE_N + c] + column_staging[3 * TILE_N + c]);
                    column_partials[(i64)block_row * N + tile_n * TILE_N + c] = apply(sum, unscale);
                }
                consumer_barrier(consumer);
            };
            if (rows_left > 0) {
                if (option == 0)
                    work_on(Form<0>());
                else
                    work_on(Form<1>());
            }
            largest = fminf(apply(warp_max(largest), unscale), FLOAT_MAX);
            if (lane == 0 && attempt == 0)
                atomicMax(&scale_out->largest, __float_as_uint(largest));
