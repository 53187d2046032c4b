    if (blockIdx.x == ${index} && ${tensor})
        sample<1024, 8>(${tensor}, ${elements}, ${tensor}_scale, ${tensor}_partials, blocks);
