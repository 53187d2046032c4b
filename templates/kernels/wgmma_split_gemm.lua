-- The four GEMMs of the fp32 class on wgmma (Hopper), operands as pairs of scaled fp16; see wgmma_split_gemm.cu.
local roles = import "lib/roles.lua"
local gemm = import "lib/gemm16.lua"
local split_k = import "lib/split_k.lua"

local CONSUMERS, TILE_M, TILE_N = 2, 128, 128

-- the ring; in fc2_dgrad also, for each warp, 16 rows x 40 of sums, column sums, and pieces of `intermediate`
local function shared_bytes(c)
  local p = c.p
  local ring = p.slots * (TILE_M + TILE_N) * 128
  if not roles[c.role].gelu then
    return ring
  end
  return ring + CONSUMERS * 4 * ((16 * 40 + TILE_N) * 4 + 2048 * p.fetch_depth)
end

local function wgmma(c)
  local registers = TILE_N // 2
  local list, operands = {}, {}
  for i = 0, registers - 1 do
    list[#list + 1] = "%" .. i
    operands[#operands + 1] = ('"+f"(d[%d])'):format(i)
  end
  return fill(text "lib/ptx_sm90.cuh", {
    registers = registers, n = TILE_N, type = "f16",
    d_list = table.concat(list, ", "), d_operands = table.concat(operands, ", "),
    a_index = registers, b_index = registers + 1, accumulate_index = registers + 2, transpose_index = registers + 3,
  })
end

return {
  name = "wgmma_split_gemm",
  doc = "fp32-class GEMM on wgmma: operands split into two fp16 each, three products, sums promoted every 64 of K; dGELU and column sums fused in fc2_dgrad",
  roles = { "fc2_dgrad", "fc2_wgrad", "fc1_dgrad", "fc1_wgrad" },
  needs = { "wgmma", "tma", "mbarrier", "setmaxnreg" },
  accuracies = { "fp32" },
  rank = 5,
  operands = function(c)
    return gemm.operands(c, "_split")
  end,
  params = {
    { name = "slots", doc = "depth of the ring; a slot is hi or lo of both operands for 64 of K", values = { 5, 6 },
      default = function(c)
        return roles[c.role].gelu and 5 or 6
      end },
    { name = "group_m", doc = "tile rows walked together (raster order, L2 reuse)", values = { 1, 4, 8, 16 }, default = 8 },
    { name = "fetch_depth", doc = "pieces of intermediate (16 x 32 a warp) that the epilogue has in flight; 0: plain loads",
      values = { 0, 2 }, default = 2, roles = { "fc2_dgrad" } },
    split_k.parameter,
  },
  valid = function(c)
    if shared_bytes(c) + 1024 > c.arch.limits.shared_bytes then
      return false, "shared memory"
    end
    return true
  end,
  prune = function(c, problem)
    local p, role = c.p, roles[c.role]
    local rows = (problem[role.m] + TILE_M - 1) // TILE_M
    local why = gemm.split_prune(c, problem, rows * ((problem[role.n] + TILE_N - 1) // TILE_N)) or gemm.group_prune(c, rows)
    if why then
      return false, why
    end
    if p.group_m == 1 and rows > 4 then
      return false, "raster without groups"
    end
    if p.slots < 6 and shared_bytes(c) + (TILE_M + TILE_N) * 128 + 1024 <= c.arch.limits.shared_bytes then
      return false, "ring less deep than fits"
    end
    return true
  end,
  tile = function(c)
    return { m = TILE_M, n = TILE_N, parts = split_k.parts(c), operand_bytes = 4 }
  end,
  workspace = split_k.workspace,
  source = function(c)
    local p = c.p
    local values = gemm.values(c, "kernels/wgmma_split_gemm_store.cu", function(lowest_a)
      return fill(text "kernels/wgmma_split_gemm_dgelu.cu", { fetch_depth = p.fetch_depth })
    end, "work / tiles")
    values.ptx_sm90, values.split = wgmma(c), text "lib/split.cuh"
    values.slots = p.slots
    values.prefetch = roles[c.role].gelu and text "kernels/wgmma_split_gemm_prefetch.cu" or ""
    return fill(text "kernels/wgmma_split_gemm.cu", values)
  end,
  launches = function(c)
    local role = roles[c.role]
    local work = ("ceildiv(%s,%d)*ceildiv(%s,%d)*%d"):format(role.m, TILE_M, role.n, TILE_N, split_k.parts(c))
    return gemm.launches(c, { entry = "wgmma_split_gemm", grid = { ("min(UNITS,%s)"):format(work) }, block = 128 * (CONSUMERS + 1),
      shared = shared_bytes(c), tail = { work } }, "_split")
  end,
}
