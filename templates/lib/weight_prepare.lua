-- The two launches in front of the GEMMs in pipelines that read the weights in fp32: prepare guesses scales and converts what
-- has tokens, check mends a guess that missed.
local operands = import "lib/operands.lua"
local cuda = import "lib/cuda_text.lua"

local M = {}

M.set = { "grad_output", "intermediate_activated", "hidden_states" }

-- launch expression of the size in bytes of a tensor's largest magnitudes, one a piece
function M.maxima_bytes(tensor)
  return "4*" .. operands.blocks(tensor, true)
end

local function values(c, template, parameters, share)
  return {
    base = text "lib/base.cuh", ptx = text "lib/ptx.cuh", scale = cuda.scale(c.accuracy),
    convert = fill(text "lib/convert.cuh", { pack = cuda.pack[c.accuracy] }) .. text "lib/convert_blocked.cuh",
    parameters = operands.each(M.set, parameters),
    cases = operands.each(M.set, template, share),
  }
end

local function blocks(tensor)
  return operands.blocks_c(tensor, true)
end

local function index(tensor, i)
  return i - 1
end

local function elements(tensor)
  return operands.size_c[tensor]
end

local function share(partials)
  return function(tensor)
    return ("convert_blocked(%s, %s_16, %s, %s, %s, block, factor)"):format(tensor, tensor,
      tensor == "grad_output" and partials or "nullptr", operands.rows_c[tensor], operands.columns_c[tensor])
  end
end

local function always()
  return true
end

local function kernel(fields)
  fields.needs, fields.accuracies, fields.params, fields.valid = { "mma_sync" }, { "tf32", "bf16" }, {}, always
  return fields
end

function M.prepare()
  return kernel {
    name = "wgmma_weight_prepare", roles = { "convert" },
    doc = "scales guessed from a sample by every block, fp32 to scaled 16-bit in 64 x 64 blocks: what has tokens",
    operands = function(c)
      local list = operands.declare(M.set, { { "", "in" }, { "_16", "out" }, { "_scale", "out" }, { "_maxima", "out" } })
      for _, operand in ipairs { { name = "weight2", access = "in" }, { name = "weight2_scale", access = "out" },
        { name = "grad_intermediate_scale", access = "out" }, { name = "column_partials", access = "out" } } do
        list[#list + 1] = operand
      end
      return list
    end,
    source = function(c)

      local v = values(c, text "kernels/wgmma_weight_prepare_case.cu", "const float *${tensor}, u16 *${tensor}_16, Scale *${tensor}_scale, float *${tensor}_maxima, ",
        { blocks = blocks, elements = elements, share = share "column_partials" })
      v.parameters = v.parameters .. "float *column_partials, "
      return fill(text "kernels/wgmma_weight_prepare.cu", v)
    end,
    launches = function(c)
      local arguments = operands.arguments(M.set, { "", "_16", "_scale", "_maxima" })
      arguments[#arguments + 1] = { name = "column_partials", part = 1 }
      for _, name in ipairs { "weight2", "weight2_scale", "grad_intermediate_scale" } do
        arguments[#arguments + 1] = { name = name, part = 4 }
      end
      return { { entry = "prepare", grid = { operands.sum_blocks(M.set, true) .. "+1" }, block = { 256 }, args = operands.add_sizes(arguments) } }
    end,
  }
end

function M.check()
  return kernel {
    name = "wgmma_weight_check", roles = { "rescale" },
    doc = "second conversion in 64 x 64 blocks where a guessed exponent did not fit: what has tokens",
    operands = function(c)
      return operands.declare(M.set, { { "", "in" }, { "_16", "inout" }, { "_scale", "inout" }, { "_maxima", "in" } })
    end,
    source = function(c)
      return fill(text "kernels/wgmma_weight_check.cu", values(c, text "kernels/wgmma_weight_check_case.cu",
        "const float *${tensor}, u16 *${tensor}_16, Scale *${tensor}_scale, const float *${tensor}_maxima, ",
        { index = index, blocks = blocks, share = share "nullptr" }))
    end,
    launches = function(c)
      return { { entry = "check", grid = { "UNITS", tostring(#M.set) }, block = { 256 },
        args = operands.add_sizes(operands.arguments(M.set, { "", "_16", "_scale", "_maxima" })) } }
    end,
  }
end

return M
