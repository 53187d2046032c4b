-- The wgmma GEMM kernels: see kernels/wgmma_gemm.cu. With `beside`, a list of tensors, the loading warpgroup's three
-- other warps convert those tensors meanwhile (convert_beside.cuh).
local roles = import "lib/roles.lua"
local gemm = import "lib/gemm16.lua"
local split_k = import "lib/split_k.lua"
local operands = import "lib/operands.lua"
local cuda = import "lib/cuda_text.lua"

local M = {}

local CONSUMERS = 2

local function tile_m(p)
  return (p.ping_pong and 1 or CONSUMERS) * p.tiles_m * 64
end

local CONVERTING_WARPS = 3

-- the ring and, for each warp, 16 rows of sums: 64 columns where they leave by whole rows; in fc2_dgrad `part`, and as
-- much of `intermediate`
local function gemm_bytes(c, stages, part)
  local p = c.p
  local columns
  if roles[c.role].gelu then
    columns = (part or p.part) * 2
  else
    columns = p.whole_rows and 64 or 0
  end
  return (stages or p.stages) * (tile_m(p) + p.tile_n) * 128 + CONSUMERS * 4 * 16 * columns * 4
end

local function shared_bytes(c, beside, stages, part)
  return gemm_bytes(c, stages, part) + (beside and CONVERTING_WARPS * c.p.flight * 512 or 0)
end

-- with that many stages and columns of a part (nil: no dGELU), and 1 KiB for barriers
local function fits(c, beside, stages, part)
  return shared_bytes(c, beside, stages, part) + 1024 <= c.arch.limits.shared_bytes
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

