    if (blockIdx.y == ${index} && ${tensor}) {
        const int blocks = (int)(${blocks});
        float largest = 0.0f;
        for (int i = threadIdx.x; i < blocks; i += 256)
            largest = fmaxf(largest, ${tensor}_maxima[i]);
        largest = block_max(largest);
        const Scale scale = {${tensor}_scale->guess, __float_as_uint(largest), 0.0f, 0};
        if (blockIdx.x == 0 && threadIdx.x == 0)
            ${tensor}_scale->largest = scale.largest;
        const int exponent = exponent_in_force(&scale, LOWEST_INPUT);
        if (exponent != scale.guess) {
            const Factor factor = make_factor(exponent);
            for (i64 block = blockIdx.x; block < blocks; block += gridDim.x)
                ${share};
        }
    }
