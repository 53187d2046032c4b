/* One row of one of the three matrices a task. FAULT_... are planted by planted_rest.lua. */
void naive_rest(void *const *args, unsigned x, unsigned y, unsigned z) {
    const float *gradient = *(const float *const *)args[0], *grad_output = *(const float *const *)args[1];
    const float *hidden_states = *(const float *const *)args[2], *weight1 = *(const float *const *)args[3];
    const float *activated = *(const float *const *)args[4];
    float *grad_hidden_states = *(float *const *)args[5], *grad_weight1 = *(float *const *)args[6];
    float *grad_bias1 = *(float *const *)args[7], *grad_weight2 = *(float *const *)args[8];
    float *grad_bias2 = *(float *const *)args[9];
    long T = *(const long *)args[10], H = *(const long *)args[11], I = *(const long *)args[12], row = x;
    int add = *(const int *)args[13];
    (void)y, (void)z;
    ${fault}
    if (row < T) {
        for (long h = 0; h < H; h++) {
            double sum = 0;
            for (long i = 0; i < I; i++)
                sum += (double)gradient[row * I + i] * weight1[i * H + h];
            grad_hidden_states[row * H + h] = (float)sum;
        }
        return;
    }
    row -= T;
    int first = row < I;
    row -= first ? 0 : I;
    const float *left = first ? gradient : grad_output, *right = first ? hidden_states : activated;
    float *out = first ? grad_weight1 : grad_weight2, *bias = first ? grad_bias1 : grad_bias2;
    long rows = first ? I : H, columns = first ? H : I;
    double total = add ? bias[row] : 0;
    for (long t = 0; t < T; t++)
        total += left[t * rows + row];
    bias[row] = (float)total;
    for (long c = 0; c < columns; c++) {
        double sum = add ? out[row * columns + c] : 0;
        for (long t = 0; t < T; t++)
            sum += (double)left[t * rows + row] * right[t * columns + c];
        out[row * columns + c] = (float)sum;
    }
}
