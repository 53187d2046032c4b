local operands = import "lib/operands.lua"
return import("lib/prepare.lua").check("check_all",
  "second conversion where a guessed exponent did not fit, fp32 to scaled 16-bit: all five operands",
  false, operands.all)
