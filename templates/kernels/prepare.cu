${base}
${ptx}
${scale}
${sample}
${convert}
/* Every block takes one piece of one tensor, each of the last ones the sample of a tensor that is converted later; a tensor
 * that is not wanted is NULL. */
extern "C" __global__ void __launch_bounds__(256)
    prepare(${parameters}Scale *grad_intermediate_scale, float *column_partials, int tokens, int hidden_size,
            int intermediate_size) {
    i64 block = blockIdx.x;
    if (block == 0 && threadIdx.x == 0 && grad_intermediate_scale)
        *grad_intermediate_scale = {0, 0, 0.0f, 0};
${cases}${samples}}
