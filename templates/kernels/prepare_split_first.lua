local operands = import "lib/operands.lua"
return import("lib/prepare.lua").prepare("prepare_split_first",
  "scales guessed from samples; fp32 to scaled hi and lo in 64 x 64 blocks: what fc2_dgrad needs first",
  "split", operands.first, operands.rest)
