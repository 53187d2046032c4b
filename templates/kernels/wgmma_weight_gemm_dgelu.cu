/* grad_intermediate = sums x gelu'(intermediate), 16-bit in blocks; its column sums over 64 tokens; its largest magnitude.
 * One rolled loop over blocks of 64 tokens, the sums moved down behind it. The sums stay in scaled units until they leave. */
                const float rescale = power_of_two(min(max(exponents_out[consumer * 4 + warp] - exponent_tokens - exponent, -126), 127));
                float largest_out = 0.0f;
                auto work_on = [&](auto form) {
#pragma unroll 1
                    for (int quarter = 0; quarter < QUARTERS; ++quarter) {
                        const int token_block = work.token_block + quarter, rows_left = tokens - token_block * 64;
                        const int lane_rows_left = rows_left - lane % 4 * 2;
                        if (rows_left <= 0)
                            break;
                        mbarrier_wait(weights_full + weights.stage * 8, weights.phase);
                        if (active) {
                            const unsigned char *before = lane_stage + weights.stage * WEIGHT_BYTES;
                            char *out = (char *)grad_intermediate +
                                        ((i64)token_block * (M / 64) + (work.column / 64 + consumer)) * BLOCK_BYTES + lane % 4 * 256 +
                                        lane / 4 % 4 * 4;
                            float2 column_sum = {0.0f, 0.0f};
#pragma unroll
                            for (int j = 0; j < 8; ++j)
#pragma unroll
                                for (int e = 0; e < 2; ++e) {
                                    /* Past the last token the sums become 0, whatever the weights are, and `intermediate` is 0:
                                     * fc1_wgrad needs zeros there. */
                                    const bool inside = j * 8 + e < lane_rows_left;
                                    const float2 x = load_pair(before + (e ? odd_rows : even_rows) + j * 1024);
                                    const float2 sum = {inside ? sums[j * 4 + e] : 0.0f, inside ? sums[j * 4 + 2 + e] : 0.0f};
                                    const float2 y = {sum.x * gelu_derivative_16<form.value>(x.x), sum.y * gelu_derivative_16<form.value>(x.y)};
                                    const u32 packed = ${pack}(y.x * rescale, y.y * rescale);
                                    column_sum.x += y.x;
                                    column_sum.y += y.y;
                                    largest_out = max_finite_abs(max_finite_abs(largest_out, y.x), y.y);
                                    *(u32 *)(out + (j * 8 + e) * 128 + ((warp * 2 + lane / 16 ^ (lane % 4 * 2 + e)) << 4)) = packed;
                                }
#pragma unroll
                            for (int step = 1; step < 4; step *= 2) {
                                column_sum.x += __shfl_xor_sync(0xffffffffu, column_sum.x, step);
                                column_sum.y += __shfl_xor_sync(0xffffffffu, column_sum.y, step);
                            }
                            if (lane % 4 == 0)
                                *(float2 *)(column_partials + (i64)token_block * M + work.column + lane_column) = {
                                    apply(column_sum.x, unscale), apply(column_sum.y, unscale)};
                        }
                        fence_proxy_async_shared();
                        __syncwarp();
                        if (lane == 0)
                            mbarrier_arrive(weights_empty + weights.stage * 8);
                        weights.next();
#pragma unroll
                        for (int e = 0; e < (QUARTERS - 1) * 32; ++e)
                            sums[e] = sums[e + 32];
                    }
                };
                if (option == 0)
                    work_on(Form<0>());
                else
                    work_on(Form<1>());
                largest_out = fminf(apply(warp_max(largest_out), unscale), FLOAT_MAX);
                if (lane == 0 && attempt == 0)
                    atomicMax(&scale_out->largest, __float_as_uint(largest_out));
