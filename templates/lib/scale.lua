-- Kernel table of the role scale over the five operands: exact exponents, by one more pass over the data.
local operands = import "lib/operands.lua"
local cuda = import "lib/cuda_text.lua"

local M = {}

local set = operands.all

-- of {"", "_partials", ...}, the partials with the given access
local function arguments(suffixes, access)
  local list = operands.arguments(set, suffixes)
  for _, argument in ipairs(list) do
    if argument.name:find("_partials$") then
      argument.access = access
    end
  end
  return list
end

function M.kernel(name, doc)
  local measure_blocks = "4*UNITS"
  return {
    name = name, doc = doc, roles = { "scale" }, needs = { "mma_sync" }, accuracies = { "tf32", "fp32", "bf16" },
    operands = function(c)
      local list = operands.declare(set, { { "", "in" }, { "_scale", "out" } })
      list[#list + 1] = { name = "grad_intermediate_scale", access = "out" }
      return list
    end,
    params = {},
    valid = function(c)
      return true
    end,
    workspace = function(c)
      local list = {}
      for i, tensor in ipairs(set) do
        list[i] = { name = tensor .. "_partials", size = "4*" .. measure_blocks }
      end
      return list
    end,
    source = function(c)
      return fill(text "kernels/scale_exact.cu", {
        base = text "lib/base.cuh", ptx = text "lib/ptx.cuh", scale = cuda.scale(c.accuracy), sample = text "lib/sample.cuh",
        measured = operands.each(set, "const float *${tensor}, float *${tensor}_partials, "),
        measures = operands.each(set, text "kernels/scale_exact_case.cu", { index = operands.index, elements = operands.elements }),
        parameters = operands.each(set, "const float *${tensor}, Scale *${tensor}_scale, const float *${tensor}_partials, "),
        cases = operands.each(set, text "kernels/scale_exact_put.cu", { index = operands.index, elements = operands.elements }),
      })
    end,
    launches = function(c)
      local measured, put = arguments({ "", "_partials" }, "out"), arguments({ "", "_scale", "_partials" }, "in")
      put[#put + 1] = { i32 = measure_blocks }
      -- weight2's part: whoever needs grad_intermediate needs weight2
      put[#put + 1] = { name = "grad_intermediate_scale", part = 2 }
      return {
        { entry = "measure_all", grid = { measure_blocks, tostring(#set) }, block = { 256 }, args = operands.add_sizes(measured) },
        { entry = "scale", grid = { tostring(#set) }, block = { 1024 }, args = operands.add_sizes(put) },
      }
    end,
  }
end

return M
