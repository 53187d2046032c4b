int pieces = 0;
        const Scale *const scales[] = {${scales}};
        Scale seen[sizeof scales / sizeof *scales];
        load_scales(scales, seen, attempt);
