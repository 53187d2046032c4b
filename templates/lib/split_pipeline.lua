-- The fp32 class on tensor cores: the 16-bit pipelines with every operand as a pair, hi and lo (split.cuh).
local pipeline16 = import "lib/pipeline16.lua"

local family = { name = "wgmma_split", needs = { "wgmma" }, layout = "_split", blocked = true, convert = "convert_split_",
  rescale = "rescale_split_", rank = 10 }

local M = {}

-- kind: "exact", "speculative", "overlap" of pipeline16.lua
function M.pipeline(kind)
  local pipeline = pipeline16[kind](family)
  pipeline.doc = "operands split into two fp16 each: " .. pipeline.doc
  pipeline.accuracies = { "fp32" }
  for _, buffer in ipairs(pipeline.buffers) do
    if buffer.name:find "_16$" then
      buffer.size = "2*" .. buffer.size
    end
  end
  return pipeline
end

return M
