-- Pieces of the pipelines over scaled 16-bit operands.
local operands = import "lib/operands.lua"

local M = {}

function M.buffers()
  local list = {}
  for _, tensor in ipairs(operands.all) do
    list[#list + 1] = { name = tensor .. "_16", size = "2*" .. operands.size[tensor] }
    list[#list + 1] = { name = tensor .. "_scale", size = "16" }
  end
  list[#list + 1] = { name = "grad_intermediate_16", size = "2*T*I" }
  list[#list + 1] = { name = "grad_intermediate_scale", size = "16" }
  list[#list + 1] = { name = "partials1", size = "4*I*ceildiv(T,64)" }
  list[#list + 1] = { name = "partials2", size = "4*H*ceildiv(T,64)" }
  return list
end

local function over(set, suffixes)
  local bind = {}
  for _, tensor in ipairs(set) do
    for _, suffix in ipairs(suffixes) do
      bind[tensor .. suffix] = tensor .. suffix
    end
  end
  return bind
end

function M.scale(kernel)
  local bind = over(operands.all, { "", "_scale" })
  bind.grad_intermediate_scale = "grad_intermediate_scale"
  return { slot = "scale", role = "scale", kernel = kernel, bind = bind }
end

function M.convert(slot, kernel, set)
  local bind = over(set, { "", "_16", "_scale" })
  for _, tensor in ipairs(set) do
    if tensor == "grad_output" then
      bind.column_partials = "partials2"
    end
  end
  return { slot = slot, role = "convert", kernel = kernel, bind = bind }
end

function M.rescale(slot, kernel, set)
  return { slot = slot, role = "rescale", kernel = kernel, bind = over(set, { "", "_16", "_scale" }) }
end

local function gemm(role, a, b, out)
  return { slot = role, role = role, bind = { a = a .. "_16", b = b .. "_16", scale_a = a .. "_scale", scale_b = b .. "_scale", out = out } }
end

M.fc2_dgrad = { slot = "fc2_dgrad", role = "fc2_dgrad", bind = {
  a = "grad_output_16", b = "weight2_16", scale_a = "grad_output_scale", scale_b = "weight2_scale",
  scale_out = "grad_intermediate_scale", intermediate = "intermediate", grad_intermediate = "grad_intermediate_16",
  column_partials = "partials1" } }
M.fc2_wgrad = gemm("fc2_wgrad", "grad_output", "intermediate_activated", "grad_weight2")
M.fc1_dgrad = gemm("fc1_dgrad", "grad_intermediate", "weight1", "grad_hidden_states")
M.fc1_wgrad = gemm("fc1_wgrad", "grad_intermediate", "hidden_states", "grad_weight1")

function M.bias_reduce()
  return { slot = "bias_reduce", role = "bias_reduce", bind = { partials1 = "partials1", grad_bias1 = "grad_bias1",
    partials2 = "partials2", grad_bias2 = "grad_bias2" } }
end

M.all = operands.all
M.first = { "grad_output", "weight2" }
M.rest = { "intermediate_activated", "weight1", "hidden_states" }

-- a copy of a step on a side stream
function M.on(stream, step, after)
  local copy = {}
  for name, value in pairs(step) do
    copy[name] = value
  end
  copy.stream, copy.after = stream, after
  return copy
end

return M
