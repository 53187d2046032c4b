            /* The epilogue works through its 64-row tiles in parts of PART columns and reads `intermediate` one part
             * ahead by cp.async, each lane what it will use itself: four columns of every ROWS-th row. The first part
             * comes now, while the main loop runs. */
            constexpr u32 PART = ${part}, BATCH = 2, PARTS = TILE_N / PART, QUADS = PART / 4, ROWS = 32 / QUADS, STEPS = 16 / ROWS / BATCH;
            constexpr u32 PART_BYTES = 16 * PART * 4; /* a warp's */
            const u32 parts_at = STAGES * STAGE_BYTES + consumer * 4 * PART_BYTES; /* the consumer's four of sums */
            constexpr u32 FETCHED = CONSUMERS * 4 * PART_BYTES;                    /* from there to those of intermediate */
            const float *next;
            int next_rows;
            u32 next_place;
            auto start_part = [&](u32 part) {
                const u32 thread = (u32)compute_here(threadIdx.x % 128), lane = thread % 32, warp = thread / 32;
                const int row = (tile_m * A_BLOCKS + rows_of + (int)(part / PARTS)) * 64 + (int)(warp * 16 + lane / QUADS);
                const int column = tile_n * TILE_N + (int)(part % PARTS * PART + lane % QUADS * 4);
                next = intermediate + ((u64)(u32)row * (u32)N + (u32)column);
                next_rows = column < N ? (M - row + (int)ROWS - 1) / (int)ROWS : 0; /* of the lane, may be negative */
                next_place = ring + parts_at + FETCHED + warp * PART_BYTES + lane * 16;
            };
            auto fetch = [&](bool more) {
                if (more) {
#pragma unroll
                    for (int u = 0; u < (int)BATCH; ++u)
                        cp_async_16(next_place + u * 512, next + (u64)(u32)N * (u * ROWS), u < next_rows ? 16 : 0);
                    next += (u64)(u32)N * (BATCH * ROWS);
                    next_rows -= BATCH;
                    next_place += BATCH * 512;
                }
                cp_async_commit();
            };
            start_part(0);
#pragma unroll
            for (u32 step = 0; step < STEPS; ++step)
                fetch(true);
