-- Kernel tables of the roles convert and rescale over a set of tensors (see operands.lua and convert.cuh).
local operands = import "lib/operands.lua"
local cuda = import "lib/cuda_text.lua"

local M = {}

-- Layouts of the copies: false (row-major), true (64 x 64 blocks), "split" (blocks of hi and lo, class fp32)
local function layout_text(blocked)
  if blocked == "split" then
    return text "lib/split.cuh" .. text "lib/convert_split.cuh"
  end
  return blocked and text "lib/convert_blocked.cuh" or ""
end

function M.accuracies(blocked)
  return blocked == "split" and { "fp32" } or { "tf32", "bf16" }
end

-- texts that every kernel which converts begins with
function M.pieces(c, blocked)
  return {
    base = text "lib/base.cuh", ptx = text "lib/ptx.cuh", scale = cuda.scale(c.accuracy),
    convert = fill(text "lib/convert.cuh", { pack = cuda.pack[c.accuracy] }) .. layout_text(blocked),
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

-- a block's share of the work on a tensor; partials: where column sums of grad_output go
function M.share(partials, blocked)
  return function(tensor)
    local sums = tensor == "grad_output" and partials or "nullptr"
    if blocked then
      return ("%s(%s, %s_16, %s, %s, %s, block, factor)"):format(blocked == "split" and "convert_split" or "convert_blocked",
        tensor, tensor, sums, operands.rows_c[tensor], operands.columns_c[tensor])
    end
    if tensor == "grad_output" then
      return ("convert_tokens(grad_output, grad_output_16, %s, tokens, hidden_size, block, factor)"):format(sums)
    end
    return ("convert_flat(%s, %s_16, %s, block, factor)"):format(tensor, tensor, operands.size_c[tensor])
  end
end

-- blocks of a tensor, in the kernel
function M.blocks_c(blocked)
  return function(tensor)
    return operands.blocks_c(tensor, blocked)
  end
end

-- blocked: layout of the copies, see layout_text
function M.convert(name, doc, set, blocked)
  local sums = has_grad_output(set)
  return {
    name = name, doc = doc, roles = { "convert" }, needs = { "mma_sync" }, accuracies = M.accuracies(blocked),
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
      local values = M.pieces(c, blocked)
      values.parameters = operands.each(set, "const float *${tensor}, u16 *${tensor}_16, Scale *${tensor}_scale, ")
        .. (sums and "float *column_partials, " or "")
      values.cases = operands.each(set, text "kernels/convert_case.cu", { blocks = M.blocks_c(blocked), share = M.share("column_partials", blocked) })
      return fill(text "kernels/convert.cu", values)
    end,
    launches = function(c)
      local arguments = operands.arguments(set, { "", "_16", "_scale" })
      if sums then
        arguments[#arguments + 1] = { name = "column_partials", part = 1 }
      end
      return { { entry = "convert", grid = { operands.sum_blocks(set, blocked) }, block = { 256 }, args = operands.add_sizes(arguments) } }
    end,
  }
end

function M.rescale(name, doc, set, blocked)
  return {
    name = name, doc = doc, roles = { "rescale" }, needs = { "mma_sync" }, accuracies = M.accuracies(blocked),
    operands = function(c)
      return operands.declare(set, { { "", "in" }, { "_16", "inout" }, { "_scale", "in" } })
    end,
    params = {},
    valid = function(c)
      return true
    end,
    source = function(c)
      local values = M.pieces(c, blocked)
      values.parameters = operands.each(set, "const float *${tensor}, u16 *${tensor}_16, const Scale *${tensor}_scale, ")
      values.cases = operands.each(set, text "kernels/rescale_case.cu", { blocks = M.blocks_c(blocked), share = M.share("nullptr", blocked) })
      return fill(text "kernels/rescale.cu", values)
    end,
    launches = function(c)
      local arguments = operands.arguments(set, { "", "_16", "_scale" })
      return { { entry = "rescale", grid = { "UNITS" }, block = { 256 }, args = operands.add_sizes(arguments) } }
    end,
  }
end

return M
