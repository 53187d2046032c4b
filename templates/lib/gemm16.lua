-- What the GEMM families over scaled 16-bit operands share: operands, launches and the values of their texts. `layout` is
-- a suffix of the operands' names, "" (row-major) or "_blocks" (64 x 64 blocks): families of one layout compete for a
-- role, and a pipeline cannot give one the other's operands.
local roles = import "lib/roles.lua"
local cuda = import "lib/cuda_text.lua"
local split_k = import "lib/split_k.lua"
local variable = import "lib/sizes.lua"

local M = {}

function M.operands(c, layout)
  local list = { { name = "a" .. layout, access = "in" }, { name = "b" .. layout, access = "in" },
    { name = "scale_a", access = "in" }, { name = "scale_b", access = "in" } }
  if roles[c.role].gelu then
    list[#list + 1] = { name = "scale_out", access = "inout" }
    list[#list + 1] = { name = "intermediate", access = "in" }
    list[#list + 1] = { name = "grad_intermediate" .. layout, access = "out" }
    list[#list + 1] = { name = "column_partials", access = "out" }
  else
    list[#list + 1] = { name = "out", access = "out" }
  end
  return list
end

-- why a split into parts is not worth timing, or nil; blocks: thread blocks without it
function M.split_prune(c, problem, blocks)
  local parts, k = split_k.parts(c), problem[roles[c.role].k]
  if parts > 1 and blocks * parts > 4 * problem.units then
    return "split-K without a need for more blocks"
  end
  if parts > 1 and k // parts < 512 then
    return "split-K parts too short"
  end
  if parts == 1 and not roles[c.role].gelu and blocks * 4 < problem.units and k >= 4096 then
    return "too few blocks without split-K"
  end
end

-- why a raster group is not worth timing, or nil: taller than the matrix of `rows` tile rows
function M.group_prune(c, rows)
  if c.p.group_m > 4 and rows <= c.p.group_m // 2 then
    return "group taller than the matrix"
  end
end

-- values of the holes that every family's text has; store: path of its store epilogue, dgelu: function that gives the
-- text of the other, part: the index of a block's part of K in C
function M.values(c, store, dgelu, part)
  local role = roles[c.role]
  local lowest_a = role.a_is_input and "LOWEST_INPUT" or "LOWEST_INTERMEDIATE"
  local values = {
    base = text "lib/base.cuh", ptx = text "lib/ptx.cuh", raster = text "lib/raster.cuh", scale = cuda.scale(c.accuracy),
    gelu = role.gelu and text "lib/gelu.cuh" or "", a_k_major = role.a_k_major,
    m = variable[role.m], n = variable[role.n], k = variable[role.k], lowest_a = lowest_a,
    split_reduction = split_k.reduction(c),
  }
  if role.gelu then
    values.epilogue_parameters = "Scale *scale_out, const float *__restrict__ intermediate, u16 *grad_intermediate, float *column_partials, int attempt,"
    -- the second attempt runs only if the guessed exponent did not fit what the first one saw
    values.early_exit = "if (attempt == 1 && !guess_missed(scale_out, LOWEST_INTERMEDIATE))\n        return;"
    values.epilogue = dgelu(lowest_a)
  else
    values.epilogue_parameters = "float *out,"
    values.early_exit = ""
    values.epilogue = split_k.store(c, store, ("out + (i64)(%s) * M * N"):format(part))
  end
  return values
end

-- the launches; geometry: {entry=, grid=, block=, shared=} of the GEMM itself, tail: launch expressions of further integer
-- arguments, beside: arguments of what the dGELU launches also do
function M.launches(c, geometry, layout)
  local function launch(rest, option)
    local arguments = { { name = "a" .. layout }, { name = "b" .. layout }, { name = "scale_a" }, { name = "scale_b" } }
    table.move(rest, 1, #rest, #arguments + 1, arguments)
    for _, value in ipairs { "T", "H", "I", option, tostring(c.p.group_m), tostring(split_k.parts(c)) } do
      arguments[#arguments + 1] = { i32 = value }
    end
    for _, value in ipairs(geometry.tail or {}) do
      arguments[#arguments + 1] = { i32 = value }
    end
    return { entry = geometry.entry, grid = geometry.grid, block = { geometry.block }, shared = tostring(geometry.shared), args = arguments }
  end
  if not roles[c.role].gelu then
    return split_k.launches(c, launch)
  end
  local function attempt(number)
    local rest = { { name = "scale_out" }, { name = "intermediate" }, { name = "grad_intermediate" .. layout },
      { name = "column_partials" }, { i32 = tostring(number) } }
    local beside = geometry.beside or {}
    return launch(table.move(beside, 1, #beside, #rest + 1, rest), "ACTIVATION")
  end
  return { attempt(0), attempt(1) }
end

return M
