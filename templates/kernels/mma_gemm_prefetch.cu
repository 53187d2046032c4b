/* bring the tile of `intermediate` that the epilogue reads into L2 while the main loop runs: 128-byte lines */
    for (int line = threadIdx.x; line < TILE_M * (TILE_N / 32); line += THREADS) {
        i64 row = m0 + line / (TILE_N / 32), column = n0 + line % (TILE_N / 32) * 32;
        if (row < M && column < N)
            prefetch_l2(intermediate + row * N + column);
    }
