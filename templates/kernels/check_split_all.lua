local operands = import "lib/operands.lua"
return import("lib/prepare.lua").check("check_split_all",
  "second conversion where a guessed exponent did not fit, fp32 to scaled hi and lo in 64 x 64 blocks: all five operands",
  "split", operands.all)
