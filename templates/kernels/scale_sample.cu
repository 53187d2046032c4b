${base}
${ptx}
${scale}
${sample}
extern "C" __global__ void __launch_bounds__(1024) scale(${parameters}Scale *grad_intermediate_scale, int tokens,
                                                          int hidden_size, int intermediate_size) {
    if (blockIdx.x == 0 && threadIdx.x == 0 && grad_intermediate_scale)
        *grad_intermediate_scale = {0, 0, 0.0f, 0};
${cases}}
