/* fp32 result straight from the fragments: four lanes write one 32-byte sector. */
        (void)option;
        const Factor unscale = barriers.unscale;
        float *target = ${store_target};
#pragma unroll
        for (int i = 0; i < TILES_M; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = tile_m * TILE_M + (rows_of + i) * 64 + warp * 16 + half * 8 + lane / 4;
                if (row < M)
#pragma unroll
                    for (int j = 0; j < TILE_N / 8; ++j) {
                        const int column = tile_n * TILE_N + j * 8 + lane % 4 * 2;
                        if (column < N) {
                            float2 *place = (float2 *)(target + (i64)row * N + column);
                            float2 value = {apply(sums[i][j * 4 + half * 2], unscale),
                                            apply(sums[i][j * 4 + half * 2 + 1], unscale)};
                            if (${accumulate_here}) {
                                float2 old = *place;
                                value.x += old.x;
                                value.y += old.y;
                            }
                            *place = value;
                        }
                    }
            }
