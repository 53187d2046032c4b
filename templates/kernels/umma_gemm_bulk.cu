/* fp32 result by bulk copies: a lane has a row of a slice, brings it to shared memory and sends it off from there; two
 * places, so that a slice is read from tensor memory while the one before leaves. */
            float *const target = ${store_target};
            const bool any = !SPLIT || steps_of(walk.work, tiles, part, blocks_k) > 0; /* else an empty part: zeros */
            const int row = row0 + lane;
            if (row0 < M)
#pragma unroll 1
                for (int first = writer * SLICE; first < columns_here; first += WRITERS * SLICE) {
                    u32 sums[SLICE];
                    if (any) {
                        tmem_load_32x32b(sums, sums_at + first);
                        tmem_wait_load();
                    } else {
#pragma unroll
                        for (int e = 0; e < SLICE; ++e)
                            sums[e] = 0;
                    }
                    if (row < M) {
                        constexpr u32 ROW_BYTES = SLICE * 4 + 16; /* so that lanes which write together meet in no bank */
                        const u32 place = STAGES * STAGE_BYTES + ((u32)warp * 64 + (sends++ % 2 * 32 + lane)) * ROW_BYTES;
                        float *const to = target + (i64)row * N + tile_n * TILE_N + first;
                        const Factor unscale = barriers.unscale;
                        bulk_wait_read<1>(); /* what lay there has left */
#pragma unroll
                        for (int j = 0; j < SLICE; j += 4) {
                            float4 value = {apply(__uint_as_float(sums[j]), unscale), apply(__uint_as_float(sums[j + 1]), unscale),
                                            apply(__uint_as_float(sums[j + 2]), unscale), apply(__uint_as_float(sums[j + 3]), unscale)};
                            if (${accumulate_here}) {
                                const float4 old = *(const float4 *)(to + j);
                                value.x += old.x;
                                value.y += old.y;
                                value.z += old.z;
                                value.w += old.w;
                            }
                            *(float4 *)(shared_memory + place + j * 4) = value;
                        }
                        fence_proxy_async_shared();
                        bulk_store(to, ring + place, SLICE * 4);
                        bulk_commit();
                    }
                    __syncwarp();
                }
