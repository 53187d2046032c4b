/* fp32 result straight from the fragments: eight lanes write 64 bytes of a token. */
                (void)option;
                float *target = ${store_target};
                if (active)
#pragma unroll
                    for (int j = 0; j < QUARTERS * 8; ++j)
#pragma unroll
                        for (int e = 0; e < 2; ++e) {
                            const int token = work.token_block * 64 + j * 8 + lane % 4 * 2 + e;
                            if (token < tokens)
                                *(float2 *)(target + (i64)token * M + work.column + lane_column) = {
                                    apply(sums[j * 4 + e], unscale), apply(sums[j * 4 + 2 + e], unscale)};
                        }
