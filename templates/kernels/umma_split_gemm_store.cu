/* fp32 result straight from the fragments: four lanes write one 32-byte sector. */
            (void)option;
            float *const target = ${store_target};
            const Factor unscale = barriers.unscale;
            if (writer * SLICE < columns_here)
#pragma unroll
                for (int i = 0; i < 2; ++i)
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const int row = row0 + i * 16 + half * 8 + lane / 4;
                        float *const from_row = target + (i64)row * N + tile_n * TILE_N + writer * SLICE + lane % 4 * 2;
                        if (row < M)
#pragma unroll
                            for (int j = 0; j < SLICE / 8; ++j) {
                                float2 *const place = (float2 *)(from_row + j * 8);
                                float2 value = {apply(totals[i][j * 4 + half * 2], unscale), apply(totals[i][j * 4 + half * 2 + 1], unscale)};
                                if (${accumulate_here}) {
                                    const float2 old = *place;
                                    value.x += old.x;
                                    value.y += old.y;
                                }
                                *place = value;
                            }
                    }
            __syncwarp();
