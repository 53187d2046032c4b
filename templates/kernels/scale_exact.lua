return import("lib/scale.lua").kernel("scale_exact", "exact exponents, one more pass over the operands")
