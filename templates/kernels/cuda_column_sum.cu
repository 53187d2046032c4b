${base}
/* Column sums of grad_output over blocks of 64 tokens; 128 columns a block. */
extern "C" __global__ void __launch_bounds__(128)
    column_sum(const float *__restrict__ grad_output, float *column_partials, int tokens, int hidden_size) {
    const i64 column = (i64)blockIdx.y * 128 + threadIdx.x, first = (i64)blockIdx.x * 64;
    if (column >= hidden_size)
        return;
    float sums[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < 64; ++i)
        if (first + i < tokens)
            sums[i % 8] += grad_output[(first + i) * hidden_size + column];
    column_partials[blockIdx.x * (i64)hidden_size + column] =
        ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}
