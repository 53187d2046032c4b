-- The four GEMMs on mma.sync (Ampere and later), operands as scaled 16-bit copies; see mma_gemm.cu.
local roles = import "lib/roles.lua"
local gemm = import "lib/gemm16.lua"
local split_k = import "lib/split_k.lua"
local cuda = import "lib/cuda_text.lua"

local function threads(p)
  return (p.tile_m // 64) * (p.tile_n // p.warp_n) * 32
end

-- the ring; afterwards, in fc2_dgrad, the fp32 sums of every warp (rows padded by 8)
local function shared_bytes(c)
  local p = c.p
  local ring = p.stages * (p.tile_m + p.tile_n) * p.tile_k * 2
  local sums = roles[c.role].gelu and threads(p) // 32 * 64 * (p.warp_n + 8) * 4 or 0
  return math.max(ring, sums)
end

return {
  name = "mma_gemm",
  doc = "GEMM on mma.sync m16n8k16 with cp.async stages and ldmatrix(.trans); dGELU and column sums fused in fc2_dgrad",
  roles = { "fc2_dgrad", "fc2_wgrad", "fc1_dgrad", "fc1_wgrad" },
  needs = { "mma_sync", "ldmatrix", "cp_async" },
  accuracies = { "tf32", "bf16" },
  rank = 10,
  operands = function(c)
    return gemm.operands(c, "")
  end,
  params = {
    { name = "tile_m", doc = "rows of C a block computes", values = { 64, 128, 256 }, default = 128 },
    { name = "tile_n", doc = "columns of C a block computes", values = { 64, 128, 256 }, default = 128 },
    { name = "tile_k", doc = "K elements a stage holds", values = { 32, 64 }, default = 32 },
    { name = "warp_n", doc = "columns of C a warp computes (its rows are 64)", values = { 32, 64 }, default = 64 },
    { name = "stages", doc = "cp.async ring depth", values = { 3, 4, 5 }, default = 4 },
    { name = "group_m", doc = "tile rows walked together (raster order, L2 reuse)", values = { 1, 4, 8, 16 }, default = 8 },
    { name = "blocks_per_sm", doc = "blocks the register budget leaves room for", values = { 1, 2 }, default = 2 },
    split_k.parameter,
  },
  valid = function(c)
    local p, t = c.p, threads(c.p)
    local shared = shared_bytes(c)
    if t < 64 or t > 256 then
      return false, "between 64 and 256 threads"
    end
    if shared > c.arch.limits.shared_bytes then
      return false, "shared memory"
    end
    -- 64 x warp_n / 32 accumulators, two sets of fragments and addresses have to stay in registers
    local registers = 65536 // (t * p.blocks_per_sm)
    if registers < (p.warp_n == 64 and 220 or 150) then
      return false, "registers"
    end
    local function loadable(rows, columns)
      local step = t // (columns // 8)
      return step >= 8 and step % 8 == 0 and rows % step == 0
    end
    local a_loadable = loadable(p.tile_k, p.tile_m)
    if roles[c.role].a_k_major then
      a_loadable = loadable(p.tile_m, p.tile_k)
    end
    if not a_loadable or not loadable(p.tile_k, p.tile_n) then
      return false, "a thread's copies need rows in steps of eight"
    end
    return true
  end,
  prune = function(c, problem)
    local p, role = c.p, roles[c.role]
    if c.arch.features.wgmma then
      return false, "wgmma was faster at every T (bench/notes.md)"
    end
    local m, n = problem[role.m], problem[role.n]
    local blocks = ((m + p.tile_m - 1) // p.tile_m) * ((n + p.tile_n - 1) // p.tile_n)
    if p.tile_m > 64 and p.tile_m >= 2 * m then
      return false, "tile taller than the matrix"
    end
    local why = gemm.split_prune(c, problem, blocks)
    if why then
      return false, why
    end
    if p.group_m == 1 and m > 2 * p.tile_m then
      return false, "raster without groups"
    end
    why = gemm.group_prune(c, (m + p.tile_m - 1) // p.tile_m)
    if why then
      return false, why
    end
    if p.tile_m * p.tile_n < 128 * 128 and blocks > 16 * problem.units then
      return false, "small tile on a large matrix"
    end
    if p.tile_k == 32 and p.stages == 3 or p.tile_k == 64 and p.stages == 5 then
      return false, "stages out of proportion"
    end
    return true
  end,
  tile = function(c)
    local p = c.p
    return { m = p.tile_m, n = p.tile_n, parts = split_k.parts(c), overlap = p.blocks_per_sm > 1,
      share = c.arch.features.mbarrier and 0.6 or 1 } -- Hopper: 484 of 805 TFLOP/s (bench/notes.md); later ones: no better known
  end,
  workspace = split_k.workspace,
  source = function(c)
    local p = c.p
    local values = gemm.values(c, "kernels/mma_gemm_store.cu", function(lowest_a)
      return fill(text "kernels/mma_gemm_dgelu.cu", { pack = cuda.pack[c.accuracy], lowest_a = lowest_a })
    end, "blockIdx.y")
    values.tile_m, values.tile_n, values.tile_k, values.stages, values.warp_n = p.tile_m, p.tile_n, p.tile_k, p.stages, p.warp_n
    values.threads, values.blocks_per_sm, values.mma = threads(p), p.blocks_per_sm, cuda.mma[c.accuracy]
    values.prefetch = roles[c.role].gelu and text "kernels/mma_gemm_prefetch.cu" or ""
    return fill(text "kernels/mma_gemm.cu", values)
  end,
  launches = function(c)
    local p, role = c.p, roles[c.role]
    return gemm.launches(c, {
      entry = "mma_gemm", block = threads(p), shared = shared_bytes(c),
      grid = { ("ceildiv(%s,%d)*ceildiv(%s,%d)"):format(role.m, p.tile_m, role.n, p.tile_n), tostring(split_k.parts(c)) },
    }, "")
  end,
}
