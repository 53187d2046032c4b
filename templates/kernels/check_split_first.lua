local operands = import "lib/operands.lua"
return import("lib/prepare.lua").check("check_split_first",
  "second conversion where a guessed exponent did not fit, fp32 to scaled hi and lo in 64 x 64 blocks: what fc2_dgrad needs first",
  "split", operands.first)
