/* Block index -> tile: group_m rows of tiles are walked column by column, so that blocks running together share
 * operands in L2. */
__device__ __forceinline__ void raster(i64 index, i64 group_m, i64 tiles_m, i64 tiles_n, i64 &tile_m, i64 &tile_n) {
    i64 group = index / (group_m * tiles_n), first = group * group_m;
    i64 height = tiles_m - first < group_m ? tiles_m - first : group_m;
    i64 inside = index - group * group_m * tiles_n;
    tile_m = first + inside % height;
    tile_n = inside / height;
}

/* blockIdx.y's share of the K steps; a late part may be empty and then writes zeros */
__device__ __forceinline__ void split_range(i64 steps, int split_k, i64 &first, i64 &last) {
    const i64 part = ceil_div(steps, split_k);
    first = min(blockIdx.y * part, steps);
    last = min(first + part, steps);
}
