/* Conversion of whole tensors to scaled 16-bit copies in 64 x 64 blocks (convert_blocked.cuh has the format) by single
 * warps beside other work. A warp streams pieces of 64 rows x 128 columns: rows arrive by cp.async in a ring of its own,
 * each lane reading back what it fetched itself, so that few registers keep memory busy; four rows a step. */
struct Conversion {
    const float *source;
    char *target;
    Scale *scale; /* whose largest magnitude is collected, or NULL */
    Factor factor;
    int rows, columns, strips, pieces; /* pieces: of this tensor and those before it */
};

/* The exponents of some scales, side by side, not one latency after the other; the largest magnitudes only of attempt 1: in
 * attempt 0 they are being collected. NULL reads as a scale whose guess fits. */
template <int COUNT>
__device__ __forceinline__ void load_scales(const Scale *const (&from)[COUNT], Scale (&to)[COUNT], int attempt) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        to[i].guess = from[i] ? from[i]->guess : 0;
        to[i].largest = from[i] && attempt == 1 ? from[i]->largest : 0;
    }
}

/* seen: what `scale` holds. attempt 0: with the guessed exponent; 1: with the exact one, what the guess missed */
__device__ __forceinline__ void set_conversion(Conversion &to, const float *source, u16 *target, Scale *scale, const Scale &seen, int rows,
                                               int columns, int attempt, int &pieces) {
    const int strips = (columns + 127) / 128;
    if (source && (attempt == 0 || guess_missed(&seen, LOWEST_INPUT)))
        pieces += (rows + 63) / 64 * strips;
    const int exponent = attempt == 0 ? seen.guess : exponent_in_force(&seen, LOWEST_INPUT);
    to = {source, (char *)target, attempt == 0 ? scale : nullptr, make_factor(exponent), rows, columns, strips, pieces};
}

/* piece -> its tensor, and its number among that tensor's */
template <int TENSORS> __device__ __forceinline__ const Conversion &find_conversion(const Conversion (&list)[TENSORS], int &piece) {
    int tensor = 0;
    while (tensor + 1 < TENSORS && piece >= list[tensor].pieces)
        ++tensor;
    if (tensor > 0)
        piece -= list[tensor - 1].pieces;
    return list[tensor];
}

/* warp of warps; ring: FLIGHT rows of 512 bytes in shared memory, 16-byte aligned, at an offset from `shared` */
template <int FLIGHT, int TENSORS>
__device__ __forceinline__ void convert_beside(const Conversion (&list)[TENSORS], int warp, int warps, unsigned char *shared, u32 ring) {
    constexpr int STEP = 4, STEPS = FLIGHT / STEP; /* rows a step, steps the ring holds */
    const u32 lane = threadIdx.x % 32;
    const int pieces = list[TENSORS - 1].pieces;
    const u32 slots = ring + lane * 16;
    const float *from = nullptr;
    int inside = 0, columns = 0, fetched = warp; /* of the piece being fetched: rows left that the lane reads, pitch, number */
    u32 fetched_row = 0;
    auto fetch = [&]() {
        if (fetched < pieces) {
            if (fetched_row == 0) {
                int piece = fetched;
                const Conversion &of = find_conversion(list, piece);
                const int first = piece / of.strips * 64, column = piece % of.strips * 128 + (int)lane * 4;
                columns = of.columns;
                inside = column < columns ? of.rows - first : 0;
                from = of.source + ((i64)first * columns + column);
            }
#pragma unroll
            for (int i = 0; i < STEP; ++i) {
                cp_async_16(shared_address(shared) + slots + fetched_row % FLIGHT * 512 + i * 512, from, i < inside ? 16 : 0);
                from += columns;
            }
            inside -= STEP;
            fetched_row += STEP;
            if (fetched_row == 64) {
                fetched_row = 0;
                fetched += warps;
            }
        }
        cp_async_commit();
    };
#pragma unroll 1
    for (int i = 0; i < STEPS - 1; ++i)
        fetch();
#pragma unroll 1
    for (int done = warp; done < pieces; done += warps) {
        int piece = done;
        const Conversion &of = find_conversion(list, piece);
        const int block_row = piece / of.strips, column = piece % of.strips * 128 + (int)lane * 4;
        const bool write = column < of.columns;
        char *to = of.target + ((i64)block_row * (of.columns / 64) + column / 64) * 8192 + column % 8 * 2;
        u32 chunk = column % 64 / 8 << 4; /* 16-byte chunk, XORed with row % 8 */
        const Factor factor = of.factor;
        float largest = 0.0f;
#pragma unroll 1
        for (u32 row = 0; row < 64; row += STEP) {
            fetch();
            cp_async_wait<STEPS - 1>();
            float4 x[STEP];
#pragma unroll
            for (int i = 0; i < STEP; ++i)
                x[i] = *(const float4 *)(shared + slots + row % FLIGHT * 512 + i * 512);
#pragma unroll
            for (int i = 0; i < STEP; ++i) {
                const uint2 packed = {${pack}(apply(x[i].x, factor), apply(x[i].y, factor)), ${pack}(apply(x[i].z, factor), apply(x[i].w, factor))};
                largest = max_finite_abs(max_finite_abs(max_finite_abs(max_finite_abs(largest, x[i].x), x[i].y), x[i].z), x[i].w);
                if (write)
                    *(uint2 *)(to + (chunk ^ i << 4) + i * 128) = packed;
            }
            chunk ^= STEP << 4;
            to += STEP * 128;
        }
        largest = warp_max(largest);
        if (lane == 0 && largest > 0.0f && of.scale)
            atomicMax(&of.scale->largest, __float_as_uint(largest));
    }
}
