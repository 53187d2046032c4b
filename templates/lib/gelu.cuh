/* gelu'(x). ACTIVATION 0, tanh form: with u = c(x + 0.044715 x^3), c = sqrt(2/pi), z = exp(-2|u|), r = 1/(1+z):
 * (1+tanh u)/2 = r or z*r by the sign of u, 1-tanh^2 u = 4 z r^2. ACTIVATION 1, erf form: Phi(x) + x phi(x).
 * |x| is cut at 20, where float64 gives exactly 0 or 1; +-Inf and NaN give NaN, as Inf*0 does in float64. */
template <int FORM> struct Form {
    static constexpr int value = FORM;
};

template <int ACTIVATION> __device__ __forceinline__ float gelu_derivative(float x) {
    float v = fminf(fmaxf(x, -20.0f), 20.0f);
    float result;
    if constexpr (ACTIVATION == 0) {
        const float c = 0.7978845608028654f, log2e = 1.4426950408889634f;
        float square = v * v;
        float u = c * v * fmaf(0.044715f, square, 1.0f);
        float slope = c * fmaf(3.0f * 0.044715f, square, 1.0f);
        float z = exp2_approx(-2.0f * log2e * fabsf(u));
        float r = reciprocal_approx(1.0f + z);
        result = (u >= 0.0f ? r : z * r) + 2.0f * v * slope * z * r * r;
    } else {
        float density = 0.3989422804014327f * exp2_approx(-0.7213475204444817f * v * v);
        result = 0.5f * erfcf(-0.7071067811865476f * v) + v * density;
    }
    return fabsf(x) <= FLOAT_MAX ? result : __int_as_float(0x7fc00000);
}
