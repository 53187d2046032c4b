return import("lib/convert.lua").convert("convert_split_first", "fp32 to hi and lo in fp16, 64 x 64 blocks: what fc2_dgrad needs first", import("lib/operands.lua").first, "split")
