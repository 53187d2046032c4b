-- The four GEMMs on mma.sync (Ampere and later), operands as scaled 16-bit copies; see mma_gemm.cu.
local roles = import "lib/roles.lua"
local cuda = import "lib/cuda_text.lua"

local variable = { T = "tokens", H = "hidden_size", I = "intermediate_size" }

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

local function split(c)
  return roles[c.role].gelu and 1 or c.p.split_k
end

return {
  name = "mma_gemm",
  doc = "GEMM on mma.sync m16n8k16 with cp.async stages and ldmatrix(.trans); dGELU and column sums fused in fc2_dgrad",
  roles = { "fc2_dgrad", "fc2_wgrad", "fc1_dgrad", "fc1_wgrad" },
  needs = { "mma_sync", "ldmatrix", "cp_async" },
  accuracies = { "tf32", "bf16" },
  rank = 10,
  operands = function(c)
    local list = { { name = "a", access = "in" }, { name = "b", access = "in" },
      { name = "scale_a", access = "in" }, { name = "scale_b", access = "in" } }
    if roles[c.role].gelu then
      list[#list + 1] = { name = "scale_out", access = "inout" }
      list[#list + 1] = { name = "intermediate", access = "in" }
      list[#list + 1] = { name = "grad_intermediate", access = "out" }
      list[#list + 1] = { name = "column_partials", access = "out" }
    else
      list[#list + 1] = { name = "out", access = "out" }
    end
    return list
  end,
  params = {
    { name = "tile_m", doc = "rows of C a block computes", values = { 64, 128, 256 }, default = 128 },
    { name = "tile_n", doc = "columns of C a block computes", values = { 64, 128, 256 }, default = 128 },
    { name = "tile_k", doc = "K elements a stage holds", values = { 32, 64 }, default = 32 },
    { name = "warp_n", doc = "columns of C a warp computes (its rows are 64)", values = { 32, 64 }, default = 64 },
    { name = "stages", doc = "cp.async ring depth", values = { 3, 4, 5 }, default = 4 },
    { name = "group_m", doc = "tile rows walked together (raster order, L2 reuse)", values = { 1, 4, 8, 16 }, default = 8 },
    { name = "blocks_per_sm", doc = "blocks the register budget leaves room for", values = { 1, 2 }, default = 2 },
    { name = "split_k", doc = "parts of K, summed in order by a second launch", values = { 1, 2, 4, 8 }, default = 1,
      roles = { "fc2_wgrad", "fc1_dgrad", "fc1_wgrad" } },
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
    if p.blocks_per_sm == 2 and t > 128 and p.warp_n == 64 then
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
    local m, n, k = problem[role.m], problem[role.n], problem[role.k]
    local blocks = ((m + p.tile_m - 1) // p.tile_m) * ((n + p.tile_n - 1) // p.tile_n)
    if p.tile_m > 64 and p.tile_m >= 2 * m then
      return false, "tile taller than the matrix"
    end
    if not role.gelu then
      if p.split_k > 1 and blocks * p.split_k > 4 * problem.units then
        return false, "split-K without a need for more blocks"
      end
      if p.split_k > 1 and k // p.split_k < 512 then
        return false, "split-K parts too short"
      end
      if p.split_k == 1 and blocks * 4 < problem.units and k >= 4096 then
        return false, "too few blocks without split-K"
      end
    end
    if p.group_m == 1 and m > 2 * p.tile_m then
      return false, "raster without groups"
    end
    if p.group_m > 4 and (m + p.tile_m - 1) // p.tile_m <= p.group_m // 2 then
      return false, "group taller than the matrix"
    end
    if p.tile_m * p.tile_n < 128 * 128 and blocks > 16 * problem.units then
      return false, "small tile on a large matrix"
    end
    if p.tile_k == 32 and p.stages == 3 or p.tile_k == 64 and p.stages == 5 then
      return false, "stages out of proportion"
    end
    return true
  end,
  workspace = function(c)
    local role, parts = roles[c.role], split(c)
    if parts == 1 then
      return {}
    end
    return { { name = "parts", size = ("4*%d*%s*%s"):format(parts, role.m, role.n) } }
  end,
  source = function(c)
    local p, role, parts = c.p, roles[c.role], split(c)
    local values = {
      base = text "lib/base.cuh",
      ptx = text "lib/ptx.cuh", raster = text "lib/raster.cuh",
      scale = cuda.scale(c.accuracy),
      gelu = role.gelu and text "lib/gelu.cuh" or "",
      tile_m = p.tile_m, tile_n = p.tile_n, tile_k = p.tile_k, stages = p.stages, warp_n = p.warp_n,
      threads = threads(p), blocks_per_sm = p.blocks_per_sm,
      a_k_major = role.a_k_major,
      m = variable[role.m], n = variable[role.n], k = variable[role.k],
      lowest_a = role.a_is_input and "LOWEST_INPUT" or "LOWEST_INTERMEDIATE",
      mma = cuda.mma[c.accuracy],
      split_reduction = parts > 1 and text "lib/split_reduce.cuh" or "",
    }
    if role.gelu then
      values.epilogue_parameters = "Scale *scale_out, const float *__restrict__ intermediate, u16 *grad_intermediate, float *column_partials, int attempt,"
      -- the second attempt runs only if the guessed exponent did not fit what the first one saw
      values.early_exit = "if (attempt == 1 && scale_out->guess == exponent_in_force(scale_out, LOWEST_INTERMEDIATE))\n        return;"
      values.prefetch = fill(text "kernels/mma_gemm_prefetch.cu", {})
      values.epilogue = fill(text "kernels/mma_gemm_dgelu.cu", { pack = cuda.pack[c.accuracy], lowest_a = values.lowest_a })
    else
      values.epilogue_parameters = "float *out,"
      values.early_exit = ""
      values.prefetch = ""
      values.epilogue = fill(text "kernels/mma_gemm_store.cu", {
        store_target = parts > 1 and "out + blockIdx.y * M * N" or "out",
        accumulate_here = parts > 1 and "false" or "option",
      })
    end
    return fill(text "kernels/mma_gemm.cu", values)
  end,
  launches = function(c)
    local p, role, parts = c.p, roles[c.role], split(c)
    local grid = { ("ceildiv(%s,%d)*ceildiv(%s,%d)"):format(role.m, p.tile_m, role.n, p.tile_n), tostring(parts) }
    local sizes = { { i32 = "T" }, { i32 = "H" }, { i32 = "I" } }
    local accumulate = role.accumulates and "ACCUMULATE" or "0"
    local function launch(arguments, option)
      for _, size in ipairs(sizes) do
        arguments[#arguments + 1] = size
      end
      for _, value in ipairs { option, tostring(p.group_m), tostring(parts) } do
        arguments[#arguments + 1] = { i32 = value }
      end
      return { entry = "mma_gemm", grid = grid, block = { threads(p) }, shared = tostring(shared_bytes(c)), args = arguments }
    end
    if role.gelu then
      local function attempt(number)
        return launch({ { name = "a" }, { name = "b" }, { name = "scale_a" }, { name = "scale_b" }, { name = "scale_out" },
          { name = "intermediate" },
          { name = "grad_intermediate" }, { name = "column_partials" }, { i32 = tostring(number) } }, "ACTIVATION")
      end
      return { attempt(0), attempt(1) }
    end
    if parts == 1 then
      return { launch({ { name = "a" }, { name = "b" }, { name = "scale_a" }, { name = "scale_b" }, { name = "out" } }, accumulate) }
    end
    local quads = ("%s*%s/4"):format(role.m, role.n)
    return {
      launch({ { name = "a" }, { name = "b" }, { name = "scale_a" }, { name = "scale_b" }, { name = "parts", access = "out" } }, "0"),
      { entry = "split_reduce", grid = { ("ceildiv(%s,256)"):format(quads) }, block = { 256 },
        args = { { name = "parts", access = "in" }, { name = "out" }, { i64 = quads }, { i32 = tostring(parts) }, { i32 = accumulate } } },
    }
  end,
}
