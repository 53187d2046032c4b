-- The four GEMMs on tcgen05 (data-centre Blackwell), operands as scaled 16-bit copies in 64 x 64 blocks; see umma_gemm.cu.
local roles = import "lib/roles.lua"
local gemm = import "lib/gemm16.lua"
local split_k = import "lib/split_k.lua"
local umma = import "lib/umma.lua"
local cuda = import "lib/cuda_text.lua"

local operand_type = { tf32 = 0, bf16 = 1 } -- umma_instruction in ptx_sm100.cuh

local function ctas(p)
  return p.pair and 2 or 1
end

-- the ring; in fc2_dgrad also, for each writing warp, 16 rows of a slice of sums, as much of `intermediate`, and two rows
-- of column sums
local function used_bytes(c, stages)
  local p = c.p
  local ring = (stages or p.stages) * (128 + p.tile_n // ctas(p)) * 128
  if not roles[c.role].gelu then
    return ring
  end
  return ring + p.writers * 4 * p.slice * 4 * (16 * 2 + 2)
end

-- with 1 KiB for barriers
local function fits(c, stages)
  return used_bytes(c, stages) + 1024 <= c.arch.limits.shared_bytes
end

return {
  name = "umma_gemm",
  doc = "persistent warp-specialised GEMM on tcgen05 with two accumulators in tensor memory, one block or a pair a tile; dGELU and column sums fused in fc2_dgrad",
  roles = { "fc2_dgrad", "fc2_wgrad", "fc1_dgrad", "fc1_wgrad" },
  needs = { "tcgen05", "tmem", "clc", "tma", "mbarrier", "cluster" },
  accuracies = { "tf32", "bf16" },
  rank = 5,
  operands = function(c)
    return gemm.operands(c, "_blocks")
  end,
  params = {
    { name = "pair", doc = "two blocks of a cluster work on tiles of 256 rows together", values = { false, true }, default = true },
    { name = "tile_n", doc = "columns of C a tile has", values = { 64, 128, 192, 256 }, default = 256 },
    { name = "stages", doc = "depth of the ring of operand blocks", values = { 3, 4, 5, 6, 7 },
      default = function(c)
        return roles[c.role].gelu and 5 or 6
      end },
    { name = "writers", doc = "warpgroups that write results", values = { 1, 2 }, default = 1 },
    { name = "slice", doc = "columns of sums that a writing warp takes up at once", values = { 32, 64 }, default = 64 },
    { name = "schedule", doc = "which work a block goes on to: fixed, or that of blocks which have not started (cluster launch control)",
      values = { "static", "stealing" }, default = "static" },
    { name = "group_m", doc = "tile rows walked together (raster order, L2 reuse)", values = { 1, 4, 8, 16 }, default = 8 },
    split_k.parameter,
  },
  valid = function(c)
    local p = c.p
    if p.pair and p.tile_n % 128 ~= 0 then
      return false, "a pair's halves of B in whole blocks"
    end
    if p.tile_n % (p.slice * p.writers) ~= 0 then
      return false, "slices for every writer"
    end
    if not fits(c) then
      return false, "shared memory"
    end
    return true
  end,
  prune = function(c, problem)
    local p, role = c.p, roles[c.role]
    local m, n = problem[role.m], problem[role.n]
    local height = 128 * ctas(p)
    local rows = (m + height - 1) // height
    local count = rows * ((n + p.tile_n - 1) // p.tile_n) * ctas(p)
    local why = gemm.split_prune(c, problem, count) or gemm.group_prune(c, rows)
    if why then
      return false, why
    end
    if p.pair and 128 >= m then
      return false, "tile taller than the matrix"
    end
    if p.tile_n >= n + 64 then
      return false, "tile wider than the matrix"
    end
    if p.stages + 2 <= 7 and fits(c, p.stages + 2) then
      return false, "ring far less deep than fits"
    end
    if p.group_m == 1 and rows > 4 then
      return false, "raster without groups"
    end
    if p.schedule == "stealing" and count * split_k.parts(c) <= problem.units then
      return false, "stealing where every tile has a block"
    end
    return true
  end,
  workspace = split_k.workspace,
  source = function(c)
    local p, role = c.p, roles[c.role]
    local values = gemm.values(c, "kernels/umma_gemm_store.cu", function()
      return fill(text "kernels/umma_gemm_dgelu.cu", { pack = cuda.pack[c.accuracy] })
    end, "work / tiles")
    umma.texts(values)
    values.ctas, values.cluster = ctas(p), p.pair and "__cluster_dims__(2, 1, 1)" or ""
    values.tile_n, values.stages, values.writers, values.slice = p.tile_n, p.stages, p.writers, p.slice
    values.stealing = p.schedule == "stealing"
    -- the second attempt seldom has anything to do: it starts few blocks
    values.steals_now = role.gelu and "attempt == 0" or "true"
    values.operand_type = operand_type[c.accuracy]
    values.split = split_k.parts(c) > 1
    values.setup = role.gelu and text "kernels/wgmma_gemm_setup.cu" or ""
    values.writer_state = role.gelu and "u32 exchanges = 0; /* of column sums */" or ""
    return fill(text "kernels/umma_gemm.cu", values)
  end,
  launches = function(c)
    local p, role = c.p, roles[c.role]
    local tiles_m, tiles_n = ("ceildiv(%s,%d)"):format(role.m, 128 * ctas(p)), ("ceildiv(%s,%d)"):format(role.n, p.tile_n)
    local work = ("%s*%s*%d"):format(tiles_m, tiles_n, split_k.parts(c))
    local stealing = p.schedule == "stealing"
    local few = p.pair and ("2*min(max(UNITS/2,1),%s)"):format(work) or ("min(UNITS,%s)"):format(work)
    local all = p.pair and "2*" .. work or work
    local list = gemm.launches(c, {
      entry = "umma_gemm", grid = { stealing and all or few }, block = 32 * (p.writers * 4 + (stealing and 3 or 2)),
      shared = umma.alone(used_bytes(c), c.arch.limits.shared_bytes),
      tail = { work, tiles_m, tiles_n, ("ceildiv(ceildiv(%s,64),%d)"):format(role.k, split_k.parts(c)) },
    }, "_blocks")
    if role.gelu then
      list[2].grid = { few }
    end
    return list
  end,
}
