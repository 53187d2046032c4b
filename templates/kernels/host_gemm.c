
void host_gemm(void *const *args, unsigned x, unsigned y, unsigned z) {
    (void)y, (void)z;
    i64 splits = *(const i64 *)args[9];
    const problem p = {.a = *(const float *const *)args[0],
                       .b = *(const float *const *)args[1],
                       .c = *(float *const *)args[splits > 1 ? 3 : 2],
                       .m = *(const i64 *)args[6],
                       .n = *(const i64 *)args[7],
                       .k = *(const i64 *)args[8],
                       .tile_n = *(const i64 *)args[10],
                       .add = splits > 1 ? 0 : *(const i32 *)args[11]};
    compute_tiles(&p, *(float *const *)args[4] + (i64)x * PANEL_FLOATS, *(i64 *const *)args[5], splits);
}

/* Ordered sum of the parts that the splits of K left, in double; one call a run of REDUCE_LENGTH elements. */
#define REDUCE_LENGTH ${reduce_length}
void host_gemm_reduce(void *const *args, unsigned x, unsigned y, unsigned z) {
    (void)y, (void)z;
    const float *parts = *(const float *const *)args[0];
    float *c = *(float *const *)args[1];
    i64 size = *(const i64 *)args[2], k = *(const i64 *)args[3];
    i64 chunk = split_length(k, *(const i64 *)args[4]), splits = (k + chunk - 1) / chunk;
    i32 add = *(const i32 *)args[5];
    i64 first = (i64)x * REDUCE_LENGTH, end = least(first + REDUCE_LENGTH, size);
    for (i64 i = first; i < end; i += HALF) {
        wide sum = {0};
        for (i64 s = 0; s < splits; s++) {
            sum += load_wide(parts + s * size + i);
        }
        if (add) {
            sum += load_wide(c + i);
        }
        store_wide(c + i, sum);
    }
}
