-- The four GEMMs of the fp32 class on tcgen05, operands as pairs of scaled fp16; see umma_split_gemm.cu.
local roles = import "lib/roles.lua"
local gemm = import "lib/gemm16.lua"
local split_k = import "lib/split_k.lua"
local umma = import "lib/umma.lua"

local TILE_N, WRITERS, SLICE = 128, 2, 64 -- as in the text

local function shared_bytes(c, stages)
  return (stages or c.p.stages) * (128 + TILE_N // umma.ctas(c.p)) * 128 + umma.epilogue_bytes(c, WRITERS, SLICE)
end

return {
  name = "umma_split_gemm",
  doc = "fp32-class GEMM on tcgen05: operands split into two fp16 each, three products, sums promoted from tensor memory part by part; dGELU and column sums fused in fc2_dgrad",
  roles = { "fc2_dgrad", "fc2_wgrad", "fc1_dgrad", "fc1_wgrad" },
  needs = umma.needs,
  accuracies = { "fp32" },
  rank = 5,
  operands = function(c)
    return gemm.operands(c, "_split")
  end,
  params = {
    umma.pair,
    { name = "stages", doc = "depth of the ring; a stage is hi or lo of both operands for 64 of K", values = { 4, 5, 6, 7, 8, 9 },
      default = function(c)
        return roles[c.role].gelu and 6 or 9
      end },
    { name = "promoted", doc = "blocks of 64 of K whose sums the tensor core keeps before they are added in fp32", values = { 1, 2, 4 },
      default = 1 },
    umma.schedule,
    umma.group_m,
    split_k.parameter,
  },
  valid = function(c)
    if not umma.fits(c, shared_bytes(c)) then
      return false, "shared memory"
    end
    return true
  end,
  prune = function(c, problem)
    local why = umma.prune(c, problem, TILE_N)
    if why then
      return false, why
    end
    if c.p.stages < 9 and umma.fits(c, shared_bytes(c, c.p.stages + 1)) then
      return false, "ring less deep than fits"
    end
    return true
  end,
  tile = function(c)
    return umma.tile(c, TILE_N, 4, false)
  end,
  workspace = split_k.workspace,
  source = function(c)
    local values = umma.values(c, "Ring stage_of = {0, 0}, high_of = {0, 0}, cross_of = {0, 0};",
      "kernels/umma_split_gemm_store.cu", {
      take = text "kernels/umma_split_gemm_take.cu", derivative = "gelu_derivative", copies = 2,
      put = text "kernels/umma_split_gemm_put.cu",
    })
    values.split_pair, values.whole_sums, values.promoted = text "lib/split.cuh", text "kernels/umma_split_gemm_sums.cu", c.p.promoted
    return fill(text "kernels/umma_split_gemm.cu", values)
  end,
  launches = function(c)
    return umma.launches(c, "umma_split_gemm", TILE_N, WRITERS, shared_bytes(c), "_split")
  end,
}
