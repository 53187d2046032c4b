${base}
${ptx}
${scale}
${convert}
/* Every block takes one piece of one tensor; a tensor that is not wanted is NULL. */
extern "C" __global__ void __launch_bounds__(256) convert(${parameters}int tokens, int hidden_size, int intermediate_size) {
    i64 block = blockIdx.x;
    (void)intermediate_size;
${cases}}
