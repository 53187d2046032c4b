/* Sums the split-K parts in their order: out = [out +] part 0 + part 1 + ... */
extern "C" __global__ void __launch_bounds__(256) split_reduce(const float4 *__restrict__ parts, float4 *out, i64 quads,
                                                               int split_k, int accumulate) {
    i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
    if (i >= quads)
        return;
    float4 sum = parts[i];
    for (int part = 1; part < split_k; ++part) {
        float4 next = parts[part * quads + i];
        sum.x += next.x;
        sum.y += next.y;
        sum.z += next.z;
        sum.w += next.w;
    }
    if (accumulate) {
        float4 old = out[i];
        sum.x += old.x;
        sum.y += old.y;
        sum.z += old.z;
        sum.w += old.w;
    }
    out[i] = sum;
}
