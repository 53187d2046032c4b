answers_init(barriers.answers, 2 + WRITERS * 4);
        mbarrier_init_fence();
        const int exponent_ab = exponent_in_force(scale_a, ${lowest_a}) + exponent_in_force(scale_b, LOWEST_INPUT);
        barriers.unscale = make_factor(-exponent_ab);
        ${setup}
    }
    all_blocks_barrier();
    if (warp == MULTIPLIER)
        tmem_allocate<CTAS, COLUMNS>(shared_address(&barriers.tmem));
    __syncthreads();
    const u32 tmem = __shfl_sync(0xffffffffu, barriers.tmem, 0);

    /* counts of blocks and tiles fit 32 bits: a plan whose work_count does not is refused */
    const int blocks_m = (M + 63) / 64, blocks_n = N / 64, blocks_k = (K + 63) / 64;
    const int tiles = tiles_m * tiles_n;
    (void)split_k;
    Walk walk = {(int)blockIdx.x / CTAS, ${steals_now}, {0, 0}};
    ${rings}
    if (warp == LOADER) {
        fence_proxy_async_global();
        for (; walk.work >= 0; walk.next(barriers.answers, work_count, lane)) {
            int tile_m, tile_n;
            tile_of(walk.work, tiles, group_m, tiles_m, tiles_n, tile_m, tile_n);
            const int first_k = first_k_of(walk.work, tiles, part, blocks_k);
            const int block_m = (tile_m * CTAS + rank) * A_BLOCKS, block_n = (tile_n * CTAS + rank) * B_BLOCKS;
            const int count_a = blocks_inside(blocks_m, block_m, A_BLOCKS), count_b = blocks_inside(blocks_n, block_n, B_BLOCKS);
