-- Pieces of the pipelines over scaled 16-bit operands, row-major (mma.sync) or in 64 x 64 blocks (wgmma, tcgen05).
local operands = import "lib/operands.lua"

local M = {}

function M.buffers(blocked)
  local list = {}
  for _, tensor in ipairs(operands.all) do
    list[#list + 1] = { name = tensor .. "_16", size = operands.bytes_16(tensor, blocked) }
    list[#list + 1] = { name = tensor .. "_scale", size = "16" }
  end
  list[#list + 1] = { name = "grad_intermediate_16", size = blocked and "2*align(T,64)*I" or "2*T*I" }
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

-- the four GEMMs by role; layout: the suffix of the family's operand names (gemm16.lua)
function M.gemms(layout)
  local function gemm(role, a, b, out)
    return { slot = role, role = role, bind = { ["a" .. layout] = a .. "_16", ["b" .. layout] = b .. "_16",
      scale_a = a .. "_scale", scale_b = b .. "_scale", out = out } }
  end
  return {
    fc2_dgrad = { slot = "fc2_dgrad", role = "fc2_dgrad", bind = {
      ["a" .. layout] = "grad_output_16", ["b" .. layout] = "weight2_16", scale_a = "grad_output_scale",
      scale_b = "weight2_scale", scale_out = "grad_intermediate_scale", intermediate = "intermediate",
      ["grad_intermediate" .. layout] = "grad_intermediate_16", column_partials = "partials1" } },
    fc2_wgrad = gemm("fc2_wgrad", "grad_output", "intermediate_activated", "grad_weight2"),
    fc1_dgrad = gemm("fc1_dgrad", "grad_intermediate", "weight1", "grad_hidden_states"),
    fc1_wgrad = gemm("fc1_wgrad", "grad_intermediate", "hidden_states", "grad_weight1"),
  }
end

function M.bias_reduce()
  return { slot = "bias_reduce", role = "bias_reduce", bind = { partials1 = "partials1", grad_bias1 = "grad_bias1",
    partials2 = "partials2", grad_bias2 = "grad_bias2" } }
end

-- a step on another stream
function M.on(stream, step, after)
  local copy = {}
  for name, value in pairs(step) do
    copy[name] = value
  end
  copy.stream, copy.after = stream, after
  return copy
end

-- One GEMM after the other behind the given preparing steps.
local function serial(family, name, doc, rank, steps)
  local gemm = M.gemms(family.layout)
  for _, step in ipairs { gemm.fc2_dgrad, gemm.fc2_wgrad, gemm.fc1_dgrad, gemm.fc1_wgrad, M.bias_reduce() } do
    steps[#steps + 1] = step
  end
  return { name = family.name .. name, doc = doc, needs = family.needs, accuracies = { "tf32", "bf16" }, rank = rank,
    buffers = M.buffers(family.blocked), steps = steps }
end

-- Whole pipelines; family: {name, needs, layout, blocked, convert, rescale (prefixes of kernels), rank}
function M.exact(family)
  return serial(family, "_exact", "exact scales in a pass of their own, conversion, then the four GEMMs one after the other",
    family.rank + 1, { M.scale("scale_exact"), M.convert("convert", family.convert .. "all", operands.all) })
end

function M.speculative(family)
  return serial(family, "_speculative",
    "scales guessed from a sample, conversion that checks them, a second conversion where one missed, then the GEMMs",
    family.rank, { M.scale("scale_sample"), M.convert("convert", family.convert .. "all", operands.all),
      M.rescale("rescale", family.rescale .. "all", operands.all) })
end

function M.overlap(family)
  local gemm = M.gemms(family.layout)
  return {
    name = family.name .. "_overlap",
    doc = "as speculative, on two streams: what fc2_dgrad does not read is converted beside it, and the weight gradients run beside the data gradients",
    needs = family.needs, accuracies = { "tf32", "bf16" }, rank = family.rank + 2, buffers = M.buffers(family.blocked),
    steps = {
      M.scale("scale_sample"), M.convert("convert_first", family.convert .. "first", operands.first),
      M.rescale("rescale_first", family.rescale .. "first", operands.first),
      gemm.fc2_dgrad,
      M.on(1, M.convert("convert_rest", family.convert .. "rest", operands.rest), { "rescale_first" }),
      M.on(1, M.rescale("rescale_rest", family.rescale .. "rest", operands.rest), {}),
      M.on(1, gemm.fc2_wgrad, {}),
      M.on(0, gemm.fc1_dgrad, { "rescale_rest" }),
      M.on(1, gemm.fc1_wgrad, { "fc2_dgrad" }),
      M.bias_reduce(),
    },
  }
end

-- for families whose fc2_dgrad kernel converts beside its product
function M.beside(family)
  local gemm = M.gemms(family.layout)
  for name, bound in pairs(over(operands.rest, { "", "_16", "_scale" })) do
    gemm.fc2_dgrad.bind[name] = bound
  end
  return {
    name = family.name .. "_beside",
    doc = "as speculative, but what fc2_dgrad does not read is converted by spare warps of its own launch",
    needs = family.needs, accuracies = { "tf32", "bf16" }, rank = family.rank + 3, buffers = M.buffers(family.blocked),
    steps = {
      M.scale("scale_sample"), M.convert("convert_first", family.convert .. "first", operands.first),
      M.rescale("rescale_first", family.rescale .. "first", operands.first),
      gemm.fc2_dgrad, M.rescale("rescale_rest", family.rescale .. "rest", operands.rest),
      gemm.fc2_wgrad, gemm.fc1_dgrad, gemm.fc1_wgrad, M.bias_reduce(),
    },
  }
end

M.mma = { name = "mma", needs = { "mma_sync" }, layout = "", blocked = false, convert = "convert_", rescale = "rescale_", rank = 20 }
M.wgmma = { name = "wgmma", needs = { "wgmma" }, layout = "_blocks", blocked = true, convert = "convert_blocked_",
  rescale = "rescale_blocked_", rank = 10 }
M.umma = { name = "umma", needs = { "tcgen05" }, layout = "_blocks", blocked = true, convert = "convert_blocked_",
  rescale = "rescale_blocked_", rank = 10 }

return M
