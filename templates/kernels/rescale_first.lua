return import("lib/convert.lua").rescale("rescale_first", "second conversion where a guessed exponent did not fit: what fc2_dgrad needs first", import("lib/operands.lua").first)
