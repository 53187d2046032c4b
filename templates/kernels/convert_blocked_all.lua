return import("lib/convert.lua").convert("convert_blocked_all", "fp32 to scaled 16-bit in 64 x 64 blocks: all five operands", import("lib/operands.lua").all, true)
