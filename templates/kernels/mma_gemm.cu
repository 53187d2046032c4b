${base}
${ptx}
${raster}
${scale}
${gelu}
/* C[M,N] = A * B on mma.sync.m16n8k16, 16-bit operands, fp32 sums. A is stored [M,K] (K-major) or [K,M] (MN-major),
 * B always [K,N]; neither is transposed in memory: ldmatrix.trans does it. Shared-memory rows are cut into 16-byte
 * chunks whose index is XORed with the row, so that the eight rows of an ldmatrix hit different banks. */
constexpr int TILE_M = ${tile_m}, TILE_N = ${tile_n}, TILE_K = ${tile_k}, STAGES = ${stages};
constexpr int WARP_M = 64, WARP_N = ${warp_n}, WARPS_N = TILE_N / WARP_N, THREADS = ${threads};
constexpr bool A_K_MAJOR = ${a_k_major};
constexpr int K_STEPS = TILE_K / 16, FRAGMENTS_M = WARP_M / 16, FRAGMENTS_N = WARP_N / 8;

/* One operand tile of ROWS x COLUMNS 16-bit elements, columns contiguous in memory. */
template <int ROWS, int COLUMNS> struct Tile {
    static constexpr int CHUNKS = COLUMNS / 8, ROW_STEP = THREADS / CHUNKS, PASSES = ROWS / ROW_STEP;
    static constexpr int PITCH = COLUMNS * 2, BYTES = ROWS * PITCH;
    static_assert(ROW_STEP % 8 == 0 && PASSES * ROW_STEP == ROWS, "a thread keeps its swizzle from pass to pass");
    static __device__ __forceinline__ u32 swizzle(u32 row) {
        return CHUNKS >= 8 ? row & 7 : (row >> 1) & 3;
    }
    const char *source;
    i64 pass_bytes;
    u32 target;
    int row;
    bool column_inside;
    /* origin: the tile's first element; leading: elements from row to row; columns: how many exist from the origin on */
    __device__ __forceinline__ void start(const u16 *origin, i64 leading, i64 columns) {
        int chunk = threadIdx.x % CHUNKS;
        row = threadIdx.x / CHUNKS;
        source = (const char *)(origin + row * leading + chunk * 8);
        pass_bytes = (i64)ROW_STEP * leading * 2;
        target = row * PITCH + ((chunk ^ swizzle(row)) << 4);
        column_inside = chunk * 8 < columns;
    }
    /* The part-th of `parts` shares of the copies. rows: how many exist from the tile's first row on; what lies outside
     * is filled with zeros. */
    __device__ __forceinline__ void load(u32 shared, i64 rows, int part, int parts) const {
#pragma unroll
        for (int pass = PASSES * part / parts; pass < PASSES * (part + 1) / parts; ++pass) {
            bool inside = column_inside && row + pass * ROW_STEP < rows;
            cp_async_16(shared + target + pass * ROW_STEP * PITCH, source + pass * pass_bytes, inside ? 16 : 0);
        }
    }
};
typedef Tile<A_K_MAJOR ? TILE_M : TILE_K, A_K_MAJOR ? TILE_K : TILE_M> TileA;
typedef Tile<TILE_K, TILE_N> TileB;
constexpr int STAGE_BYTES = TileA::BYTES + TileB::BYTES;

struct Fragments {
    u32 a[FRAGMENTS_M][4];
    u32 b[FRAGMENTS_N / 2][4];
};

/* Where this lane's ldmatrix rows are inside a stage; the XORs walk the swizzled chunks. */
struct FragmentSource {
    u32 a, b;
    __device__ __forceinline__ void start(int warp_m, int warp_n, int lane) {
        int row = lane & 7;
        if (A_K_MAJOR) {
            int m = warp_m * WARP_M + (lane & 15);
            a = m * TileA::PITCH + (((lane >> 4) ^ TileA::swizzle(m)) << 4);
        } else {
            a = (row + ((lane >> 4) << 3)) * TileA::PITCH + (((warp_m * WARP_M / 8) ^ ((lane >> 3) & 1) ^ row) << 4);
        }
        b = TileA::BYTES + (row + (((lane >> 3) & 1) << 3)) * TileB::PITCH +
            (((warp_n * WARP_N / 8) ^ (lane >> 4) ^ row) << 4);
    }
    __device__ __forceinline__ void load(Fragments &fragments, u32 stage, int step) const {
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i) {
            if (A_K_MAJOR)
                ldmatrix_x4(fragments.a[i], stage + ((a + i * 16 * TileA::PITCH) ^ (step << 5)));
            else
                ldmatrix_x4_trans(fragments.a[i], stage + ((a + step * 16 * TileA::PITCH) ^ (i << 5)));
        }
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N / 2; ++j)
            ldmatrix_x4_trans(fragments.b[j], stage + ((b + step * 16 * TileB::PITCH) ^ (j << 5)));
    }
};

