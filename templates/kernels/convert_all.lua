return import("lib/convert.lua").convert("convert_all", "fp32 to scaled 16-bit: all five operands", import("lib/operands.lua").all)
