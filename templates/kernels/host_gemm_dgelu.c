
/* column_sums may be NULL: grad_bias1 is not wanted. */
void host_gemm_dgelu(void *const *args, unsigned x, unsigned y, unsigned z) {
    (void)y, (void)z;
    const problem p = {.a = *(const float *const *)args[0],
                       .b = *(const float *const *)args[1],
                       .c = *(float *const *)args[2],
                       .input = *(const float *const *)args[3],
                       .column_sums = *(float *const *)args[4],
                       .m = *(const i64 *)args[7],
                       .n = *(const i64 *)args[8],
                       .k = *(const i64 *)args[9],
                       .tile_n = *(const i64 *)args[10],
                       .activation = *(const i32 *)args[11]};
    compute_tiles(&p, *(float *const *)args[5] + (i64)x * PANEL_FLOATS, *(i64 *const *)args[6], 1);
}
