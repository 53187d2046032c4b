local operands = import "lib/operands.lua"
return import("lib/prepare.lua").prepare("prepare_first",
  "scales guessed from samples; fp32 to scaled 16-bit: what fc2_dgrad needs first",
  false, operands.first, operands.rest)
