-- The four GEMMs in plain fp32 (any CUDA device); see simt_gemm.cu.
local roles = import "lib/roles.lua"

local variable = { T = "tokens", H = "hidden_size", I = "intermediate_size" }

local function split(c)
  return roles[c.role].gelu and 1 or c.p.split_k
end

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
    { name = "split_k", doc = "parts of K, summed in order by a second launch", values = { 1, 2, 4, 8 }, default = 1,
      roles = { "fc2_wgrad", "fc1_dgrad", "fc1_wgrad" } },
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
      base = text "lib/base.cuh", ptx = text "lib/ptx.cuh", raster = text "lib/raster.cuh", gelu = role.gelu and text "lib/gelu.cuh" or "",
      tile_m = p.tile_m, tile_k = p.tile_k, promote = p.promote,
      a_k_major = role.a_k_major, m = variable[role.m], n = variable[role.n], k = variable[role.k],
      split_reduction = parts > 1 and text "lib/split_reduce.cuh" or "",
    }
    if role.gelu then
      values.epilogue_parameters = "const float *__restrict__ intermediate, float *grad_intermediate, float *column_partials,"
      values.epilogue = text "kernels/simt_gemm_dgelu.cu"
    else
      values.epilogue_parameters = "float *out,"
      values.epilogue = fill(text "kernels/simt_gemm_store.cu", {
        store_target = parts > 1 and "out + blockIdx.y * M * N" or "out",
        accumulate_here = parts > 1 and "false" or "option",
      })
    end
    return fill(text "kernels/simt_gemm.cu", values)
  end,
  launches = function(c)
    local p, role, parts = c.p, roles[c.role], split(c)
    local grid = { ("ceildiv(%s,%d)*ceildiv(%s,128)"):format(role.m, p.tile_m, role.n), tostring(parts) }
    local accumulate = role.accumulates and "ACCUMULATE" or "0"
    local function launch(arguments, option)
      for _, size in ipairs { "T", "H", "I" } do
        arguments[#arguments + 1] = { i32 = size }
      end
      for _, value in ipairs { option, tostring(p.group_m), tostring(parts) } do
        arguments[#arguments + 1] = { i32 = value }
      end
      return { entry = "simt_gemm", grid = grid, block = { 256 }, args = arguments }
    end
    if role.gelu then
      return { launch({ { name = "a" }, { name = "b" }, { name = "intermediate" }, { name = "grad_intermediate" },
        { name = "column_partials" } }, "ACTIVATION") }
    end
    if parts == 1 then
      return { launch({ { name = "a" }, { name = "b" }, { name = "out" } }, accumulate) }
    end
    local quads = ("%s*%s/4"):format(role.m, role.n)
    return {
      launch({ { name = "a" }, { name = "b" }, { name = "parts", access = "out" } }, "0"),
      { entry = "split_reduce", grid = { ("ceildiv(%s,256)"):format(quads) }, block = { 256 },
        args = { { name = "parts", access = "in" }, { name = "out" }, { i64 = quads }, { i32 = tostring(parts) }, { i32 = accumulate } } },
    }
  end,
}
