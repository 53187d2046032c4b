/* Block index -> tile: group_m rows of tiles are walked column by column, so that blocks running together share
 * operands in L2. */
template <class INT>
__device__ __forceinline__ void raster(INT index, INT group_m, INT tiles_m, INT tiles_n, INT &tile_m, INT &tile_n) {
    const INT group = index / (group_m * tiles_n), first = group * group_m;
    const INT height = tiles_m - first < group_m ? tiles_m - first : group_m;
    const INT inside = index - group * group_m * tiles_n;
    tile_m = first + inside % height;
    tile_n = inside / height;
}

/* blockIdx.y's share of the K steps; a late part may be empty and then writes zeros */
__device__ __forceinline__ void split_range(i64 steps, int split_k, i64 &first, i64 &last) {
    const i64 part = ceil_div(steps, split_k);
    first = min(blockIdx.y * part, steps);
    last = min(first + part, steps);
}
