-- The fp32 class on tensor cores: the 16-bit pipelines with every operand as a pair, hi and lo (split.cuh).
local pipeline16 = import "lib/pipeline16.lua"

local family = { name = "wgmma_split", needs = { "wgmma" }, layout = "_split", blocked = true, convert = "convert_split_",
  rescale = "rescale_split_", rank = 10 }

-- measured on an H200: two streams win at every T (the conversion alone is 7 to 15 % of a pass)
local rank = { overlap = 10, speculative = 11, exact = 12 }

local M = {}

-- kind: "exact", "speculative", "overlap" of pipeline16.lua
function M.pipeline(kind)
  local pipeline = pipeline16[kind](family)
  pipeline.doc = "operands split into two fp16 each: " .. pipeline.doc
  pipeline.accuracies, pipeline.rank = { "fp32" }, rank[kind]
  for _, buffer in ipairs(pipeline.buffers) do
    if buffer.name:find "_16$" then
      buffer.size = "2*" .. buffer.size
    end
  end
  return pipeline
end

return M
