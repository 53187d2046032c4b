-- What the tcgen05 GEMM families share (umma_gemm.cu, umma_split_gemm.cu, umma.cuh).
local roles = import "lib/roles.lua"
local gemm = import "lib/gemm16.lua"
local split_k = import "lib/split_k.lua"

local M = {}

M.needs = { "tcgen05", "tmem", "clc", "tma", "mbarrier", "cluster" }

M.pair = { name = "pair", doc = "two blocks of a cluster work on tiles of 256 rows together", values = { false, true }, default = true }
M.schedule = { name = "schedule",
  doc = "which work a block goes on to: fixed, or that of blocks which have not started (cluster launch control)",
  values = { "static", "stealing" }, default = "static" }
M.group_m = { name = "group_m", doc = "tile rows walked together (raster order, L2 reuse)", values = { 1, 4, 8, 16 }, default = 8 }

-- blocks that work on a tile together
function M.ctas(p)
  return p.pair and 2 or 1
end

-- for predicted times (a kernel's `tile`); overlap: results are written under the next tile's main loop
function M.tile(c, tile_n, operand_bytes, overlap)
  local blocks = M.ctas(c.p)
  return { m = 128 * blocks, n = tile_n, parts = split_k.parts(c), blocks = blocks, operand_bytes = operand_bytes, overlap = overlap }
end

-- why a variant is not worth timing, or nil
function M.prune(c, problem, tile_n)
  local p, role = c.p, roles[c.role]
  local m, n, height = problem[role.m], problem[role.n], 128 * M.ctas(p)
  local rows = (m + height - 1) // height
  local blocks = rows * ((n + tile_n - 1) // tile_n) * M.ctas(p)
  if p.pair and m <= 128 then
    return "tile taller than the matrix"
  end
  if p.group_m == 1 and rows > 4 then
    return "raster without groups"
  end
  if p.schedule == "stealing" and blocks * split_k.parts(c) <= problem.units then
    return "stealing where every tile has a block"
  end
  return gemm.split_prune(c, problem, blocks) or gemm.group_prune(c, rows)
end

-- Hopper's wrappers but for wgmma, which these architectures lack: its part goes from its first section to the last
local function without_wgmma()
  local rest, parts = text("lib/ptx_sm90.cuh"):gsub("/%* 9%.7%.15%.7 .-#endif\n", "#endif\n")
  assert(parts == 1, "lib/ptx_sm90.cuh: where wgmma begins and ends has changed")
  return rest
end

-- values of the common holes; rings: their declaration; store: path of the store epilogue; dgelu: values of the dGELU
-- epilogue's holes
function M.values(c, rings, store, dgelu)
  local p, gelu = c.p, roles[c.role].gelu
  local values = gemm.values(c, store, function()
    return fill(text "kernels/umma_gemm_dgelu.cu", dgelu)
  end, "walk.work / tiles")
  values.ptx_sm90 = without_wgmma()
  values.ptx_cluster, values.ptx_sm100, values.umma = text "lib/ptx_cluster.cuh", text "lib/ptx_sm100.cuh", text "lib/umma.cuh"
  values.ctas, values.cluster = M.ctas(p), p.pair and "__cluster_dims__(2, 1, 1)" or ""
  values.stages, values.stealing, values.split = p.stages, p.schedule == "stealing", split_k.parts(c) > 1
  values.start = fill(text "kernels/umma_gemm_start.cu", {
    lowest_a = values.lowest_a, rings = rings,
    -- the second attempt seldom has anything to do: it starts few blocks
    steals_now = gelu and "attempt == 0" or "true",
    setup = gelu and text "kernels/umma_gemm_setup.cu" or "",
  })
  values.lowest_a = nil
  values.prefetch = gelu and text "kernels/umma_gemm_prefetch.cu" or ""
  values.writer_state = gelu and "u32 exchanges = 0; /* of column sums */" or ""
  return values
end

-- bytes of the dGELU epilogue: for each writing warp 16 rows of a slice of sums, as much of `intermediate`, and two rows
-- of column sums
function M.epilogue_bytes(c, writers, slice)
  return roles[c.role].gelu and writers * 4 * slice * 4 * (16 * 2 + 2) or 0
end

-- with 1 KiB for barriers
function M.fits(c, bytes)
  return bytes + 1024 <= c.arch.limits.shared_bytes
end

-- the launches; bytes: shared memory that is used. Each takes at least more than half of what a multiprocessor has, so no
-- two blocks of these kernels share one: pairs that each hold the tensor memory which the other waits for would never end.
function M.launches(c, entry, tile_n, writers, bytes, layout)
  local p, role = c.p, roles[c.role]
  local tiles_m, tiles_n = ("ceildiv(%s,%d)"):format(role.m, 128 * M.ctas(p)), ("ceildiv(%s,%d)"):format(role.n, tile_n)
  local work = ("%s*%s*%d"):format(tiles_m, tiles_n, split_k.parts(c))
  local stealing = p.schedule == "stealing"
  local few = p.pair and ("2*min(max(UNITS/2,1),%s)"):format(work) or ("min(UNITS,%s)"):format(work)
  local all = p.pair and "2*" .. work or work
  local list = gemm.launches(c, {
    entry = entry, grid = { stealing and all or few }, block = 32 * (writers * 4 + (stealing and 3 or 2)),
    shared = math.max(bytes, (c.arch.limits.shared_bytes // 2 + 1023) // 1024 * 1024),
    tail = { work, tiles_m, tiles_n, ("ceildiv(ceildiv(%s,64),%d)"):format(role.k, split_k.parts(c)) },
  }, layout)
  if role.gelu then
    list[2].grid = { few }
  end
  return list
end

return M
