return import("lib/convert.lua").convert("convert_blocked_first", "fp32 to scaled 16-bit in 64 x 64 blocks: what fc2_dgrad needs first", import("lib/operands.lua").first, true)
