/* whole sums in registers, 16 rows of fragments twice: hi * hi is added up part by part, rounded each time */
            float totals[2][SLICE / 2];
#pragma unroll
            for (int e = 0; e < SLICE; ++e)
                totals[e % 2][e / 2] = 0.0f;
            const int steps = steps_of(walk.work, tiles, part, blocks_k);
#pragma unroll 1
            for (int k = 0; k < steps; k += PROMOTED) {
                mbarrier_wait(high_full + high_of.at * 8, high_of.phase);
                tcgen05_fence_after();
                u32 high[2][SLICE / 2];
                tmem_load_16x256b(high[0], columns_at + high_of.at * TILE_N);
                tmem_load_16x256b(high[1], columns_at + high_of.at * TILE_N + (16u << 16));
                tmem_wait_load();
                tcgen05_fence_before();
                __syncwarp();
                if (lane == 0)
                    arrive_at_even(high_empty + high_of.at * 8);
                __syncwarp();
                high_of.next(2);
#pragma unroll
                for (int e = 0; e < SLICE; ++e)
                    totals[e % 2][e / 2] += __uint_as_float(high[e % 2][e / 2]);
            }
            if (steps > 0) {
                mbarrier_wait(cross_full + cross_of.at * 8, cross_of.phase);
                tcgen05_fence_after();
                u32 cross[2][SLICE / 2];
                tmem_load_16x256b(cross[0], columns_at + CROSS + cross_of.at * TILE_N);
                tmem_load_16x256b(cross[1], columns_at + CROSS + cross_of.at * TILE_N + (16u << 16));
                tmem_wait_load();
                tcgen05_fence_before();
                __syncwarp();
                if (lane == 0)
                    arrive_at_even(cross_empty + cross_of.at * 8);
                __syncwarp();
                cross_of.next(2);
#pragma unroll
                for (int e = 0; e < SLICE; ++e)
                    totals[e % 2][e / 2] = fmaf(__uint_as_float(cross[e % 2][e / 2]), 1.0f / LOW_SCALE, totals[e % 2][e / 2]);
            }