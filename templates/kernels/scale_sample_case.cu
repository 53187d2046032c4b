    if (blockIdx.x == ${index} && ${tensor})
        sample(${tensor}, ${elements}, ${tensor}_scale, ${partials}, ${blocks});
