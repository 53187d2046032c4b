-- Pieces of the pipelines over scaled 16-bit operands, row-major (mma.sync) or in 64 x 64 blocks (wgmma, tcgen05).
local operands = import "lib/operands.lua"

local M = {}

-- prepared: tensors whose largest magnitudes prepare.lua's kernels collect, piece by piece
function M.buffers(blocked, prepared)
  local list = {}
  for _, tensor in ipairs(prepared) do
    list[#list + 1] = { name = tensor .. "_maxima", size = "4*" .. operands.blocks(tensor, blocked) }
  end
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

local function scale_exact()
  local bind = over(operands.all, { "", "_scale" })
  bind.grad_intermediate_scale = "grad_intermediate_scale"
  return { slot = "scale", role = "scale", kernel = "scale_exact", bind = bind }
end

-- the steps of prepare.lua; set: tensors converted, sampled: those that only get a guess
function M.prepare(slot, kernel, set, sampled)
  local bind = over(set, { "", "_16", "_scale", "_maxima" })
  for name, bound in pairs(over(sampled, { "", "_scale" })) do
    bind[name] = bound
  end
  bind.grad_intermediate_scale, bind.column_partials = "grad_intermediate_scale", "partials2"
  return { slot = slot, role = "convert", kernel = kernel, bind = bind }
end

function M.check(slot, kernel, set)
  return { slot = slot, role = "rescale", kernel = kernel, bind = over(set, { "", "_16", "_scale", "_maxima" }) }
end

-- both over what fc2_dgrad reads
local function prepare_first(family)
  return M.prepare("convert_first", "prepare_" .. family.copies .. "first", operands.first, operands.rest),
    M.check("rescale_first", "check_" .. family.copies .. "first", operands.first)
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
local function serial(family, name, doc, rank, prepared, steps)
  local gemm = M.gemms(family.layout)
  for _, step in ipairs { gemm.fc2_dgrad, gemm.fc2_wgrad, gemm.fc1_dgrad, gemm.fc1_wgrad, M.bias_reduce() } do
    steps[#steps + 1] = step
  end
  return { name = family.name .. name, doc = doc, needs = family.needs, accuracies = { "tf32", "bf16" }, rank = rank,
    buffers = M.buffers(family.blocked, prepared), steps = steps }
end

-- Whole pipelines; family: {name, needs, layout, blocked, copies (in names of kernels that convert), rank}
function M.exact(family)
  return serial(family, "_exact", "exact scales in a pass of their own, conversion, then the four GEMMs one after the other",
    family.rank + 1, {}, { scale_exact(), M.convert("convert", "convert_" .. family.copies .. "all", operands.all) })
end

function M.speculative(family)
  return serial(family, "_speculative",
    "conversion with scales guessed from samples, a second one where a guess missed, then the GEMMs one after the other",
    family.rank, operands.all, { M.prepare("convert", "prepare_" .. family.copies .. "all", operands.all, {}),
      M.check("rescale", "check_" .. family.copies .. "all", operands.all) })
end

function M.overlap(family)
  local gemm = M.gemms(family.layout)
  local prepare, check = prepare_first(family)
  return {
    name = family.name .. "_overlap",
    doc = "as speculative, on two streams: what fc2_dgrad does not read is converted beside it, "
      .. "and the weight gradients run beside the data gradients",
    needs = family.needs, accuracies = { "tf32", "bf16" }, rank = family.rank + 2,
    buffers = M.buffers(family.blocked, operands.first),
    steps = {
      prepare, check, gemm.fc2_dgrad,
      M.on(1, M.convert("convert_rest", "convert_" .. family.copies .. "rest", operands.rest), { "rescale_first" }),
      M.on(1, M.rescale("rescale_rest", "rescale_" .. family.copies .. "rest", operands.rest), {}),
      M.on(1, gemm.fc2_wgrad, {}),
      M.on(0, gemm.fc1_dgrad, { "rescale_rest" }),
      M.on(1, gemm.fc1_wgrad, { "fc2_dgrad" }),
      M.bias_reduce(),
    },
  }
end

-- For families whose fc2_dgrad kernel converts beside its product, and in its second attempt mends that. Of the three GEMMs behind
-- it the one with the longest tiles comes first: blocks of the next start as those of the one before end.
function M.beside(family)
  local gemm = M.gemms(family.layout)
  local prepare, check = prepare_first(family)
  for name, bound in pairs(over(operands.rest, { "", "_16", "_scale" })) do
    gemm.fc2_dgrad.bind[name] = bound
  end
  return {
    name = family.name .. "_beside",
    doc = "as speculative, but what fc2_dgrad does not read is converted by spare warps of its launches, "
      .. "and the three GEMMs behind it are on three streams",
    needs = family.needs, accuracies = { "tf32", "bf16" }, rank = family.rank + 3,
    buffers = M.buffers(family.blocked, operands.first),
    steps = {
      prepare, check, gemm.fc2_dgrad, gemm.fc1_dgrad, M.on(1, gemm.fc2_wgrad), M.on(2, gemm.fc1_wgrad), M.bias_reduce(),
    },
  }
end

M.mma = { name = "mma", needs = { "mma_sync" }, layout = "", blocked = false, copies = "", rank = 20 }
M.wgmma = { name = "wgmma", needs = { "wgmma" }, layout = "_blocks", blocked = true, copies = "blocked_", rank = 10 }
M.umma = { name = "umma", needs = { "tcgen05" }, layout = "_blocks", blocked = true, copies = "blocked_", rank = 10 }

return M
