/* Words of global memory between blocks that are no cluster. chain: every block waits for the one before, adds to its
 * value and passes it on. gather: the last to come adds up what all have written. */
extern "C" __global__ void chain(u32 *values, u32 *flags) {
    if (threadIdx.x != 0)
        return;
    u32 before = 1;
    if (blockIdx.x > 0) {
        while (load_acquire(&flags[blockIdx.x - 1]) == 0)
            ;
        before = values[blockIdx.x - 1];
    }
    values[blockIdx.x] = before * 3;
    store_release(&flags[blockIdx.x], 1);
}

extern "C" __global__ void gather(u32 *parts, u32 *counter, u32 *sum) {
    __shared__ u32 before;
    parts[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x + threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0)
        before = ${count};
    __syncthreads();
    if (before + 1 < gridDim.x)
        return;
    u32 total = 0;
    for (u32 i = 0; i < gridDim.x; i++)
        total += parts[i * blockDim.x + threadIdx.x];
    sum[threadIdx.x] = total;
}

/* Two blocks and one word, without any order. */
extern "C" __global__ void race(u32 *word) {
    if (threadIdx.x == 0)
        *word = blockIdx.x;
}

/* Waits for the block behind it. */
extern "C" __global__ void backwards(u32 *flags) {
    if (threadIdx.x != 0)
        return;
    if (blockIdx.x + 1 < gridDim.x)
        while (load_acquire(&flags[blockIdx.x + 1]) == 0)
            ;
    store_release(&flags[blockIdx.x], 1);
}
