-- Pipelines in which the data gradients read the weights in fp32 (wgmma_weight_gemm): only what has tokens is converted.
local operands = import "lib/operands.lua"
local pipeline16 = import "lib/pipeline16.lua"

local M = {}

local function buffers()
  local list = {}
  for _, buffer in ipairs(pipeline16.buffers(true, operands.tokens)) do
    if not buffer.name:find "^weight%d_16$" and buffer.name ~= "weight1_scale" then
      list[#list + 1] = buffer
    end
  end
  return list
end

-- name, doc, rank; side: the stream of the weight gradients
local function pipeline(name, doc, rank, side)
  local gemm = pipeline16.gemms "_blocks"
  return { name = name, doc = doc, needs = { "wgmma" }, accuracies = { "tf32", "bf16" }, rank = rank, buffers = buffers(), steps = {
    pipeline16.prepare("convert", "prepare_blocked_tokens", operands.tokens, { "weight2" }),
    pipeline16.check("rescale", "check_blocked_tokens", operands.tokens),
    { slot = "fc2_dgrad", role = "fc2_dgrad", bind = {
      token_copies = "grad_output_16", weight = "weight2", scale_tokens = "grad_output_scale", scale_weight = "weight2_scale",
      scale_out = "grad_intermediate_scale", intermediate = "intermediate", grad_intermediate_blocks = "grad_intermediate_16",
      column_partials = "partials1" } },
    pipeline16.on(side, gemm.fc2_wgrad, {}),
    { slot = "fc1_dgrad", role = "fc1_dgrad", bind = {
      token_copies = "grad_intermediate_16", weight = "weight1", scale_tokens = "grad_intermediate_scale", out = "grad_hidden_states" } },
    pipeline16.on(side, gemm.fc1_wgrad, {}),
    pipeline16.bias_reduce(),
  } }
end

function M.serial()
  return pipeline("wgmma_weight_serial", "weights read in fp32 by the data gradients, only tokens converted; one launch after the other", 13, 0)
end

function M.overlap()
  return pipeline("wgmma_weight_overlap", "as serial, on two streams: the weight gradients run beside the data gradients", 14, 1)
end

return M
