local operands = import "lib/operands.lua"
return import("lib/prepare.lua").prepare("prepare_blocked_first",
  "scales guessed from samples; fp32 to scaled 16-bit in 64 x 64 blocks: what fc2_dgrad needs first",
  true, operands.first, operands.rest)
