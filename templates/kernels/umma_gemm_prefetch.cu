/* The epilogue reads `intermediate` one piece of 16 rows x SLICE columns ahead by cp.async, each lane what it will use
             * itself: four columns of every ROWS-th row. The tile's first piece comes now, while the main loop runs. */
            constexpr u32 BATCH = 2, QUADS = SLICE / 4, ROWS = 32 / QUADS, STEPS = 16 / ROWS / BATCH;
            constexpr u32 PIECE_BYTES = 16 * SLICE * 4, WARPS = WRITERS * 4;
            constexpr u32 PIECES_AT = STAGES * STAGE_BYTES, FETCHED = WARPS * PIECE_BYTES, COLUMN_SUMS_AT = PIECES_AT + 2 * FETCHED;
            const u32 pieces_at = PIECES_AT + warp * PIECE_BYTES;
            const int block_row = row0 / 64, slices = (columns_here - writer * SLICE + WRITERS * SLICE - 1) / (WRITERS * SLICE);
            const u32 pieces = block_row < blocks_m ? max(slices, 0) * 2 : 0;
            const float *next;
            int next_rows;
            auto start_piece = [&](u32 piece) {
                const int row = row0 + (int)(piece % 2 * 16) + lane / (int)QUADS;
                const int column = tile_n * TILE_N + ((int)piece / 2 * WRITERS + writer) * SLICE + lane % (int)QUADS * 4;
                next = intermediate + ((u64)(u32)row * (u32)N + (u32)column);
                next_rows = (M - row + (int)ROWS - 1) / (int)ROWS; /* of the lane, may be negative */
            };
            auto fetch = [&](u32 step, bool more) {
                if (more) {
#pragma unroll
                    for (int u = 0; u < (int)BATCH; ++u)
                        cp_async_16(ring + pieces_at + FETCHED + (step * BATCH + u) * 512 + lane * 16, next + (u64)(u32)N * (u * ROWS),
                                    u < next_rows ? 16 : 0);
                    next += (u64)(u32)N * (BATCH * ROWS);
                    next_rows -= BATCH;
                }
                cp_async_commit();
            };
            start_piece(0);
#pragma unroll
            for (u32 step = 0; step < STEPS; ++step)
                fetch(step, pieces > 0);
