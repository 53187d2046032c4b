return import("lib/convert.lua").convert("convert_split_rest", "fp32 to hi and lo in fp16, 64 x 64 blocks: what later GEMMs need", import("lib/operands.lua").rest, "split")