-- values of the holes for what is converted beside the product
local function conversion(c, beside)
  local values = { convert = "", conversions = "", convert_parameters = "", convert_beside = "" }
  if not beside then
    return values
  end
  values.convert = fill(text "lib/convert_beside.cuh", { pack = cuda.pack[c.accuracy] })
  values.conversions = ("Conversion conversions[%d];"):format(#beside)
  values.convert_parameters = operands.each(beside,
    "const float *${tensor}, u16 *${tensor}_16, Scale *${tensor}_scale, ")
  local set = fill(text "kernels/wgmma_gemm_convert_setup_first.cu",
    { scales = operands.each(beside, "${tensor}_scale, ") }) .. operands.each(beside, text "kernels/wgmma_gemm_convert_setup.cu", {
    index = operands.index,
    rows = function(tensor)
      return operands.rows_c[tensor]
    end,
    columns = function(tensor)
      return operands.columns_c[tensor]
    end,
  })
  values.convert_beside = fill(text "kernels/wgmma_gemm_convert.cu",
    { flight = c.p.flight, warps = CONVERTING_WARPS, at = gemm_bytes(c), set = set })
  return values
end

local function params(beside)
  local list = {
    { name = "ping_pong", doc = "the two consumers work on tiles of their own, one's epilogue under the other's main loop",
      values = { false, true }, default = false },
    { name = "tiles_m", doc = "64-row tiles a consumer warpgroup computes", values = { 1, 2 }, default = 1 },
    { name = "tile_n", doc = "columns of C a block computes", values = { 128, 192, 256 }, default = 256 },
    { name = "stages", doc = "depth of the ring of operand blocks", values = { 3, 4, 5, 6 },
      default = function(c)
        return roles[c.role].gelu and 3 or 4
      end },
    { name = "group_m", doc = "tile rows walked together (raster order, L2 reuse)", values = { 1, 4, 8, 16 }, default = 8 },
    { name = "part", doc = "columns that the dGELU epilogue works on at a time", values = { 32, 64 }, default = 64,
      roles = { "fc2_dgrad" } },
    { name = "whole_rows", doc = "sums leave through shared memory by whole rows instead of straight from the fragments",
      values = { false, true }, default = true, roles = { "fc2_wgrad", "fc1_dgrad", "fc1_wgrad" } },
  }
  if not beside then
    list[#list + 1] = split_k.parameter
  else
    list[#list + 1] = { name = "flight", doc = "rows of 512 bytes that each converting warp has in flight",
      values = { 8, 16 }, default = 8 }
  end
  return list
end

-- in both attempts: the second one converts again what a guess missed
local function beside_arguments(beside)
  local list = {}
  for i, tensor in ipairs(beside) do
    for _, suffix in ipairs { "", "_16", "_scale" } do
      list[#list + 1] = { name = tensor .. suffix, part = i + 1 }
    end
  end
  return list
end

-- a kernel's table; served: its roles, beside: tensors (operands.lua) that it converts, or nil
function M.kernel(name, doc, rank, served, beside)
  return {
    name = name,
    doc = doc,
    roles = served,
    needs = { "wgmma", "tma", "mbarrier", "setmaxnreg" },
    accuracies = { "tf32", "bf16" },
    rank = rank,
    operands = function(c)
      local list = gemm.operands(c, "_blocks")
      if beside then
        local more = operands.declare(beside, { { "", "in" }, { "_16", "out" }, { "_scale", "inout" } })
        table.move(more, 1, #more, #list + 1, list)
      end
      return list
    end,
    params = params(beside),
    valid = function(c)
      local p = c.p
      local accumulators = p.tiles_m * p.tile_n // 2
      if accumulators > 192 then
        return false, "accumulators"
      end
      if not fits(c, beside, p.stages, roles[c.role].gelu and p.part) then
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
      if p.stages + 2 <= 6 and fits(c, beside, p.stages + 2, roles[c.role].gelu and p.part) then
        return false, "ring far less deep than fits"
      end
      if roles[c.role].gelu and p.part == 32 and fits(c, beside, p.stages, 64) then
        return false, "narrow parts where wide ones fit"
      end
      -- measured: a ping-pong epilogue is hidden, the ring needs the room more
      if not roles[c.role].gelu and p.whole_rows == p.ping_pong then
        return false, "way of storing"
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
    tile = function(c)
      return { m = tile_m(c.p), n = c.p.tile_n, parts = split_k.parts(c), overlap = c.p.ping_pong }
    end,
    workspace = split_k.workspace,
    source = function(c)
      local p = c.p
      local store = not roles[c.role].gelu and p.whole_rows and "kernels/wgmma_gemm_store_rows.cu" or "kernels/wgmma_gemm_store.cu"
      local values = gemm.values(c, store, function(lowest_a)
        return fill(text "kernels/wgmma_gemm_dgelu.cu", { pack = cuda.pack[c.accuracy] })
      end, "work / tiles")
      values.ptx_sm90, values.operand_type = wgmma(c), type_name[c.accuracy]
      values.ping_pong, values.tiles_m, values.tile_n, values.stages = p.ping_pong, p.tiles_m, p.tile_n, p.stages
      values.prefetch = roles[c.role].gelu and fill(text "kernels/wgmma_gemm_prefetch.cu", { part = p.part }) or ""
      values.split = split_k.parts(c) > 1
      values.setup = roles[c.role].gelu and text "kernels/wgmma_gemm_setup.cu" or ""
      for hole, value in pairs(conversion(c, beside)) do
        values[hole] = value
      end
      if beside then
        values.early_exit = fill(text "kernels/wgmma_gemm_convert_exit.cu",
          { scales = operands.each(beside, "${tensor}_scale, ") })
      end
      -- beside 192 accumulators a loader alone needs few; with conversions both fit these
      local lean = p.tiles_m * p.tile_n // 2 > 128 and not beside
      values.producer_registers, values.consumer_registers = lean and 24 or 40, lean and 240 or 232
      return fill(text "kernels/wgmma_gemm.cu", values)
    end,
    launches = function(c)
      local role = roles[c.role]
      local work = ("%s*%d"):format(tiles(c), split_k.parts(c))
      return gemm.launches(c, {
        entry = "wgmma_gemm", grid = { beside and "UNITS" or ("min(UNITS,%s)"):format(work) }, block = 128 * (CONSUMERS + 1),
        shared = shared_bytes(c, beside),
        tail = { work, ("ceildiv(%s,%d)"):format(role.m, tile_m(c.p)), ("ceildiv(%s,%d)"):format(role.n, c.p.tile_n),
          ("ceildiv(ceildiv(%s,64),%d)"):format(role.k, split_k.parts(c)) },
        beside = beside and beside_arguments(beside),
      }, "_blocks")
    end,
  }
end

return M
