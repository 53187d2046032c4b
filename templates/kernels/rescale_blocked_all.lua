return import("lib/convert.lua").rescale("rescale_blocked_all", "second conversion in 64 x 64 blocks where a guessed exponent did not fit: all five operands", import("lib/operands.lua").all, true)
