/* bring what the epilogue reads of `intermediate` into L2 while the main loop runs: 128-byte lines */
            for (int line = threadIdx.x % 128; line < 64 * (TILE_N / 32); line += 128) {
                const int row = tile_m * TILE_M + consumer * 64 + line / (TILE_N / 32);
                const int column = tile_n * TILE_N + line % (TILE_N / 32) * 32;
                if (row < M && column < N)
                    prefetch_l2(intermediate + (i64)row * N + column);
            }
