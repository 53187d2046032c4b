return import("lib/convert.lua").convert("convert_all", "fp32 to scaled 16-bit: all five operands", { "grad_output", "weight2", "intermediate_activated", "weight1", "hidden_states" })
