return import("lib/convert.lua").rescale("rescale_split_all", "second conversion to hi and lo where a guessed exponent did not fit: all five operands", import("lib/operands.lua").all, "split")
