    {
        const i64 blocks = ${blocks};
        if (block < blocks) {
            if (${tensor}) {
                const Factor factor = make_factor(sample<256, 4>(${tensor}, ${elements}, block == 0 ? ${tensor}_scale : nullptr));
                const float largest = block_max(${share});
                if (threadIdx.x == 0)
                    ${tensor}_maxima[block] = largest;
            }
            return;
        }
        block -= blocks;
    }
