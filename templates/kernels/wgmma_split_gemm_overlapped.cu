/* hi * hi and the cross products in accumulators of their own: the sums take the former while the latter run */
            float high[HALF_TILE], cross[HALF_TILE];
            u32 previous_high = 0, previous_low = 0;
#pragma unroll 1
            for (int k = 0; k < steps; ++k) {
                const u32 high_slot = ring + at.slot * SLOT_BYTES, high_empty = empty + at.slot * 8;
                mbarrier_wait(full + at.slot * 8, at.phase);
                at.next();
                const u32 low_slot = ring + at.slot * SLOT_BYTES, low_empty = empty + at.slot * 8;
                wgmma_fence();
                multiply(high, high_slot + consumer * BLOCK_BYTES, high_slot + A_BLOCKS * BLOCK_BYTES, 0);
                wgmma_commit();
                wgmma_wait<1>(); /* the cross products of the step before have read their slots */
                if (k > 0 && lane == 0) {
                    mbarrier_arrive(previous_high);
                    mbarrier_arrive(previous_low);
                }
                previous_high = high_empty;
                previous_low = low_empty;
                mbarrier_wait(full + at.slot * 8, at.phase);
                at.next();
                wgmma_fence();
                multiply(cross, high_slot + consumer * BLOCK_BYTES, low_slot + A_BLOCKS * BLOCK_BYTES, k);
                multiply(cross, low_slot + consumer * BLOCK_BYTES, high_slot + A_BLOCKS * BLOCK_BYTES, 1);
                wgmma_commit();
                wgmma_wait<1>();
#pragma unroll
                for (int e = 0; e < HALF_TILE; ++e)
                    sums[e] += high[e];
            }
            wgmma_wait<0>();
            if (steps > 0) {
                if (lane == 0) {
                    mbarrier_arrive(previous_high);
                    mbarrier_arrive(previous_low);
                }
#pragma unroll
                for (int e = 0; e < HALF_TILE; ++e)
                    sums[e] = fmaf(cross[e], 1.0f / LOW_SCALE, sums[e]);
            }
