return import("lib/convert.lua").convert("convert_blocked_rest", "fp32 to scaled 16-bit in 64 x 64 blocks: what later GEMMs need", import("lib/operands.lua").rest, true)
