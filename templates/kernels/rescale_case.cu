    if (${tensor}) {
        const int exponent = exponent_in_force(${tensor}_scale, LOWEST_INPUT);
        if (exponent != ${tensor}_scale->guess) {
            const Factor factor = make_factor(exponent);
            for (i64 block = blockIdx.x; block < ${blocks}; block += gridDim.x)
                ${share};
        }
    }
