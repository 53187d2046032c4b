/* grad_intermediate = totals x gelu'(intermediate) and its column sums, one row per 64 tokens */
    float *column_sums = &stages[0].a[0][0]; /* [16][TILE_N], after everybody has left the main loop */
    static_assert(16 * TILE_N <= (int)(sizeof(stages) / sizeof(float)), "column sums fit where the stages were");
    auto work = [&](auto form) {
#pragma unroll
        for (int i = 0; i < PIECES_M; ++i) {
            float sum[PIECES_N * 4];
#pragma unroll
            for (int j = 0; j < PIECES_N * 4; ++j)
                sum[j] = 0.0f;
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                i64 row = m0 + i * 64 + ty * 4 + e;
#pragma unroll
                for (int j = 0; j < PIECES_N; ++j) {
                    i64 column = n0 + j * 64 + tx * 4;
                    if (row < M && column < N) {
                        float4 before = *(const float4 *)(intermediate + row * N + column);
                        float4 value = {totals[i * 4 + e][j * 4] * gelu_derivative<form.value>(before.x),
                                        totals[i * 4 + e][j * 4 + 1] * gelu_derivative<form.value>(before.y),
                                        totals[i * 4 + e][j * 4 + 2] * gelu_derivative<form.value>(before.z),
                                        totals[i * 4 + e][j * 4 + 3] * gelu_derivative<form.value>(before.w)};
                        *(float4 *)(grad_intermediate + row * N + column) = value;
                        sum[j * 4] += value.x;
                        sum[j * 4 + 1] += value.y;
                        sum[j * 4 + 2] += value.z;
                        sum[j * 4 + 3] += value.w;
                    }
                }
            }
            __syncthreads();
#pragma unroll
            for (int j = 0; j < PIECES_N * 4; ++j)
                column_sums[ty * TILE_N + j / 4 * 64 + tx * 4 + j % 4] = sum[j];
            __syncthreads();
            i64 token_block = tile_m * PIECES_M + i, column = n0 + threadIdx.x;
            if (threadIdx.x < TILE_N && token_block * 64 < M && column < N) {
                float total = 0.0f;
#pragma unroll
                for (int row = 0; row < 16; ++row)
                    total += column_sums[row * TILE_N + threadIdx.x];
                column_partials[token_block * N + column] = total;
            }
        }
    };
    if (option == 0)
        work(Form<0>());
    else
        work(Form<1>());
