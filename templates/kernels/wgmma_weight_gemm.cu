${base}
${ptx}
${ptx_sm90}
${ptx_sm90_rs}
${ptx_tma}
${scale}
${gelu}
/* C^T[M,N] = W^T * X^T on wgmma, fp32 sums: W is a weight matrix [K,M] in fp32 as the caller stores it, X are tokens [N,K] as
 * scaled 16-bit elements in 64 x 64 blocks (convert_blocked.cuh). The weights are never written as 16-bit copies: tensor
 * copies bring W into shared memory, and each consumer warp scales and rounds its 16 columns into the register operand of
 * wgmma. Few tokens make this worth it: each element of W is converted once for every TILE_N tokens.
 *
 * The exponent of a warp's weights is guessed from the first stage it sees and checked against the largest finite magnitude
 * once the tile is done; if a guess missed, the block does its tiles again with the exact exponent. So no other launch is
 * needed and no element overflows in the result that stays. Until then an overflow makes whole columns Inf or NaN, which no
 * largest magnitude counts.
 *
 * Warpgroup 0 loads, the others multiply. A lane's rows l/4 and l/4 + 8 of the wgmma tile are columns 2(l/4) and 2(l/4) + 1
 * of W, so that it reads and writes neighbours together. */
constexpr int CONSUMERS = 2, TILE_M = 64 * CONSUMERS, TILE_N = ${tile_n}, QUARTERS = TILE_N / 64, THREADS = 128 * (CONSUMERS + 1);
constexpr int BLOCK_BYTES = 8192, TOKEN_STAGES = ${token_stages}, TOKEN_BYTES = QUARTERS * BLOCK_BYTES;
/* a stage of weights: 64 rows of W in boxes of 32 columns, rows of 128 bytes in the 128-byte swizzle */
constexpr int WEIGHT_STAGES = ${weight_stages}, BOX_BYTES = 64 * 128, WEIGHT_BYTES = TILE_M / 32 * BOX_BYTES;

struct Barriers {
    u64 weights_full[WEIGHT_STAGES], weights_empty[WEIGHT_STAGES], tokens_full[TOKEN_STAGES], tokens_empty[TOKEN_STAGES];
};

template <int STAGES> struct Ring {
    int stage;
    u32 phase;
    __device__ __forceinline__ void next() {
        if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }
};

struct Work {
    int column, token_block, part, first_k, last_k; /* first column of W, first block of 64 tokens, part of K, blocks of K */
};

extern __shared__ __align__(1024) unsigned char shared_memory[];

/* The consumers issue their products in turn: while one's are at work the other converts. Else both convert at once, and the
 * tensor cores wait. */
__device__ __forceinline__ void await_turn(int consumer) {
    if (consumer == 0)
        named_barrier<2, 256>();
    else
        named_barrier<3, 256>();
}
__device__ __forceinline__ void pass_turn(int consumer) {
    if (consumer == 0)
        named_barrier_arrive<3, 256>();
    else
        named_barrier_arrive<2, 256>();
}

/* every thread of the block */
__device__ __forceinline__ void everyone() {
    named_barrier<1, THREADS>();
}

