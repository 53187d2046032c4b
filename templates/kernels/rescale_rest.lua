return import("lib/convert.lua").rescale("rescale_rest", "second conversion where a guessed exponent did not fit: what later GEMMs need", import("lib/operands.lua").rest)
