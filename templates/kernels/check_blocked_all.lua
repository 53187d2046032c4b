local operands = import "lib/operands.lua"
return import("lib/prepare.lua").check("check_blocked_all",
  "second conversion where a guessed exponent did not fit, fp32 to scaled 16-bit in 64 x 64 blocks: all five operands",
  true, operands.all)
