/* grad_intermediate = sums x gelu'(intermediate), 16-bit in blocks; its column sums over 64 tokens; its largest
 * magnitude. Part by part: a warp leaves its 16 rows of sums in shared memory, which frees their registers, and works
 * through them in whole rows, 4 * BATCH elements a lane and step. The sums stay in the operands' scaled units until they
 * leave. Rows past the last token are zero in A, so they add nothing. */
            float largest = 0.0f;
            auto work_on = [&](auto form) {
#pragma unroll
                for (u32 part = 0; part < TILES_M * PARTS; ++part) {
                    const u32 thread = (u32)compute_here(threadIdx.x % 128), lane = thread % 32, warp = thread / 32;
                    const u32 i = part / PARTS, first = part % PARTS * PART; /* column in the tile */
                    const int block_row = tile_m * A_BLOCKS + rows_of + (int)i, column = compute_here(tile_n * TILE_N) + (int)first;
                    const bool more = part + 1 < TILES_M * PARTS;
                    if (more)
                        start_part(part + 1);
                    if (block_row >= blocks_m || column >= N) {
#pragma unroll 1
                        for (u32 step = 0; step < STEPS; ++step) {
                            cp_async_wait<STEPS - 1>();
                            fetch(more);
                        }
                        continue;
                    }
                    unsigned char *const staging = shared_memory + parts_at + warp * PART_BYTES;
                    /* 8 columns (32 bytes) are XORed with row % 4, so that neither fragments nor rows meet in a bank */
                    const u32 fragment = lane / 4 * (PART * 4) + ((lane / 4 & 3) << 5) + lane % 4 * 8;
#pragma unroll
                    for (u32 j = 0; j < PART / 8; ++j)
#pragma unroll
                        for (u32 half = 0; half < 2; ++half)
                            *(float2 *)(staging + (fragment ^ (j & 3) << 5) + (j & 4) * 32 + half * (8 * PART * 4)) = {
                                sums[i][(first / 8 + j) * 4 + half * 2], sums[i][(first / 8 + j) * 4 + half * 2 + 1]};
                    __syncwarp();
                    /* where the lane's next rows lie; ROWS rows on, XOR changes them as it does row % 4 and row % 8 */
                    u32 sum_at = parts_at + warp * PART_BYTES + lane / QUADS * (PART * 4) + (lane % QUADS * 16 ^ (lane / QUADS & 3) << 5);
                    u32 before_at = parts_at + FETCHED + warp * PART_BYTES + lane * 16;
                    /* in the output's block: the 16-byte chunk is XORed with row % 8 */
                    u32 out_at = (warp * 16 + lane / QUADS) * 128 + (((first & 32) / 8 ^ lane % QUADS / 2 ^ lane / QUADS) << 4) + lane % 2 * 8;
                    char *const out = (char *)grad_intermediate + (u64)(u32)(block_row * blocks_n + column / 64) * BLOCK_BYTES;
                    const float rescale = barriers.rescale;
                    float4 column_sums = {0.0f, 0.0f, 0.0f, 0.0f};
                    float part_largest = 0.0f;
#pragma unroll 1
                    for (u32 step = 0; step < STEPS; ++step) {
                        cp_async_wait<STEPS - 1>();
#pragma unroll
                        for (u32 u = 0; u < BATCH; ++u) {
                            const float4 before = *(const float4 *)(shared_memory + before_at + u * 512);
                            const float4 x = *(const float4 *)(shared_memory + (sum_at ^ (u * ROWS & 3) << 5) + u * ROWS * (PART * 4));
                            const float4 y = {x.x * gelu_derivative_16<form.value>(before.x), x.y * gelu_derivative_16<form.value>(before.y),
                                              x.z * gelu_derivative_16<form.value>(before.z), x.w * gelu_derivative_16<form.value>(before.w)};
                            column_sums.x += y.x;
                            column_sums.y += y.y;
                            column_sums.z += y.z;
                            column_sums.w += y.w;
                            part_largest = fmaxf(fmaxf(fmaxf(fmaxf(part_largest, fabsf(y.x)), fabsf(y.y)), fabsf(y.z)), fabsf(y.w));
                            *(uint2 *)(out + (out_at ^ (u * ROWS & 7) << 4) + u * ROWS * 128) = {
                                ${pack}(y.x * rescale, y.y * rescale), ${pack}(y.z * rescale, y.w * rescale)};
                        }
                        before_at += BATCH * 512;
                        sum_at += BATCH * ROWS * (PART * 4);
                        out_at = (out_at ^ (BATCH * ROWS & 7) << 4) + BATCH * ROWS * 128;
                        fetch(more);
                    }
                    if (part_largest > FLOAT_MAX) { /* seldom: Inf must not count, so look again one by one */
                        part_largest = 0.0f;
                        const int row = block_row * 64 + (int)(warp * 16 + lane / QUADS);
                        const float *const again = intermediate + ((u64)(u32)row * (u32)N + (u32)column + lane % QUADS * 4);
                        const u32 again_at = parts_at + warp * PART_BYTES + lane / QUADS * (PART * 4);
#pragma unroll 1
                        for (u32 element = 0; element < PART / 2; ++element) {
                            const u32 rows_on = element / 4 * ROWS, chunk = lane % QUADS * 16 ^ (lane / QUADS + rows_on & 3) << 5;
                            if (row + (int)rows_on < M)
                                part_largest = max_finite_abs(part_largest, *(const float *)(shared_memory + again_at + rows_on * (PART * 4) + chunk + element % 4 * 4) *
                                                                                gelu_derivative_16<form.value>(again[(u64)(u32)N * rows_on + element % 4]));
                        }
                    }
                    largest = fmaxf(largest, part_largest);
#pragma unroll
                    for (u32 lanes = QUADS; lanes < 32; lanes *= 2) {
                        column_sums.x += __shfl_xor_sync(0xffffffffu, column_sums.x, lanes);
                        column_sums.y += __shfl_xor_sync(0xffffffffu, column_sums.y, lanes);
                        column_sums.z += __shfl_xor_sync(0xffffffffu, column_sums.z, lanes);
                        column_sums.w += __shfl_xor_sync(0xffffffffu, column_sums.w, lanes);
                    }
                    __syncwarp(); /* the sums have been read: their place is free */
                    if (lane < QUADS)
                        *(float4 *)(staging + lane * 16) = column_sums;
                    consumer_barrier(consumer);
                    if (thread < PART) {
                        const float *const of_warp = (const float *)(shared_memory + parts_at) + thread;
                        constexpr u32 NEXT = PART_BYTES / 4;
                        const Factor unscale = barriers.unscale;
                        column_partials[(u64)(u32)block_row * (u32)N + (u32)column + thread] =
                            apply((of_warp[0] + of_warp[NEXT]) + (of_warp[2 * NEXT] + of_warp[3 * NEXT]), unscale);
                    }
                    consumer_barrier(consumer);
                }
            };
            if (option == 0)
                work_on(Form<0>());
            else
                work_on(Form<1>());
            largest = fminf(apply(warp_max(largest), barriers.unscale), FLOAT_MAX);
            if (compute_here(threadIdx.x) % 32 == 0 && attempt == 0)
                atomicMax(barriers.largest, __float_as_uint(largest));
