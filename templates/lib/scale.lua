-- Kernel tables of the role scale over the five operands: exponents from a sample, or exact (one more pass over the data).
local operands = import "lib/operands.lua"
local cuda = import "lib/cuda_text.lua"

local M = {}

local set = operands.all

local function count(tensor)
  return operands.size_c[tensor]
end

local function index(tensor, i)
  return i - 1
end

function M.kernel(name, doc, exact)
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
      for i, tensor in ipairs(exact and set or {}) do
        list[i] = { name = tensor .. "_partials", size = "4*" .. measure_blocks }
      end
      return list
    end,
    source = function(c)
      local partials = exact and "const float *${tensor}_partials, " or ""
      local combine = fill(text "kernels/scale_sample.cu", {
        base = text "lib/base.cuh", ptx = text "lib/ptx.cuh", scale = cuda.scale(c.accuracy), sample = text "lib/sample.cuh",
        parameters = operands.each(set, "const float *${tensor}, Scale *${tensor}_scale, " .. partials)
          .. (exact and "int blocks, " or ""),
        cases = operands.each(set, text "kernels/scale_sample_case.cu", {
          index = index, elements = count,
          partials = function(tensor)
            return exact and tensor .. "_partials" or "nullptr"
          end,
          blocks = function()
            return exact and "blocks" or "0"
          end,
        }),
      })
      if not exact then
        return combine
      end
      return combine .. fill(text "kernels/scale_exact.cu", {
        parameters = operands.each(set, "const float *${tensor}, float *${tensor}_partials, "),
        cases = operands.each(set, text "kernels/scale_exact_case.cu", { index = index, elements = count }),
      })
    end,
    launches = function(c)
      local list = {}
      local arguments = operands.arguments(set, exact and { "", "_scale", "_partials" } or { "", "_scale" })
      if exact then
        for _, argument in ipairs(arguments) do
          if argument.name:find("_partials$") then
            argument.access = "in"
          end
        end
        local measured = operands.arguments(set, { "", "_partials" })
        for _, argument in ipairs(measured) do
          if argument.name:find("_partials$") then
            argument.access = "out"
          end
        end
        list[1] = { entry = "measure_all", grid = { measure_blocks, tostring(#set) }, block = { 256 }, args = operands.add_sizes(measured) }
        arguments[#arguments + 1] = { i32 = measure_blocks }
      end
      -- weight2's part: whoever needs grad_intermediate needs weight2
      arguments[#arguments + 1] = { name = "grad_intermediate_scale", part = 2 }
      list[#list + 1] = { entry = "scale", grid = { tostring(#set) }, block = { 1024 }, args = operands.add_sizes(arguments) }
      return list
    end,
  }
end

return M
