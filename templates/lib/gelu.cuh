/* gelu'(x). ACTIVATION 0, tanh form: with u = c(x + 0.044715 x^3), c = sqrt(2/pi), z = exp(-2|u|), r = 1/(1+z):
 * (1+tanh u)/2 = r or z*r by the sign of u, 1-tanh^2 u = 4 z r^2. ACTIVATION 1, erf form: Phi(x) + x phi(x).
 * |x| is cut at 20, where float64 gives exactly 0 or 1; +-Inf and NaN give NaN, as Inf*0 does in float64. */
template <int FORM> struct Form {
    static constexpr int value = FORM;
};

template <int ACTIVATION> __device__ __forceinline__ float gelu_derivative(float x) {
    const float v = fminf(fmaxf(x, -20.0f), 20.0f), square = v * v;
    float result;
    if constexpr (ACTIVATION == 0) {
        constexpr float c = 0.7978845608028654f, cubic = 0.044715f, log2e = 1.4426950408889634f;
        const float z = exp2_approx(fmaf(square, -2.0f * log2e * c * cubic, -2.0f * log2e * c) * fabsf(v));
        const float r = reciprocal_approx(1.0f + z), zr = z * r;
        const float twice_x_slope = fmaf(square, 6.0f * c * cubic, 2.0f * c) * v;
        result = fmaf(twice_x_slope * zr, r, v >= 0.0f ? r : zr);
    } else {
        const float density = 0.3989422804014327f * exp2_approx(-0.7213475204444817f * square);
        result = fmaf(v, density, 0.5f * erfcf(-0.7071067811865476f * v));
    }
    return fmaf(x, 0.0f, result); /* adds 0, or NaN for +-Inf and NaN */
}

/* For kernels whose products are rounded to 16 bits: the tanh form in fewer instructions, r = 1/(1+exp(-2u)) and
 * 1-tanh^2 = 4 r (1-r), which loses up to 2e-6 where gelu' is about 1. Past |x| = 20 the cut square keeps the other
 * factor of x at 0, hence 0, 1 or NaN as above. */
template <int ACTIVATION> __device__ __forceinline__ float gelu_derivative_16(float x) {
    if constexpr (ACTIVATION == 0) {
        constexpr float c = 0.7978845608028654f, cubic = 0.044715f, log2e = 1.4426950408889634f;
        const float square = fminf(x * x, 400.0f);
        const float r = reciprocal_approx(1.0f + exp2_approx(fmaf(square, -2.0f * log2e * c * cubic, -2.0f * log2e * c) * x));
        return fmaf(fmaf(square, 6.0f * c * cubic, 2.0f * c) * fmaf(-r, r, r), x, r);
    } else {
        return gelu_derivative<ACTIVATION>(x);
    }
}
