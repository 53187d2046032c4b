/* fp32 result straight from the fragments: four lanes write one 32-byte sector. */
    (void)option;
    const i64 row0 = m0 + warp_m * WARP_M + lane / 4, column0 = n0 + warp_n * WARP_N + (lane % 4) * 2;
    float *target = ${store_target};
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            i64 row = row0 + i * 16 + half * 8;
            if (row < M)
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) {
                    i64 column = column0 + j * 8;
                    if (column < N) {
                        float2 *place = (float2 *)(target + row * N + column);
                        float2 value = {apply(sums[i][j][half * 2], unscale), apply(sums[i][j][half * 2 + 1], unscale)};
                        if (${accumulate_here}) {
                            float2 old = *place;
                            value.x += old.x;
                            value.y += old.y;
                        }
                        *place = value;
                    }
                }
        }
