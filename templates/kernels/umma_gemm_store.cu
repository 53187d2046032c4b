/* fp32 result straight from the fragments: four lanes write one 32-byte sector. */
            (void)option;
            float *const target = ${store_target};
            const bool any = !SPLIT || steps_of(walk.work, tiles, part, blocks_k) > 0; /* else an empty part: zeros */
            if (row0 < M)
#pragma unroll 1
                for (int first = writer * SLICE; first < columns_here; first += WRITERS * SLICE) {
                    u32 sums[2][SLICE / 2]; /* 16 rows each */
                    if (any) {
                        tmem_load_16x256b(sums[0], sums_at + first);
                        tmem_load_16x256b(sums[1], sums_at + (16u << 16) + first);
                        tmem_wait_load();
                    } else {
#pragma unroll
                        for (int e = 0; e < SLICE; ++e)
                            sums[e % 2][e / 2] = 0;
                    }
                    const Factor unscale = barriers.unscale;
#pragma unroll
                    for (int i = 0; i < 2; ++i)
#pragma unroll
                        for (int half = 0; half < 2; ++half) {
                            const int row = row0 + i * 16 + half * 8 + lane / 4;
                            float *const from_row = target + (i64)row * N + tile_n * TILE_N + first + lane % 4 * 2;
                            if (row < M)
#pragma unroll
                                for (int j = 0; j < SLICE / 8; ++j) {
                                    float2 *const place = (float2 *)(from_row + j * 8);
                                    float2 value = {apply(__uint_as_float(sums[i][j * 4 + half * 2]), unscale),
                                                    apply(__uint_as_float(sums[i][j * 4 + half * 2 + 1]), unscale)};
                                    if (${accumulate_here}) {
                                        const float2 old = *place;
                                        value.x += old.x;
                                        value.y += old.y;
                                    }
                                    *place = value;
                                }
                        }
                    __syncwarp();
                }
