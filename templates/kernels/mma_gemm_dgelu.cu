/* grad_intermediate = sums x gelu'(intermediate): its column sums over the 64 tokens of this warp, its largest
 * magnitude (for the exponent), and itself as 16-bit. The sums go through shared memory first: then a short rolled loop
 * with whole rows per half warp does the rest, where straight-line code over the fragments would overflow the
 * instruction cache. */
    const int exponent = attempt == 0 ? guess_intermediate(scale_a, scale_b, K)
                                      : exponent_in_force(scale_out, LOWEST_INTERMEDIATE);
    if (attempt == 0 && blockIdx.x == 0 && threadIdx.x == 0)
        scale_out->guess = exponent;
    /* The sums stay in the operands' scaled units (2^46 at most) until they leave: then the step to 16 bits is one
     * factor, and largest magnitude and column sums are unscaled once a tile. */
    const int to_16 = exponent - exponent_in_force(scale_a, ${lowest_a}) - exponent_in_force(scale_b, LOWEST_INPUT);
    const float rescale = power_of_two(min(max(to_16, -126), 127));
    constexpr int PITCH = WARP_N + 8; /* floats; the 8 keep a fragment's eight rows in different banks */
    float *staging = (float *)shared_memory + warp * WARP_M * PITCH;
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
                *(float2 *)(staging + (i * 16 + half * 8 + lane / 4) * PITCH + j * 8 + lane % 4 * 2) =
                    {sums[i][j][half * 2], sums[i][j][half * 2 + 1]};
    __syncwarp();

    constexpr int LANES = WARP_N / 4, ROWS = 32 / LANES, BATCH = 4; /* lanes a row, rows a pass, passes in flight */
    const i64 column = n0 + warp_n * WARP_N + lane % LANES * 4, first_row = m0 + warp_m * WARP_M;
    const bool column_inside = column < N;
    float4 column_sums = {0.0f, 0.0f, 0.0f, 0.0f};
    float largest = 0.0f, largest_before = 0.0f;
    auto finite_part = [](float4 y, float largest) {
        return max_finite_abs(max_finite_abs(max_finite_abs(max_finite_abs(largest, y.x), y.y), y.z), y.w);
    };
    auto work = [&](auto form) {
        float4 next[BATCH];
        auto load = [&](int pass) {
#pragma unroll
            for (int k = 0; k < BATCH; ++k) {
                i64 row = first_row + (pass + k) * ROWS + lane / LANES;
                next[k] = column_inside && row < M ? load_streaming((const float4 *)(intermediate + row * N + column))
                                                   : float4{0.0f, 0.0f, 0.0f, 0.0f};
            }
        };
        load(0);
#pragma unroll 1
        for (int pass = 0; pass < WARP_M / ROWS; pass += BATCH) {
            float4 before[BATCH];
#pragma unroll
            for (int k = 0; k < BATCH; ++k)
                before[k] = next[k];
            if (pass + BATCH < WARP_M / ROWS)
                load(pass + BATCH);
#pragma unroll
            for (int k = 0; k < BATCH; ++k) {
                const int local = (pass + k) * ROWS + lane / LANES;
                const i64 row = first_row + local;
                const float4 x = *(const float4 *)(staging + local * PITCH + lane % LANES * 4);
                const float4 y = {x.x * gelu_derivative<form.value>(before[k].x), x.y * gelu_derivative<form.value>(before[k].y),
                                  x.z * gelu_derivative<form.value>(before[k].z), x.w * gelu_derivative<form.value>(before[k].w)};
                if (column_inside && row < M) { /* a row past the end could hold 0 * Inf */
                    column_sums.x += y.x;
                    column_sums.y += y.y;
                    column_sums.z += y.z;
                    column_sums.w += y.w;
                    largest = fmaxf(fmaxf(fmaxf(fmaxf(largest, fabsf(y.x)), fabsf(y.y)), fabsf(y.z)), fabsf(y.w));
                    *(uint2 *)(grad_intermediate + row * N + column) = {${pack}(y.x * rescale, y.y * rescale),
                                                                        ${pack}(y.z * rescale, y.w * rescale)};
                    if (largest > FLOAT_MAX) /* Inf must not count: this lane starts over without it */
                        largest = finite_part(y, largest_before);
                    largest_before = largest;
                }
            }
        }
    };
    if (option == 0)
        work(Form<0>());
    else
        work(Form<1>());
#pragma unroll
    for (int step = LANES; step < 32; step *= 2) {
        column_sums.x += __shfl_xor_sync(0xffffffffu, column_sums.x, step);
        column_sums.y += __shfl_xor_sync(0xffffffffu, column_sums.y, step);
        column_sums.z += __shfl_xor_sync(0xffffffffu, column_sums.z, step);
        column_sums.w += __shfl_xor_sync(0xffffffffu, column_sums.w, step);
    }
    column_sums = {apply(column_sums.x, unscale), apply(column_sums.y, unscale), apply(column_sums.z, unscale),
                   apply(column_sums.w, unscale)};
    const i64 token_block = tile_m * (TILE_M / 64) + warp_m;
    if (lane < LANES && token_block * 64 < M && column_inside)
        *(float4 *)(column_partials + token_block * N + column) = column_sums;
    largest = fminf(apply(warp_max(largest), unscale), FLOAT_MAX);
    if (lane == 0 && attempt == 0)
        atomicMax(&scale_out->largest, __float_as_uint(largest));
