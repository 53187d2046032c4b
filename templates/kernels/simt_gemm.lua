-- The four GEMMs in plain fp32 (any CUDA device); see simt_gemm.cu.
local roles = import "lib/roles.lua"
local split_k = import "lib/split_k.lua"
local variable = import "lib/sizes.lua"

return {
  name = "simt_gemm",
  doc = "fp32 FFMA GEMM with promoted sums; dGELU and column sums fused in fc2_dgrad",
  roles = { "fc2_dgrad", "fc2_wgrad", "fc1_dgrad", "fc1_wgrad" },
  needs = { "cuda" },
  accuracies = { "fp32" },
  rank = 50,
  operands = function(c)
    local list = { { name = "a", access = "in" }, { name = "b", access = "in" } }
    if roles[c.role].gelu then
      list[#list + 1] = { name = "intermediate", access = "in" }
      list[#list + 1] = { name = "grad_intermediate", access = "out" }
      list[#list + 1] = { name = "column_partials", access = "out" }
    else
      list[#list + 1] = { name = "out", access = "out" }
    end
    return list
  end,
  params = {
    { name = "tile_m", doc = "rows of C a block computes (its columns are 128)", values = { 64, 128 }, default = 128 },
    { name = "tile_k", doc = "K elements a stage holds", values = { 8, 16 }, default = 16 },
    { name = "promote", doc = "length of K after which sums are added to totals", values = { 256, 512 }, default = 512 },
    { name = "group_m", doc = "tile rows walked together (raster order, L2 reuse)", values = { 1, 8 }, default = 8 },
    split_k.parameter,
  },
  valid = function(c)
    if c.p.tile_m * c.p.tile_k < 1024 then
      return false, "less than one float4 a thread"
    end
    return true
  end,
  prune = function(c, problem)
    local p, role = c.p, roles[c.role]
    local m, n, k = problem[role.m], problem[role.n], problem[role.k]
    local blocks = ((m + p.tile_m - 1) // p.tile_m) * ((n + 127) // 128)
    if not role.gelu and p.split_k > 1 and (blocks * p.split_k > 8 * problem.units or k // p.split_k < 512) then
      return false, "split-K without a need for more blocks"
    end
    if p.tile_m == 64 and blocks > 16 * problem.units then
      return false, "small tile on a large matrix"
    end
    return true
  end,
  tile = function(c)
    -- 128 multiply-adds a clock and multiprocessor since Hopper, 64 before (CUDA C++ Programming Guide, throughput)
    return { m = c.p.tile_m, n = 128, parts = split_k.parts(c), operand_bytes = 4,
      share = (c.arch.features.mbarrier and 256 or 128) / c.arch.rates.fp32 }
  end,
  workspace = split_k.workspace,
  source = function(c)
    local p, role = c.p, roles[c.role]
    local values = {
      base = text "lib/base.cuh", ptx = text "lib/ptx.cuh", raster = text "lib/raster.cuh", gelu = role.gelu and text "lib/gelu.cuh" or "",
      tile_m = p.tile_m, tile_k = p.tile_k, promote = p.promote,
      a_k_major = role.a_k_major, m = variable[role.m], n = variable[role.n], k = variable[role.k],
      split_reduction = split_k.reduction(c),
    }
    if role.gelu then
      values.epilogue_parameters = "const float *__restrict__ intermediate, float *grad_intermediate, float *column_partials,"
      values.epilogue = text "kernels/simt_gemm_dgelu.cu"
    else
      values.epilogue_parameters = "float *out,"
      values.epilogue = split_k.store(c, "kernels/simt_gemm_store.cu", "out + blockIdx.y * M * N")
    end
    return fill(text "kernels/simt_gemm.cu", values)
  end,
  launches = function(c)
    local p, role, parts = c.p, roles[c.role], tostring(split_k.parts(c))
    local function launch(rest, option)
      local arguments = { { name = "a" }, { name = "b" } }
      table.move(rest, 1, #rest, #arguments + 1, arguments)
      for _, value in ipairs { "T", "H", "I", option, tostring(p.group_m), parts } do
        arguments[#arguments + 1] = { i32 = value }
      end
      return { entry = "simt_gemm", grid = { ("ceildiv(%s,%d)*ceildiv(%s,128)"):format(role.m, p.tile_m, role.n), parts },
        block = { 256 }, args = arguments }
    end
    if not role.gelu then
      return split_k.launches(c, launch)
    end
    return { launch({ { name = "intermediate" }, { name = "grad_intermediate" }, { name = "column_partials" } }, "ACTIVATION") }
  end,
}
