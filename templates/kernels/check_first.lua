local operands = import "lib/operands.lua"
return import("lib/prepare.lua").check("check_first",
  "second conversion where a guessed exponent did not fit, fp32 to scaled 16-bit: what fc2_dgrad needs first",
  false, operands.first)
