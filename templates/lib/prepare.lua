-- The two launches in front of the GEMMs that guess scales, convert and mend. prepare: every block of a tensor guesses its
-- exponent from the same sample, so that no launch has to come before, converts its piece and stores the largest magnitude
-- there. check: puts those together and converts again what a guess missed.
local operands = import "lib/operands.lua"
local convert = import "lib/convert.lua"

local M = {}

-- of a converted tensor
local parameters = "const float *${tensor}, u16 *${tensor}_16, Scale *${tensor}_scale, "

local function part_of(tensor, set, sampled)
  for part, name in ipairs(set) do
    if name == tensor then
      return part
    end
  end
  for i, name in ipairs(sampled) do
    if name == tensor then
      return #set + i
    end
  end
end

local function kernel(blocked, fields)
  fields.needs, fields.accuracies, fields.params = { "mma_sync" }, convert.accuracies(blocked), {}
  fields.valid = function(c)
    return true
  end
  return fields
end

-- blocked: layout of the copies (convert.lua); set: tensors converted, grad_output first; sampled: tensors that only get their
-- guess and mean square here, whoever converts them comes later
function M.prepare(name, doc, blocked, set, sampled)
  return kernel(blocked, {
    name = name, doc = doc, roles = { "convert" },
    operands = function(c)
      local list = operands.declare(set, { { "", "in" }, { "_16", "out" }, { "_scale", "out" }, { "_maxima", "out" } })
      local more = operands.declare(sampled, { { "", "in" }, { "_scale", "out" } })
      table.move(more, 1, #more, #list + 1, list)
      list[#list + 1] = { name = "grad_intermediate_scale", access = "out" }
      list[#list + 1] = { name = "column_partials", access = "out" }
      return list
    end,
    source = function(c)
      local values = convert.pieces(c, blocked)
      values.sample = text "lib/sample.cuh"
      values.parameters = operands.each(set, parameters .. "float *${tensor}_maxima, ")
        .. operands.each(sampled, "const float *${tensor}, Scale *${tensor}_scale, ")
      values.cases = operands.each(set, text "kernels/prepare_case.cu",
        { blocks = convert.blocks_c(blocked), elements = operands.elements, share = convert.share("column_partials", blocked) })
      values.samples = operands.each(sampled, text "kernels/prepare_sample.cu", { index = operands.index, elements = operands.elements })
      return fill(text "kernels/prepare.cu", values)
    end,
    launches = function(c)
      local arguments = operands.arguments(set, { "", "_16", "_scale", "_maxima" })
      for i, tensor in ipairs(sampled) do
        arguments[#arguments + 1] = { name = tensor, part = #set + i }
        arguments[#arguments + 1] = { name = tensor .. "_scale", part = #set + i }
      end
      -- whoever needs grad_intermediate needs weight2
      arguments[#arguments + 1] = { name = "grad_intermediate_scale", part = part_of("weight2", set, sampled) }
      arguments[#arguments + 1] = { name = "column_partials", part = 1 }
      return { { entry = "prepare", grid = { ("%s+%d"):format(operands.sum_blocks(set, blocked), #sampled) }, block = { 256 },
        args = operands.add_sizes(arguments) } }
    end,
  })
end

function M.check(name, doc, blocked, set)
  return kernel(blocked, {
    name = name, doc = doc, roles = { "rescale" },
    operands = function(c)
      return operands.declare(set, { { "", "in" }, { "_16", "inout" }, { "_scale", "inout" }, { "_maxima", "in" } })
    end,
    source = function(c)
      local values = convert.pieces(c, blocked)
      values.parameters = operands.each(set, parameters .. "const float *${tensor}_maxima, ")
      values.cases = operands.each(set, text "kernels/check_case.cu",
        { index = operands.index, blocks = convert.blocks_c(blocked), share = convert.share("nullptr", blocked) })
      return fill(text "kernels/check.cu", values)
    end,
    launches = function(c)
      return { { entry = "check", grid = { "UNITS", tostring(#set) }, block = { 256 },
        args = operands.add_sizes(operands.arguments(set, { "", "_16", "_scale", "_maxima" })) } }
    end,
  })
end

return M
