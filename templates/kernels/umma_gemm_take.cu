{ /* 16 rows as mma.sync's C fragments */
                        u32 sums[SLICE / 2];
                        tmem_load_16x256b(sums, sums_at + (half << 20) + first);
                        tmem_wait_load();
#pragma unroll
                        for (u32 j = 0; j < SLICE / 8; ++j)
#pragma unroll
                            for (u32 lower = 0; lower < 2; ++lower)
                                *(float2 *)(staging + (fragment ^ (j & 3) << 5) + (j & 4) * 32 + lower * (8 * SLICE * 4)) = {
                                    __uint_as_float(sums[j * 4 + lower * 2]), __uint_as_float(sums[j * 4 + lower * 2 + 1])};
                    }