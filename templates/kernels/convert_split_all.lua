return import("lib/convert.lua").convert("convert_split_all", "fp32 to hi and lo in fp16, 64 x 64 blocks: all five operands", import("lib/operands.lua").all, "split")