__device__ __forceinline__ float2 load_pair(const unsigned char *place) {
    return *(const float2 *)place;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    wgmma_weight_gemm(const u16 *__restrict__ token_copies, const __grid_constant__ TensorMap weight,
                      const Scale *scale_tokens, ${epilogue_parameters} int tokens, int hidden_size, int intermediate_size, int option, int split_k,
                      int work_count) {
    const int M = ${m}, K = ${k};
    ${early_exit}
    __shared__ Barriers barriers;
    __shared__ int exponents_tokens[CONSUMERS * 4]${shared_epilogue};
    __shared__ u32 missed, largest_weights[CONSUMERS * 4]; /* the latter: of each consumer warp, over its tiles */
    /* by shuffle, so that the compiler knows that a warp agrees on it and keeps the rings' state in uniform registers */
    const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0), warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const u32 token_ring = shared_address(shared_memory), weight_ring = token_ring + TOKEN_STAGES * TOKEN_BYTES;
    const u32 weights_full = shared_address(barriers.weights_full), weights_empty = shared_address(barriers.weights_empty);
    const u32 tokens_full = shared_address(barriers.tokens_full), tokens_empty = shared_address(barriers.tokens_empty);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < WEIGHT_STAGES; ++stage) {
            mbarrier_init(weights_full + stage * 8, 1);
            mbarrier_init(weights_empty + stage * 8, CONSUMERS * 4);
        }
        for (int stage = 0; stage < TOKEN_STAGES; ++stage) {
            mbarrier_init(tokens_full + stage * 8, 1);
            mbarrier_init(tokens_empty + stage * 8, CONSUMERS * 4);
        }
        mbarrier_init_fence();
        missed = 0;
    }
    __syncthreads();

    /* counts of blocks and tiles fit 32 bits: a plan whose work_count does not is refused */
    const int token_blocks = (int)ceil_div(tokens, 64), blocks_k = K / 64, token_tiles = (int)ceil_div(tokens, TILE_N);
    const int tiles = token_tiles * (int)ceil_div(M, TILE_M);
    const int part_k = (int)ceil_div(blocks_k, split_k);
    /* tiles of the same weights follow one another: these come from L2 then */
    auto work_of = [&](int index) {
        const int tile = index % tiles, part = index / tiles;
        return Work{tile / token_tiles * TILE_M, tile % token_tiles * QUARTERS, part, min(part * part_k, blocks_k),
                    min(part * part_k + part_k, blocks_k)};
    };

    if (warpgroup == 0) {
        registers_decrease<40>();
        Ring<WEIGHT_STAGES> weights = {0, 0};
        Ring<TOKEN_STAGES> copies = {0, 0};
#pragma unroll 1
        for (int attempt_here = 0; attempt_here < 2; ++attempt_here) {
            fence_proxy_async_global();
#pragma unroll 1
            for (int index = blockIdx.x; index < work_count; index += gridDim.x) {
                const Work work = work_of(index);
                if (warp == 0 && lane == 0) {
                    /* the box of 64 rows from `row` on into the next stage of the ring */
                    auto load_rows = [&](const TensorMap &map, int row) {
                        const u32 barrier = weights_full + weights.stage * 8;
                        mbarrier_wait(weights_empty + weights.stage * 8, weights.phase ^ 1);
                        mbarrier_arrive_expect(barrier, WEIGHT_BYTES);
                        tma_load_3d(weight_ring + weights.stage * WEIGHT_BYTES, &map, 0, row, work.column / 32, barrier);
                        weights.next();
                    };
#pragma unroll 1
                    for (int k = work.first_k; k < work.last_k; ++k)
                        load_rows(weight, k * 64);
                    ${load_epilogue}
                } else if (warp == 1 && lane == 0) {
                    const int count = min(QUARTERS, token_blocks - work.token_block);
#pragma unroll 1
                    for (int k = work.first_k; k < work.last_k; ++k) {
                        const u32 stage = token_ring + copies.stage * TOKEN_BYTES, barrier = tokens_full + copies.stage * 8;
                        mbarrier_wait(tokens_empty + copies.stage * 8, copies.phase ^ 1);
                        mbarrier_arrive_expect(barrier, count * BLOCK_BYTES);
#pragma unroll 1
                        for (int i = 0; i < count; ++i)
                            bulk_load(stage + i * BLOCK_BYTES, token_copies + ((i64)(work.token_block + i) * blocks_k + k) * 4096,
                                      BLOCK_BYTES, barrier);
                        copies.next();
                    }
                }
            }
            __syncwarp();
            everyone();
            if (!missed)
                break;
            everyone();
        }
    } else {
        registers_increase<232>();
        const int consumer = warpgroup - 1, warp_column = consumer * 64 + warp * 16, lane_column = warp_column + lane / 4 * 2;
        if (lane == 0) { /* in shared memory: registers less through the main loop */
            exponents_tokens[consumer * 4 + warp] = exponent_in_force(scale_tokens, ${lowest_tokens});
            ${start_epilogue}
        }
        /* this lane's elements of a stage: two columns in rows 2(l%4), 8 more, .. and in the rows behind these. Half a warp meets
         * every bank once: four rows XOR two pieces of 16 bytes, of each both halves. */
        const unsigned char *const lane_stage = shared_memory + TOKEN_STAGES * TOKEN_BYTES;
        const int even_rows = (consumer * 2 + warp / 2) * BOX_BYTES + lane % 4 * 256 +
                              ((warp % 2 * 4 + lane / 8 ^ lane % 4 * 2) << 4) + lane / 4 % 2 * 8;
        const int odd_rows = even_rows ^ (128 | 16);
        Ring<WEIGHT_STAGES> weights = {0, 0};
        Ring<TOKEN_STAGES> copies = {0, 0};
        if (consumer == 1)
            pass_turn(consumer); /* the first one is consumer 0's */
        if (lane == 0)
            largest_weights[consumer * 4 + warp] = 0;
        __syncwarp();
#pragma unroll 1
        for (int attempt_here = 0; attempt_here < 2; ++attempt_here) {
#pragma unroll 1
            for (int index = blockIdx.x; index < work_count; index += gridDim.x) {
                const Work work = work_of(index);
                const bool active = work.column + consumer * 64 < M; /* else only 64 columns are left */
                int exponent = attempt_here ? exact_exponent(largest_weights[consumer * 4 + warp]) : 0; /* a barrier ago, all had been seen */
                if (attempt_here == 0 && work.first_k < work.last_k) {
                    mbarrier_wait(weights_full + weights.stage * 8, weights.phase);
                    const unsigned char *stage = lane_stage + weights.stage * WEIGHT_BYTES;
                    float largest = 0.0f;
                    if (active)
#pragma unroll
                        for (int i = 0; i < 16; ++i) {
                            const float2 x = load_pair(stage + (i % 2 ? odd_rows : even_rows) + i / 2 * 1024);
                            largest = max_finite_abs(max_finite_abs(largest, x.x), x.y);
                        }
                    exponent = guess_exponent(warp_max(largest));
                }
                const Factor factor = make_factor(exponent);
                float sums[TILE_N / 2], largest = 0.0f;
                if (work.first_k >= work.last_k)
#pragma unroll
                    for (int e = 0; e < TILE_N / 2; ++e)
                        sums[e] = 0.0f;
                float scaled[4][2][4] = {}; /* a stage of weights in the order of the register operands of its four products */
                u32 previous = 0;
#pragma unroll 1
                for (int k = work.first_k; k < work.last_k; ++k) {
                    mbarrier_wait(weights_full + weights.stage * 8, weights.phase);
                    if (active) {
                        const unsigned char *stage = lane_stage + weights.stage * WEIGHT_BYTES;
                        float seen = 0.0f; /* the largest magnitude of this stage, Inf included */
#pragma unroll
                        for (int step = 0; step < 4; ++step)
#pragma unroll
                            for (int half = 0; half < 2; ++half) {
                                const float2 x = load_pair(stage + even_rows + (step * 2 + half) * 1024);
                                const float2 y = load_pair(stage + odd_rows + (step * 2 + half) * 1024);
                                seen = fmaxf(fmaxf(fmaxf(fmaxf(seen, fabsf(x.x)), fabsf(x.y)), fabsf(y.x)), fabsf(y.y));
                                scaled[step][half][0] = apply(x.x, factor);
                                scaled[step][half][1] = apply(y.x, factor);
                                scaled[step][half][2] = apply(x.y, factor);
                                scaled[step][half][3] = apply(y.y, factor);
                            }
                        if (seen <= FLOAT_MAX)
                            largest = fmaxf(largest, seen);
                        else
#pragma unroll 1
                            for (int i = 0; i < 16; ++i) { /* rare: only the finite ones */
                                const float2 x = load_pair(stage + (i % 2 ? odd_rows : even_rows) + i / 2 * 1024);
                                largest = max_finite_abs(max_finite_abs(largest, x.x), x.y);
                            }
                    }
                    fence_proxy_async_shared(); /* what was read, before the copy that overwrites it */
                    __syncwarp();
                    if (lane == 0)
                        mbarrier_arrive(weights_empty + weights.stage * 8);
                    weights.next();
                    mbarrier_wait(tokens_full + copies.stage * 8, copies.phase);
                    wgmma_wait<0>(); /* the products before have read their tokens and their registers */
                    if (k > work.first_k && lane == 0)
                        mbarrier_arrive(previous);
                    u32 fragments[4][4];
#pragma unroll
                    for (int step = 0; step < 4; ++step)
#pragma unroll
                        for (int i = 0; i < 4; ++i)
                            fragments[step][i] = pack_ordered_${operand_type}(scaled[step][i / 2][i % 2 * 2], scaled[step][i / 2][i % 2 * 2 + 1]);
                    const u32 stage = token_ring + copies.stage * TOKEN_BYTES;
                    await_turn(consumer);
                    wgmma_fence();
#pragma unroll
                    for (int step = 0; step < 4; ++step)
                        wgmma_registers_${operand_type}(sums, fragments[step], matrix_descriptor(stage + step * 32, 16, 1024),
                                                        k > work.first_k || step > 0);
                    wgmma_commit();
                    pass_turn(consumer);
                    previous = tokens_empty + copies.stage * 8;
                    copies.next();
                }
                wgmma_wait<0>();
                if (work.first_k < work.last_k && lane == 0)
                    mbarrier_arrive(previous);
                const u32 largest_bits = __float_as_uint(warp_max(largest));
                const bool missed_here = attempt_here == 0 && !guess_fits(exponent, largest_bits, LOWEST_INPUT);
                if (lane == 0 && attempt_here == 0) {
                    largest_weights[consumer * 4 + warp] = max(largest_weights[consumer * 4 + warp], largest_bits);
                    if (missed_here)
                        atomicMax(&missed, 1u);
                }
                const int exponent_tokens = exponents_tokens[consumer * 4 + warp];
                const Factor unscale = make_factor(-(exponent_tokens + exponent));
                ${epilogue}
            }
            everyone();
            if (!missed)
                break;
            everyone();
            if (threadIdx.x == 128)
                missed = 0;
        }
        if (consumer == 0)
            await_turn(consumer); /* the last one is passed, too */
    }
}
${split_reduction}
