return import("lib/convert.lua").rescale("rescale_split_rest", "second conversion to hi and lo where a guessed exponent did not fit: what later GEMMs need", import("lib/operands.lua").rest, "split")
