
/* sums[columns] (+)= the column sums of rows x columns values, in double; one call a run of RUN_COLUMNS columns. */
#define RUN_COLUMNS ${run_columns}
void host_column_sums(void *const *args, unsigned x, unsigned y, unsigned z) {
    (void)y, (void)z;
    const float *values = *(const float *const *)args[0];
    float *sums = *(float *const *)args[1];
    i64 rows = *(const i64 *)args[2], columns = *(const i64 *)args[3];
    i32 add = *(const i32 *)args[4];
    i64 first = (i64)x * RUN_COLUMNS, length = least(RUN_COLUMNS, columns - first);
    wide total[RUN_COLUMNS / HALF] = {{0}};
    for (i64 i = 0; i < rows; i++) {
        const float *line = values + i * columns + first;
        for (i64 j = 0; j < length; j += HALF) {
            total[j / HALF] += load_wide(line + j);
        }
    }
    for (i64 j = 0; j < length; j += HALF) {
        float *to = sums + first + j;
        if (add) {
            total[j / HALF] += load_wide(to);
        }
        store_wide(to, total[j / HALF]);
    }
}
