-- The four GEMMs on wgmma (Hopper), operands as scaled 16-bit copies in 64 x 64 blocks; see wgmma_gemm.cu.
local roles = import "lib/roles.lua"
local gemm = import "lib/gemm16.lua"
local split_k = import "lib/split_k.lua"
local cuda = import "lib/cuda_text.lua"

local CONSUMERS = 2

local function tile_m(p)
  return (p.ping_pong and 1 or CONSUMERS) * p.tiles_m * 64
end

-- the ring; in fc2_dgrad also, for each warp, 16 rows x 40 of sums, column sums, and pieces of `intermediate`
local function shared_bytes(c)
  local p = c.p
  local ring = p.stages * (tile_m(p) + p.tile_n) * 128
  if not roles[c.role].gelu then
    return ring
  end
  return ring + CONSUMERS * 4 * ((16 * 40 + p.tile_n) * 4 + 2048 * p.fetch_depth)
end

local type_name = { tf32 = "f16", bf16 = "bf16" }

local function wgmma(c)
  local registers = c.p.tile_n // 2
  local list, operands = {}, {}
  for i = 0, registers - 1 do
    list[#list + 1] = "%" .. i
    operands[#operands + 1] = ('"+f"(d[%d])'):format(i)
  end
  return fill(text "lib/ptx_sm90.cuh", {
    registers = registers, n = c.p.tile_n, type = type_name[c.accuracy],
    d_list = table.concat(list, ", "), d_operands = table.concat(operands, ", "),
    a_index = registers, b_index = registers + 1, accumulate_index = registers + 2, transpose_index = registers + 3,
  })
end

local function tiles(c)
  local p, role = c.p, roles[c.role]
  return ("ceildiv(%s,%d)*ceildiv(%s,%d)"):format(role.m, tile_m(p), role.n, p.tile_n)
end

return {
  name = "wgmma_gemm",
  doc = "persistent warp-specialised GEMM on wgmma with bulk copies of pre-swizzled blocks; dGELU and column sums fused in fc2_dgrad",
  roles = { "fc2_dgrad", "fc2_wgrad", "fc1_dgrad", "fc1_wgrad" },
  needs = { "wgmma", "tma", "mbarrier", "setmaxnreg" },
  accuracies = { "tf32", "bf16" },
  rank = 5,
  operands = function(c)
    return gemm.operands(c, "_blocks")
  end,
  params = {
    { name = "ping_pong", doc = "the two consumers work on tiles of their own, one's epilogue under the other's main loop",
      values = { false, true }, default = false },
    { name = "tiles_m", doc = "64-row tiles a consumer warpgroup computes", values = { 1, 2 }, default = 1 },
    { name = "tile_n", doc = "columns of C a block computes", values = { 128, 192, 256 }, default = 256 },
    { name = "stages", doc = "depth of the ring of operand blocks", values = { 3, 4, 5, 6 }, default = 4 },
    { name = "group_m", doc = "tile rows walked together (raster order, L2 reuse)", values = { 1, 4, 8, 16 }, default = 8 },
    { name = "fetch_depth", doc = "pieces of intermediate (16 x 32 a warp) that the epilogue has in flight; 0: plain loads",
      values = { 0, 2, 4 }, default = 0, roles = { "fc2_dgrad" } },
    split_k.parameter,
  },
  valid = function(c)
    local p = c.p
    local accumulators = p.tiles_m * p.tile_n // 2
    if accumulators > 192 then
      return false, "accumulators"
    end
    -- measured by the compiler: beside 192 accumulators these do not fit 240 registers
    if accumulators == 192 and (roles[c.role].gelu or p.ping_pong and roles[c.role].a_k_major) then
      return false, "registers"
    end
    if shared_bytes(c) + 1024 > c.arch.limits.shared_bytes then
      return false, "shared memory"
    end
    return true
  end,
  prune = function(c, problem)
    local p, role = c.p, roles[c.role]
    local m, n = problem[role.m], problem[role.n]
    local height = tile_m(p)
    local count = ((m + height - 1) // height) * ((n + p.tile_n - 1) // p.tile_n)
    local why = gemm.split_prune(c, problem, count)
    if why then
      return false, why
    end
    if height > 64 and height >= 2 * m then
      return false, "tile taller than the matrix"
    end
    local deeper = { role = c.role, p = { ping_pong = p.ping_pong, tiles_m = p.tiles_m, tile_n = p.tile_n, stages = p.stages + 2,
      fetch_depth = roles[c.role].gelu and p.fetch_depth } }
    if p.stages + 2 <= 6 and shared_bytes(deeper) + 1024 <= c.arch.limits.shared_bytes then
      return false, "ring far less deep than fits"
    end
    if p.group_m == 1 and m > 4 * height then
      return false, "raster without groups"
    end
    why = gemm.group_prune(c, (m + height - 1) // height)
    if why then
      return false, why
    end
    return true
  end,
  workspace = split_k.workspace,
  source = function(c)
    local p = c.p
    local values = gemm.values(c, "kernels/wgmma_gemm_store.cu", function(lowest_a)
      return fill(text "kernels/wgmma_gemm_dgelu.cu", { pack = cuda.pack[c.accuracy], fetch_depth = p.fetch_depth })
    end, "work / tiles")
    values.ptx_sm90, values.operand_type = wgmma(c), type_name[c.accuracy]
    values.ping_pong, values.tiles_m, values.tile_n, values.stages = p.ping_pong, p.tiles_m, p.tile_n, p.stages
    values.prefetch = roles[c.role].gelu and text "kernels/wgmma_gemm_prefetch.cu" or ""
    local many = p.tiles_m * p.tile_n // 2 > 128
    values.producer_registers, values.consumer_registers = many and 24 or 40, many and 240 or 232
    return fill(text "kernels/wgmma_gemm.cu", values)
  end,
  launches = function(c)
    local work = ("%s*%d"):format(tiles(c), split_k.parts(c))
    return gemm.launches(c, { entry = "wgmma_gemm", grid = { ("min(UNITS,%s)"):format(work) }, block = 128 * (CONSUMERS + 1),
      shared = shared_bytes(c), tail = { work } }, "_blocks")
  end,
}
