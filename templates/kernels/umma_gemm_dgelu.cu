/* grad_intermediate = sums x gelu'(intermediate), in blocks; its column sums over 64 tokens; its largest
 * magnitude. Piece by piece: 16 rows x SLICE columns of sums go through shared memory, so that a warp works through them
 * in whole rows, 4 * BATCH elements a lane and step. The sums stay in the operands' scaled units until they leave. Rows
 * past the last token are zero in A, so they add nothing. */
            float largest = 0.0f;
            auto work_on = [&](auto form) {
                float4 column_sums;
#pragma unroll 1
                for (u32 piece = 0; piece < pieces; ++piece) {
                    const bool more = piece + 1 < pieces;
                    if (more)
                        start_piece(piece + 1);
                    const u32 half = piece % 2, first = (piece / 2 * WRITERS + writer) * SLICE; /* column in the tile */
                    unsigned char *const staging = shared_memory + pieces_at;
                    /* 8 columns (32 bytes) are XORed with row % 4, so that neither fragments nor rows meet in a bank */
                    const u32 fragment = lane / 4 * (SLICE * 4) + ((lane / 4 & 3) << 5) + lane % 4 * 8;
                    ${take}
                    __syncwarp();
                    if (half == 0)
                        column_sums = {0.0f, 0.0f, 0.0f, 0.0f};
                    /* where the lane's next rows lie; ROWS rows on, XOR changes them as it does row % 4 and row % 8 */
                    const u32 row_in_block = quarter % 2 * 32 + half * 16 + lane / QUADS, column = tile_n * TILE_N + first;
                    u32 sum_at = pieces_at + lane / QUADS * (SLICE * 4) + (lane % QUADS * 16 ^ (lane / QUADS & 3) << 5);
                    u32 before_at = pieces_at + FETCHED + lane * 16;
                    /* in the output's block: the 16-byte chunk is XORed with row % 8 */
                    u32 out_at = row_in_block * 128 + (((first & 32) / 8 ^ lane % QUADS / 2 ^ lane / QUADS) << 4) + lane % 2 * 8;
                    char *const out = (char *)grad_intermediate + (u64)(u32)(block_row * ${copies} * blocks_n + (int)column / 64) * BLOCK_BYTES;
                    const float rescale = barriers.rescale;
                    float piece_largest = 0.0f;
#pragma unroll 1
                    for (u32 step = 0; step < STEPS; ++step) {
                        cp_async_wait<STEPS - 1>();
#pragma unroll
                        for (u32 u = 0; u < BATCH; ++u) {
                            const float4 before = *(const float4 *)(shared_memory + before_at + u * 512);
                            const float4 x = *(const float4 *)(shared_memory + (sum_at ^ (u * ROWS & 3) << 5) + u * ROWS * (SLICE * 4));
                            const float4 y = {x.x * ${derivative}<form.value>(before.x), x.y * ${derivative}<form.value>(before.y),
                                              x.z * ${derivative}<form.value>(before.z), x.w * ${derivative}<form.value>(before.w)};
                            column_sums.x += y.x;
                            column_sums.y += y.y;
                            column_sums.z += y.z;
                            column_sums.w += y.w;
                            piece_largest = fmaxf(fmaxf(fmaxf(fmaxf(piece_largest, fabsf(y.x)), fabsf(y.y)), fabsf(y.z)), fabsf(y.w));
                            char *const place = out + (out_at ^ (u * ROWS & 7) << 4) + u * ROWS * 128;
                            ${put}
                        }
                        before_at += BATCH * 512;
                        sum_at = (sum_at ^ (BATCH * ROWS & 3) << 5) + BATCH * ROWS * (SLICE * 4);
                        out_at = (out_at ^ (BATCH * ROWS & 7) << 4) + BATCH * ROWS * 128;
                        fetch(step, more);
                    }
                    if (piece_largest > FLOAT_MAX) { /* seldom: Inf must not count, so look again one by one */
                        piece_largest = 0.0f;
                        const int row = row0 + (int)(half * 16) + lane / (int)QUADS;
                        const float *const again = intermediate + ((u64)(u32)row * (u32)N + column + lane % QUADS * 4);
                        const u32 again_at = pieces_at + lane / QUADS * (SLICE * 4);
#pragma unroll 1
                        for (u32 element = 0; element < SLICE / 2; ++element) {
                            const u32 rows_on = element / 4 * ROWS, chunk = lane % QUADS * 16 ^ (lane / QUADS + rows_on & 3) << 5;
                            if (row + (int)rows_on < M)
                                piece_largest = max_finite_abs(piece_largest, *(const float *)(shared_memory + again_at + rows_on * (SLICE * 4) + chunk + element % 4 * 4) *
                                                                                  ${derivative}<form.value>(again[(u64)(u32)N * rows_on + element % 4]));
                        }
                    }
                    largest = fmaxf(largest, piece_largest);
                    if (half == 1) {
                        /* sums of the warp's 32 rows; every other ones in the same place, so that one barrier a slice
                         * keeps reading and writing apart */
                        float *const of_warp = (float *)(shared_memory + COLUMN_SUMS_AT) + (exchanges++ % 2 * WARPS + warp) * SLICE;
#pragma unroll
                        for (u32 lanes = QUADS; lanes < 32; lanes *= 2) {
                            column_sums.x += __shfl_xor_sync(0xffffffffu, column_sums.x, lanes);
                            column_sums.y += __shfl_xor_sync(0xffffffffu, column_sums.y, lanes);
                            column_sums.z += __shfl_xor_sync(0xffffffffu, column_sums.z, lanes);
                            column_sums.w += __shfl_xor_sync(0xffffffffu, column_sums.w, lanes);
                        }
                        if (lane < QUADS)
                            *(float4 *)(of_warp + lane * 4) = column_sums;
                        rows_barrier(writer * 2 + quarter / 2);
                        const u32 thread = threadIdx.x % 64;
                        if (thread < SLICE) {
                            const float *const of_rows = of_warp - quarter % 2 * SLICE + thread;
                            column_partials[(u64)(u32)block_row * (u32)N + column + thread] = apply(of_rows[0] + of_rows[SLICE], barriers.unscale);
                        }
                    }
                    __syncwarp(); /* the sums have been read: their place is free */
                }
            };
            if (option == 0)
                work_on(Form<0>());
            else
                work_on(Form<1>());
            largest = fminf(apply(warp_max(largest), barriers.unscale), FLOAT_MAX);
            if (lane == 0 && attempt == 0) {
                atomicMax(&scale_out->largest, __float_as_uint(largest));
                if (walk.work == 0 && rank == 0 && warp == 0) /* one block in the grid: block 0 need not start at all */
                    scale_out->guess = barriers.guess;
            }
