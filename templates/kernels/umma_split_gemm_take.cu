{
#pragma unroll
                        for (u32 i = 0; i < 2; ++i) /* an index that is known, so that the sums stay in registers */
                            if (half == i)
#pragma unroll
                                for (u32 j = 0; j < SLICE / 8; ++j)
#pragma unroll
                                    for (u32 lower = 0; lower < 2; ++lower)
                                        *(float2 *)(staging + (fragment ^ (j & 3) << 5) + (j & 4) * 32 + lower * (8 * SLICE * 4)) = {
                                            totals[i][j * 4 + lower * 2], totals[i][j * 4 + lower * 2 + 1]};
                    }