(void)option;
    float *target = ${store_target};
#pragma unroll
    for (int i = 0; i < PIECES_M * 4; ++i) {
        i64 row = m0 + i / 4 * 64 + ty * 4 + i % 4;
#pragma unroll
        for (int j = 0; j < PIECES_N; ++j) {
            i64 column = n0 + j * 64 + tx * 4;
            if (row < M && column < N) {
                float4 *place = (float4 *)(target + row * N + column);
                float4 value = {totals[i][j * 4], totals[i][j * 4 + 1], totals[i][j * 4 + 2], totals[i][j * 4 + 3]};
                if (${accumulate_here}) {
                    float4 old = *place;
                    value.x += old.x;
                    value.y += old.y;
                    value.z += old.z;
                    value.w += old.w;
                }
                *place = value;
            }
        }
    }
