return import("lib/scale.lua").kernel("scale_sample", "exponents guessed from up to 32768 elements a tensor (rescale mends a miss)", false)
