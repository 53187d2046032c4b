-- Kernel tables of the roles convert and rescale over a set of tensors (see operands.lua and convert.cuh).
local operands = import "lib/operands.lua"
local cuda = import "lib/cuda_text.lua"

local M = {}

local function pieces(c)
  return {
    base = text "lib/base.cuh", ptx = text "lib/ptx.cuh", scale = cuda.scale(c.accuracy),
    convert = fill(text "lib/convert.cuh", { pack = cuda.pack[c.accuracy] }),
  }
end

local function has_grad_output(set)
  for _, tensor in ipairs(set) do
    if tensor == "grad_output" then
      return true
    end
  end
  return false
end

local function share(partials)
  return function(tensor)
    if tensor == "grad_output" then
      return ("convert_tokens(grad_output, grad_output_16, %s, tokens, hidden_size, block, factor)"):format(partials)
    end
    return ("convert_flat(%s, %s_16, %s, block, factor)"):format(tensor, tensor, operands.size_c[tensor])
  end
end

local function blocks_c(tensor)
  if tensor == "grad_output" then
    return "ceil_div(tokens, 64) * ceil_div(hidden_size, 128)"
  end
  return ("ceil_div(%s, %d)"):format(operands.size_c[tensor], operands.block_elements)
end

function M.convert(name, doc, set)
  local sums = has_grad_output(set)
  return {
    name = name, doc = doc, roles = { "convert" }, needs = { "mma_sync" }, accuracies = { "tf32", "bf16" },
    operands = function(c)
      local list = operands.declare(set, { { "", "in" }, { "_16", "out" }, { "_scale", "inout" } })
      if sums then
        list[#list + 1] = { name = "column_partials", access = "out" }
      end
      return list
    end,
    params = {},
    valid = function(c)
      return true
    end,
    source = function(c)
      local values = pieces(c)
      values.parameters = operands.each(set, "const float *${tensor}, u16 *${tensor}_16, Scale *${tensor}_scale, ")
        .. (sums and "float *column_partials, " or "")
      values.cases = operands.each(set, text "kernels/convert_case.cu", { blocks = blocks_c, share = share "column_partials" })
      return fill(text "kernels/convert.cu", values)
    end,
    launches = function(c)
      local arguments = operands.arguments(set, { "", "_16", "_scale" })
      if sums then
        arguments[#arguments + 1] = { name = "column_partials", part = 1 }
      end
      for _, size in ipairs(operands.sizes) do
        arguments[#arguments + 1] = size
      end
      return { { entry = "convert", grid = { operands.sum_blocks(set) }, block = { 256 }, args = arguments } }
    end,
  }
end

function M.rescale(name, doc, set)
  return {
    name = name, doc = doc, roles = { "rescale" }, needs = { "mma_sync" }, accuracies = { "tf32", "bf16" },
    operands = function(c)
      return operands.declare(set, { { "", "in" }, { "_16", "inout" }, { "_scale", "in" } })
    end,
    params = {},
    valid = function(c)
      return true
    end,
    source = function(c)
      local values = pieces(c)
      values.parameters = operands.each(set, "const float *${tensor}, u16 *${tensor}_16, const Scale *${tensor}_scale, ")
      values.cases = operands.each(set, text "kernels/rescale_case.cu", { blocks = blocks_c, share = share "nullptr" })
      return fill(text "kernels/rescale.cu", values)
    end,
    launches = function(c)
      local arguments = operands.arguments(set, { "", "_16", "_scale" })
      for _, size in ipairs(operands.sizes) do
        arguments[#arguments + 1] = size
      end
      return { { entry = "rescale", grid = { "UNITS" }, block = { 256 }, args = arguments } }
    end,
  }
end

return M
