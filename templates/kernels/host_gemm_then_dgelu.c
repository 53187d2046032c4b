
void host_gemm(void *const *args, unsigned x, unsigned y, unsigned z) {
    (void)y, (void)z;
    const problem p = {.a = *(const float *const *)args[0],
                       .b = *(const float *const *)args[1],
                       .c = *(float *const *)args[2],
                       .m = *(const i64 *)args[5],
                       .n = *(const i64 *)args[6],
                       .k = *(const i64 *)args[7],
                       .tile_n = *(const i64 *)args[8]};
    compute_tiles(&p, *(float *const *)args[3] + (i64)x * PANEL_FLOATS, *(i64 *const *)args[4], 1);
}

#define RUN_LENGTH ${run_length}
void host_dgelu(void *const *args, unsigned x, unsigned y, unsigned z) {
    (void)y, (void)z;
    i64 first = (i64)x * RUN_LENGTH, length = least(RUN_LENGTH, *(const i64 *)args[2] - first);
    dgelu_block(*(const i32 *)args[3], *(float *const *)args[0] + first, *(const float *const *)args[1] + first, 0, 1,
                length, (double *)0);
}
