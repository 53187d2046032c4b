-- The four GEMMs on tcgen05 (data-centre Blackwell), operands as scaled 16-bit copies in 64 x 64 blocks; see umma_gemm.cu.
local roles = import "lib/roles.lua"
local gemm = import "lib/gemm16.lua"
local split_k = import "lib/split_k.lua"
local umma = import "lib/umma.lua"
local cuda = import "lib/cuda_text.lua"

local operand_type = { tf32 = 0, bf16 = 1 } -- umma_instruction in ptx_sm100.cuh

-- do bulk copies write the result?
local function sends(c)
  return not roles[c.role].gelu and c.p.store == "bulk"
end

-- the ring, and what the writing warps have: for bulk copies two slices of 32 rows each
local function shared_bytes(c, stages, slice)
  local p = c.p
  stages, slice = stages or p.stages, slice or p.slice
  local ring = stages * (128 + p.tile_n // umma.ctas(p)) * 128
  if sends(c) then
    return ring + p.writers * 4 * 2 * 32 * (slice * 4 + 16)
  end
  return ring + umma.epilogue_bytes(c, p.writers, slice)
end

return {
  name = "umma_gemm",
  doc = "persistent warp-specialised GEMM on tcgen05 with two accumulators in tensor memory, one block or a pair a tile; dGELU and column sums fused in fc2_dgrad",
  roles = { "fc2_dgrad", "fc2_wgrad", "fc1_dgrad", "fc1_wgrad" },
  needs = umma.needs,
  accuracies = { "tf32", "bf16" },
  rank = 5,
  operands = function(c)
    return gemm.operands(c, "_blocks")
  end,
  params = {
    umma.pair,
    { name = "tile_n", doc = "columns of C a tile has", values = { 64, 128, 192, 256 }, default = 256 },
    { name = "stages", doc = "depth of the ring of operand blocks", values = { 3, 4, 5, 6, 7, 8, 9 },
      default = function(c)
        return roles[c.role].gelu and 6 or 7
      end },
    -- defaults of fc2_dgrad, not measured: gelu' keeps one warp a scheduler waiting for its own results
    { name = "writers", doc = "warpgroups that write results", values = { 1, 2 },
      default = function(c)
        return roles[c.role].gelu and 2 or 1
      end },
    { name = "slice", doc = "columns of sums that a writing warp takes up at once", values = { 32, 64 },
      default = function(c)
        return roles[c.role].gelu and 32 or 64
      end },
    { name = "store", doc = "how results leave: from registers, or through shared memory by bulk copies", values = { "direct", "bulk" },
      default = "direct", roles = { "fc2_wgrad", "fc1_dgrad", "fc1_wgrad" } },
    umma.schedule,
    umma.group_m,
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
    if not umma.fits(c, shared_bytes(c)) then
      return false, "shared memory"
    end
    return true
  end,
  prune = function(c, problem)
    local p = c.p
    local why = umma.prune(c, problem, p.tile_n)
    if why then
      return false, why
    end
    local m, n = problem[roles[c.role].m], problem[roles[c.role].n]
    if p.tile_n >= n + 64 then
      return false, "tile wider than the matrix"
    end
    if p.tile_n < 192 and ((m + 127) // 128) * ((n + 255) // 256) >= 4 * problem.units then
      return false, "narrow tiles where there are many wide ones"
    end
    if p.stages < 9 and umma.fits(c, shared_bytes(c, p.stages + 1)) then
      return false, "ring less deep than fits"
    end
    if p.slice == 32 and p.tile_n % (64 * p.writers) == 0 and umma.fits(c, shared_bytes(c, p.stages, 64)) then
      return false, "narrow slices where wide ones fit"
    end
    return true
  end,
  tile = function(c)
    return umma.tile(c, c.p.tile_n, 2, true)
  end,
  workspace = split_k.workspace,
  source = function(c)
    local p = c.p
    local pack = cuda.pack[c.accuracy]
    local values = umma.values(c, "Ring stage_of = {0, 0}, sums_of = {0, 0};",
      sends(c) and "kernels/umma_gemm_bulk.cu" or "kernels/umma_gemm_store.cu", {
      take = text "kernels/umma_gemm_take.cu", derivative = "gelu_derivative_16", copies = 1,
      put = ("*(uint2 *)place = {%s(y.x * rescale, y.y * rescale), %s(y.z * rescale, y.w * rescale)};"):format(pack, pack),
    })
    values.tile_n, values.writers, values.slice = p.tile_n, p.writers, p.slice
    values.ptx_tma, values.writer_end = "", ""
    if sends(c) then
      values.ptx_tma, values.writer_state = text "lib/ptx_tma.cuh", "u32 sends = 0;"
      values.writer_end = "bulk_wait<0>(); /* results have left the shared memory, which ends with the block */"
    end
    values.operand_type = operand_type[c.accuracy]
    return fill(text "kernels/umma_gemm.cu", values)
  end,
  launches = function(c)
    local p = c.p
    return umma.launches(c, "umma_gemm", p.tile_n, p.writers, shared_bytes(c), "_blocks")
  end,
}
