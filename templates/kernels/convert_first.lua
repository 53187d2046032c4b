return import("lib/convert.lua").convert("convert_first", "fp32 to scaled 16-bit: what fc2_dgrad needs first", import("lib/operands.lua").first)
