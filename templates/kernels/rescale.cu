${base}
${ptx}
${scale}
${convert}
/* Converts again, with the exact exponent, what the guessed one did not fit; nearly always there is nothing to do. */
extern "C" __global__ void __launch_bounds__(256) rescale(${parameters}int tokens, int hidden_size, int intermediate_size) {
    (void)tokens;
    (void)intermediate_size;
${cases}}
