return import("lib/convert.lua").convert("convert_rest", "fp32 to scaled 16-bit: what later GEMMs need", import("lib/operands.lua").rest)
