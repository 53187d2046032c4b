local operands = import "lib/operands.lua"
return import("lib/prepare.lua").prepare("prepare_all",
  "scales guessed from samples; fp32 to scaled 16-bit: all five operands",
  false, operands.all, {})
