const int exponent = attempt == 0 ? guess_intermediate(scale_a, scale_b, K) : exponent_in_force(scale_out, LOWEST_INTERMEDIATE);
        barriers.rescale = power_of_two(min(max(exponent - exponent_ab, -126), 127));
        barriers.guess = exponent;