extern __shared__ __align__(1024) unsigned char shared_memory[];

extern "C" __global__ void __launch_bounds__(THREADS, ${blocks_per_sm})
    mma_gemm(const u16 *__restrict__ a, const u16 *__restrict__ b, const Scale *scale_a,
             const Scale *scale_b, ${epilogue_parameters} int tokens, int hidden_size, int intermediate_size, int option,
             int group_m, int split_k) {
    const i64 M = ${m}, N = ${n}, K = ${k};
    ${early_exit}
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warp_m = warp / WARPS_N, warp_n = warp % WARPS_N;
    i64 tile_m, tile_n;
    raster<i64>(blockIdx.x, group_m, ceil_div(M, TILE_M), ceil_div(N, TILE_N), tile_m, tile_n);
    const i64 m0 = tile_m * TILE_M, n0 = tile_n * TILE_N;
    i64 first_step, last_step;
    split_range(ceil_div(K, TILE_K), split_k, first_step, last_step);
    const int steps = (int)(last_step - first_step);
    const i64 k0 = first_step * TILE_K;

    TileA tile_a;
    TileB tile_b;
    if (A_K_MAJOR)
        tile_a.start(a + m0 * K + k0, K, K - k0);
    else
        tile_a.start(a + k0 * M + m0, M, M - m0);
    tile_b.start(b + k0 * N + n0, N, N - n0);
    const i64 advance_a = (A_K_MAJOR ? (i64)TILE_K : (i64)TILE_K * M) * 2, advance_b = (i64)TILE_K * N * 2;
    const u32 shared = shared_address(shared_memory);
    i64 k_left = K - k0; /* from the next tile to load on */
    auto load = [&](int stage, int part, int parts) {
        tile_a.load(shared + stage * STAGE_BYTES, A_K_MAJOR ? M - m0 : k_left, part, parts);
        tile_b.load(shared + stage * STAGE_BYTES + TileA::BYTES, k_left, part, parts);
    };
    auto advance = [&]() {
        tile_a.source += advance_a;
        tile_b.source += advance_b;
        k_left -= TILE_K;
    };

#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < steps) {
            load(stage, 0, 1);
            advance();
        }
        cp_async_commit();
    }
    ${prefetch}
    float sums[FRAGMENTS_M][FRAGMENTS_N][4];
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                sums[i][j][e] = 0.0f;

    FragmentSource fragment_source;
    fragment_source.start(warp_m, warp_n, lane);
    Fragments fragments[2];
    int read_stage = 0, write_stage = STAGES - 1;
    cp_async_wait<STAGES - 2>();
    __syncthreads();
    if (steps > 0)
        fragment_source.load(fragments[0], shared, 0);
#pragma unroll 1
    for (int kt = 0; kt < steps; ++kt) {
        bool more = kt + STAGES - 1 < steps;
#pragma unroll
        for (int step = 0; step < K_STEPS; ++step) {
            if (step == K_STEPS - 1) { /* the next stage must have arrived, and everybody is done with the previous one */
                cp_async_wait<STAGES - 2>();
                __syncthreads();
                read_stage = read_stage + 1 == STAGES ? 0 : read_stage + 1;
            }
            fragment_source.load(fragments[(step + 1) & 1], shared + read_stage * STAGE_BYTES, (step + 1) % K_STEPS);
            if (step < K_STEPS - 1 && more) /* copies spread over the steps: a burst delays the ldmatrix */
                load(write_stage, step, K_STEPS - 1);
            if (step == K_STEPS - 2) {
                if (more)
                    advance();
                cp_async_commit();
                write_stage = write_stage + 1 == STAGES ? 0 : write_stage + 1;
            }
            const Fragments &now = fragments[step & 1];
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j)
                    ${mma}(sums[i][j], now.a[i], now.b[j / 2][(j & 1) * 2], now.b[j / 2][(j & 1) * 2 + 1]);
        }
    }
    cp_async_wait<0>();
    __syncthreads();

    const Factor unscale = make_factor(-(exponent_in_force(scale_a, ${lowest_a}) + exponent_in_force(scale_b, LOWEST_INPUT)));
    ${epilogue}
}
${split_reduction}
