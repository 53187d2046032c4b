-- The CUDA pieces that depend on the accuracy class.
local window = {
  -- lowest: smallest power of two at which the largest magnitude of an operand may land (scale.cuh); target: where a
  -- guess puts it. bf16 has fp32's exponents, so its window only keeps sums away from the ends of the range.
  tf32 = { lowest_input = 14, lowest_intermediate = 13, target = 14 },
  bf16 = { lowest_input = -40, lowest_intermediate = -40, target = 0 },
  -- hi and lo together (split.cuh) reach 11 bits further down than fp16, which leaves room for worse guesses
  fp32 = { lowest_input = 13, lowest_intermediate = 10, target = 13 },
}

local M = {}

function M.scale(accuracy)
  local w = window[accuracy]
  return fill(text "lib/scale.cuh", w)
end

-- names of the 16-bit pack and mma wrappers of ptx.cuh
M.pack = { tf32 = "pack_f16", fp32 = "pack_f16", bf16 = "pack_bf16" }
M.mma = { tf32 = "mma_f16", bf16 = "mma_bf16" }

return M
