-- The fp32 class on tensor cores: the 16-bit pipelines with every operand as a pair, hi and lo (split.cuh).
local pipeline16 = import "lib/pipeline16.lua"

-- products: "wgmma" or "umma" (tcgen05)
local function family(products)
  return { name = products .. "_split", needs = { products == "umma" and "tcgen05" or products }, layout = "_split", blocked = true,
    copies = "split_", rank = 10 }
end

-- measured on an H200: two streams win at every T (the conversion alone is 7 to 15 % of a pass)
local rank = { overlap = 10, speculative = 11, exact = 12 }

local M = {}

-- kind: "exact", "speculative", "overlap" of pipeline16.lua; products: as above, default "wgmma"
function M.pipeline(kind, products)
  local pipeline = pipeline16[kind](family(products or "wgmma"))
  pipeline.doc = "operands split into two fp16 each (elements below 2^-24 of their tensor's largest lose bits; simt keeps them): "
    .. pipeline.doc
  pipeline.accuracies, pipeline.rank = { "fp32" }, rank[kind]
  for _, buffer in ipairs(pipeline.buffers) do
    if buffer.name:find "_16$" then
      buffer.size = "2*" .. buffer.size
    end
  end
  return pipeline
end

return M
