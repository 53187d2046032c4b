return import("lib/convert.lua").rescale("rescale_all", "second conversion where a guessed exponent did not fit: all five operands", import("lib/operands.lua").all)
