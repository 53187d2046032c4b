    if (blockIdx.y == ${index} && ${tensor})
        measure(${tensor}, ${elements}, ${tensor}_partials);
