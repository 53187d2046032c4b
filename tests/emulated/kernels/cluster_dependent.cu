/* A launch and the one that depends on it: the second may start before the first has ended. */
extern "C" __global__ void first(float *between, const float *in) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    dependency_launch();
    between[i] = in[i] * 2;
}

extern "C" __global__ void second(float *out, const float *between, const float *factor) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    float f = factor[0]; /* of nobody's making: may be read before */
    ${wait}
    out[i] = between[i] + f;
}

/* One thread waits; the others learn of it at a barrier. */
extern "C" __global__ void second_by_one(float *out, const float *between, const float *factor) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0)
        dependency_wait();
    __syncthreads();
    out[i] = between[i] + factor[0];
}
