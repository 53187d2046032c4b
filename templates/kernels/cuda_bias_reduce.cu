${base}
/* bias[c] = [bias[c] +] sum over r of partials[r][c], in float64 and in a fixed order. A block takes 32 columns of one
 * of the two gradients; a gradient that is not wanted is NULL. */
__device__ __forceinline__ void reduce_columns(const float *partials, float *bias, i64 rows, i64 columns, i64 strip,
                                               int accumulate) {
    __shared__ double sums[${groups}][32];
    const i64 column = strip * 32 + threadIdx.x % 32;
    const int group = threadIdx.x / 32;
    double sum = 0.0;
    if (column < columns)
        for (i64 row = group; row < rows; row += ${groups})
            sum += partials[row * columns + column];
    sums[group][threadIdx.x % 32] = sum;
    __syncthreads();
    if (group == 0 && column < columns) {
        for (int i = 1; i < ${groups}; ++i)
            sum += sums[i][threadIdx.x];
        bias[column] = accumulate ? (float)(bias[column] + sum) : (float)sum;
    }
}

extern "C" __global__ void __launch_bounds__(${threads})
    bias_reduce(const float *partials1, float *grad_bias1, const float *partials2, float *grad_bias2, int tokens,
                int hidden_size, int intermediate_size, int accumulate) {
    const i64 rows = ceil_div(tokens, 64), strips1 = ceil_div(intermediate_size, 32);
    if (blockIdx.x < strips1) {
        if (grad_bias1)
            reduce_columns(partials1, grad_bias1, rows, intermediate_size, blockIdx.x, accumulate);
    } else if (grad_bias2) {
        reduce_columns(partials2, grad_bias2, rows, hidden_size, blockIdx.x - strips1, accumulate);
    }
}
