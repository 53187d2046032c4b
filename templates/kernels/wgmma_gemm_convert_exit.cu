if (attempt == 1) { /* nearly always there is nothing to do */
        const Scale *const scales[] = {a ? scale_out : nullptr, ${scales}};
        Scale seen[sizeof scales / sizeof *scales];
        load_scales(scales, seen, attempt);
        const bool again = guess_missed(&seen[0], LOWEST_INTERMEDIATE);
        bool any = again;
#pragma unroll
        for (int i = 1; i < sizeof scales / sizeof *scales; ++i)
            any |= guess_missed(&seen[i], LOWEST_INPUT);
        if (!any)
            return;
        work_count = again ? work_count : 0;
    }
    if (!a) /* nobody wants the product, only conversions */
        work_count = 0;