/* fp32 result by whole rows: a warp leaves 16 rows x 64 columns of sums in shared memory and stores from there, two rows
 * of 256 bytes at a time. Straight from the fragments, stores of 32-byte pieces take longer. */
        (void)option;
        const u32 thread = (u32)compute_here(threadIdx.x % 128), lane = thread % 32, warp_of = thread / 32;
        unsigned char *const staging = shared_memory + STAGES * STAGE_BYTES + (consumer * 4 + warp_of) * 4096;
        /* 8 columns (32 bytes) are XORed with row % 4, so that neither fragments nor rows meet in a bank */
        const u32 fragment = lane / 4 * 256 + ((lane / 4 & 3) << 5) + lane % 4 * 8;
        const u32 whole_row = lane / 16 * 256 + (lane % 16 * 16 ^ lane / 16 << 5);
        const Factor unscale = barriers.unscale;
#pragma unroll
        for (int i = 0; i < TILES_M; ++i) {
            const int row = (tile_m * A_BLOCKS + rows_of + i) * 64 + (int)(warp_of * 16 + lane / 16);
#pragma unroll
            for (int part = 0; part < TILE_N / 64; ++part) {
                const int column = tile_n * TILE_N + part * 64;
                if (column >= N)
                    continue;
                __syncwarp(); /* the rows before have been read */
#pragma unroll
                for (u32 j = 0; j < 8; ++j)
#pragma unroll
                    for (u32 half = 0; half < 2; ++half)
                        *(float2 *)(staging + (fragment ^ (j & 3) << 5) + (j & 4) * 32 + half * 2048) = {
                            sums[i][(part * 8 + j) * 4 + half * 2], sums[i][(part * 8 + j) * 4 + half * 2 + 1]};
                __syncwarp();
                float *const target = ${store_target} + ((u64)(u32)row * (u32)N + (u32)column + lane % 16 * 4);
#pragma unroll
                for (int pair = 0; pair < 8; ++pair) {
                    float4 *const place = (float4 *)(target + (u64)(u32)N * (pair * 2));
                    const float4 sum = *(const float4 *)(staging + (whole_row ^ (pair & 1) << 6) + pair * 512);
                    float4 value = {apply(sum.x, unscale), apply(sum.y, unscale), apply(sum.z, unscale), apply(sum.w, unscale)};
                    if (row + pair * 2 < M) {
                        if (${accumulate_here}) {
                            const float4 old = *place;
                            value.x += old.x;
                            value.y += old.y;
                            value.z += old.z;
                            value.w += old.w;
                        }
                        *place = value;
                    }
                }
            }
        }
