    {
        const i64 blocks = ${blocks};
        if (block < blocks) {
            if (${tensor}) {
                const Factor factor = make_factor(${tensor}_scale->guess);
                float largest = block_max(${share});
                if (threadIdx.x == 0 && largest > 0.0f)
                    atomicMax(&${tensor}_scale->largest, __float_as_uint(largest));
            }
            return;
        }
        block -= blocks;
    }
