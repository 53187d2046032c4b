-- Split-K with an ordered reduction, for every CUDA GEMM family: the parameter, the private buffer of the parts, how an
-- epilogue writes its part, and the launch that sums them.
local roles = import "lib/roles.lua"

local M = {}

M.parameter = { name = "split_k", doc = "parts of K, summed in order by a second launch", values = { 1, 2, 4, 8 }, default = 1,
  roles = { "fc2_wgrad", "fc1_dgrad", "fc1_wgrad" } }

-- parts of K: 1 where the epilogue needs whole sums
function M.parts(c)
  return roles[c.role].gelu and 1 or c.p.split_k
end

function M.workspace(c)
  local role, parts = roles[c.role], M.parts(c)
  if parts == 1 then
    return {}
  end
  return { { name = "parts", size = ("4*%d*%s*%s"):format(parts, role.m, role.n) } }
end

-- the entry that sums the parts, where there are any
function M.reduction(c)
  return M.parts(c) > 1 and text "lib/split_reduce.cuh" or ""
end

-- a store epilogue's text; place: C expression of where a part starts in `parts`
function M.store(c, path, place)
  local split = M.parts(c) > 1
  return fill(text(path), { store_target = split and place or "out", accumulate_here = split and "false" or "option" })
end

-- the launches of a role without dGELU; launch(arguments, option) makes the GEMM's own
function M.launches(c, launch)
  local role, parts = roles[c.role], M.parts(c)
  local accumulate = role.accumulates and "ACCUMULATE" or "0"
  if parts == 1 then
    return { launch({ { name = "out" } }, accumulate) }
  end
  local quads = ("%s*%s/4"):format(role.m, role.n)
  return {
    launch({ { name = "parts", access = "out" } }, "0"),
    { entry = "split_reduce", grid = { ("ceildiv(%s,256)"):format(quads) }, block = { 256 },
      args = { { name = "parts", access = "in" }, { name = "out" }, { i64 = quads }, { i32 = tostring(parts) },
        { i32 = accumulate } } },
  }
end

return M
