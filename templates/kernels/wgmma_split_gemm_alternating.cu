/* one set of accumulators, for hi * hi and for the cross products in turn: half the registers of the sums, so wider tiles;
 * while one consumer adds, the other's products run */
            float products[HALF_TILE];
#pragma unroll 1
            for (int k = 0; k < steps; ++k) {
                const u32 high_slot = ring + at.slot * SLOT_BYTES, high_empty = empty + at.slot * 8;
                mbarrier_wait(full + at.slot * 8, at.phase);
                at.next();
                const u32 low_slot = ring + at.slot * SLOT_BYTES, low_empty = empty + at.slot * 8;
                wgmma_fence();
                multiply(products, high_slot + consumer * BLOCK_BYTES, high_slot + A_BLOCKS * BLOCK_BYTES, 0);
                wgmma_commit();
                wgmma_wait<0>();
#pragma unroll
                for (int e = 0; e < HALF_TILE; ++e)
                    sums[e] += products[e];
                mbarrier_wait(full + at.slot * 8, at.phase);
                at.next();
                wgmma_fence();
                multiply(products, high_slot + consumer * BLOCK_BYTES, low_slot + A_BLOCKS * BLOCK_BYTES, 0);
                multiply(products, low_slot + consumer * BLOCK_BYTES, high_slot + A_BLOCKS * BLOCK_BYTES, 1);
                wgmma_commit();
                wgmma_wait<0>();
                if (lane == 0) {
                    mbarrier_arrive(high_empty);
                    mbarrier_arrive(low_empty);
                }
#pragma unroll
                for (int e = 0; e < HALF_TILE; ++e)
                    sums[e] = fmaf(products[e], 1.0f / LOW_SCALE, sums[e]);
            }
