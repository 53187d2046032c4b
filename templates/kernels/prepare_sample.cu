    if (block == ${index} && ${tensor})
        sample<256, 4>(${tensor}, ${elements}, ${tensor}_scale);
