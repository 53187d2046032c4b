${base}
${ptx}
${raster}
${gelu}
/* C[M,N] = A * B in fp32 FFMA. A is stored [M,K] or [K,M], B always [K,N]. 256 threads, each with 4x4 pieces 64 rows
 * and 64 columns apart. Every PROMOTE of K the running sums are added to totals, which bounds the rounding error by
 * short chains (hopper.md, section 14: 6.5e-7 at 512 whatever K is). */
constexpr int TILE_M = ${tile_m}, TILE_N = 128, TILE_K = ${tile_k}, PROMOTE = ${promote}, THREADS = 256;
constexpr int PIECES_M = TILE_M / 64, PIECES_N = 2, PITCH_A = TILE_M + 4, PITCH_B = TILE_N;
constexpr bool A_K_MAJOR = ${a_k_major};
constexpr int LOADS_A = TILE_M * TILE_K / 4 / THREADS, LOADS_B = TILE_N * TILE_K / 4 / THREADS;

struct Stage {
    float a[TILE_K][PITCH_A];
    float b[TILE_K][PITCH_B];
};

__device__ __forceinline__ float4 load_or_zero(const float *place, bool inside) {
    return inside ? *(const float4 *)place : float4{0.0f, 0.0f, 0.0f, 0.0f};
}

/* a [K, columns] operand: WIDTH columns of TILE_K rows, float4 number `load` of this thread */
template <int WIDTH> __device__ __forceinline__ float4 load_mn_major(const float *source, i64 row0, i64 rows, i64 column0,
                                                                     i64 columns, int load) {
    int quad = threadIdx.x + load * THREADS;
    i64 row = row0 + quad / (WIDTH / 4), column = column0 + quad % (WIDTH / 4) * 4;
    return load_or_zero(source + row * columns + column, row < rows && column < columns);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    simt_gemm(const float *__restrict__ a, const float *__restrict__ b, ${epilogue_parameters} int tokens, int hidden_size,
              int intermediate_size, int option, int group_m, int split_k) {
    __shared__ __align__(16) Stage stages[2];
    const i64 M = ${m}, N = ${n}, K = ${k};
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    i64 tile_m, tile_n;
    raster<i64>(blockIdx.x, group_m, ceil_div(M, TILE_M), ceil_div(N, TILE_N), tile_m, tile_n);
    const i64 m0 = tile_m * TILE_M, n0 = tile_n * TILE_N;
    i64 first_step, last_step;
    split_range(ceil_div(K, TILE_K), split_k, first_step, last_step);

    float4 next_a[LOADS_A], next_b[LOADS_B];
    auto load = [&](i64 step) {
        const i64 k0 = step * TILE_K;
#pragma unroll
        for (int i = 0; i < LOADS_A; ++i)
            if (A_K_MAJOR) {
                int quad = threadIdx.x + i * THREADS;
                i64 row = m0 + quad / (TILE_K / 4), k = k0 + quad % (TILE_K / 4) * 4;
                next_a[i] = load_or_zero(a + row * K + k, row < M && k < K);
            } else {
                next_a[i] = load_mn_major<TILE_M>(a, k0, K, m0, M, i);
            }
#pragma unroll
        for (int i = 0; i < LOADS_B; ++i)
            next_b[i] = load_mn_major<TILE_N>(b, k0, K, n0, N, i);
    };
    auto store = [&](Stage &stage) {
#pragma unroll
        for (int i = 0; i < LOADS_A; ++i) {
            int quad = threadIdx.x + i * THREADS;
            if (A_K_MAJOR) {
                int row = quad / (TILE_K / 4), k = quad % (TILE_K / 4) * 4;
                stage.a[k][row] = next_a[i].x;
                stage.a[k + 1][row] = next_a[i].y;
                stage.a[k + 2][row] = next_a[i].z;
                stage.a[k + 3][row] = next_a[i].w;
            } else {
                *(float4 *)&stage.a[quad / (TILE_M / 4)][quad % (TILE_M / 4) * 4] = next_a[i];
            }
        }
#pragma unroll
        for (int i = 0; i < LOADS_B; ++i) {
            int quad = threadIdx.x + i * THREADS;
            *(float4 *)&stage.b[quad / (TILE_N / 4)][quad % (TILE_N / 4) * 4] = next_b[i];
        }
    };

    float sums[PIECES_M * 4][PIECES_N * 4], totals[PIECES_M * 4][PIECES_N * 4];
#pragma unroll
    for (int i = 0; i < PIECES_M * 4; ++i)
#pragma unroll
        for (int j = 0; j < PIECES_N * 4; ++j)
            sums[i][j] = totals[i][j] = 0.0f;
    auto promote = [&]() {
#pragma unroll
        for (int i = 0; i < PIECES_M * 4; ++i)
#pragma unroll
            for (int j = 0; j < PIECES_N * 4; ++j) {
                totals[i][j] += sums[i][j];
                sums[i][j] = 0.0f;
            }
    };

    if (first_step < last_step) {
        load(first_step);
        store(stages[0]);
    }
    __syncthreads();
#pragma unroll 1
    for (i64 step = first_step; step < last_step; ++step) {
        const Stage &now = stages[(step - first_step) & 1];
        bool more = step + 1 < last_step;
        if (more)
            load(step + 1);
#pragma unroll
        for (int k = 0; k < TILE_K; ++k) {
            float4 rows[PIECES_M], columns[PIECES_N];
#pragma unroll
            for (int i = 0; i < PIECES_M; ++i)
                rows[i] = *(const float4 *)&now.a[k][i * 64 + ty * 4];
#pragma unroll
            for (int j = 0; j < PIECES_N; ++j)
                columns[j] = *(const float4 *)&now.b[k][j * 64 + tx * 4];
#pragma unroll
            for (int i = 0; i < PIECES_M; ++i) {
                const float x[4] = {rows[i].x, rows[i].y, rows[i].z, rows[i].w};
#pragma unroll
                for (int j = 0; j < PIECES_N; ++j) {
                    const float y[4] = {columns[j].x, columns[j].y, columns[j].z, columns[j].w};
#pragma unroll
                    for (int e = 0; e < 4; ++e)
#pragma unroll
                        for (int f = 0; f < 4; ++f)
                            sums[i * 4 + e][j * 4 + f] = fmaf(x[e], y[f], sums[i * 4 + e][j * 4 + f]);
                }
            }
        }
        if ((step - first_step + 1) % (PROMOTE / TILE_K) == 0)
            promote();
        if (more)
            store(stages[(step - first_step + 1) & 1]);
        __syncthreads();
    }
    promote();
    ${epilogue}
}
${split_reduction}
