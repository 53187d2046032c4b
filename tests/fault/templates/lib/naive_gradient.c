double exp(double);
double erfc(double);

static double derivative(double x, int erf_form) {
    if (erf_form)
        return 0.5 * erfc(-x * 0.70710678118654752) + x * exp(-0.5 * x * x) * 0.39894228040143268;
    double c = 0.79788456080286536, u = c * (x + 0.044715 * x * x * x), s = 1 / (1 + exp(-2 * u));
    return s + 2 * x * s * (1 - s) * c * (1 + 0.134145 * x * x);
}

void naive_gradient(void *const *args, unsigned t, unsigned y, unsigned z) {
    const float *grad_output = *(const float *const *)args[0], *weight2 = *(const float *const *)args[1];
    const float *intermediate = *(const float *const *)args[2];
    float *gradient = *(float *const *)args[3];
    long H = *(const long *)args[4], I = *(const long *)args[5];
    int erf_form = *(const int *)args[6];
    (void)y, (void)z;
    for (long i = 0; i < I; i++) {
        double sum = 0;
        for (long h = 0; h < H; h++)
            sum += (double)grad_output[t * H + h] * weight2[h * I + i];
        gradient[t * I + i] = (float)(sum * derivative(intermediate[t * I + i], erf_form));
    }
}
