-- The two data gradients on wgmma (Hopper) with the weights read in fp32; see wgmma_weight_gemm.cu.
local roles = import "lib/roles.lua"
local split_k = import "lib/split_k.lua"
local cuda = import "lib/cuda_text.lua"
local variable = import "lib/sizes.lua"

local TILE_M = 128 -- columns of the weight matrix
local WEIGHT_BYTES = 64 * TILE_M * 4

local type_name = { tf32 = "f16", bf16 = "bf16" }

local function shared_bytes(p)
  return p.weight_stages * WEIGHT_BYTES + p.token_stages * p.tile_n * 128
end

local function ptx(c)
  local n = c.p.tile_n
  local registers = n // 2
  local list, operands = {}, {}
  for i = 0, registers - 1 do
    list[#list + 1] = "%" .. i
    operands[#operands + 1] = ('"+f"(d[%d])'):format(i)
  end
  local d_list, d_operands, type = table.concat(list, ", "), table.concat(operands, ", "), type_name[c.accuracy]
  local sm90 = fill(text "lib/ptx_sm90.cuh", { registers = registers, n = n, type = type, d_list = d_list, d_operands = d_operands,
    a_index = registers, b_index = registers + 1, accumulate_index = registers + 2, transpose_index = registers + 3 })
  local rs = fill(text "lib/ptx_sm90_rs.cuh", { registers = registers, n = n, type = type, d_list = d_list, d_operands = d_operands,
    a_list = ("%%%d, %%%d, %%%d, %%%d"):format(registers, registers + 1, registers + 2, registers + 3), b_index = registers + 4,
    accumulate_index = registers + 5 })
  return sm90, rs
end

-- what a copy is told about a matrix: boxes of 64 rows and TILE_M columns, in pieces of 32 columns one behind the other
local function boxes(rows, columns)
  return { element = "f32", size = { 32, rows, columns .. "/32" }, stride = { "4*" .. columns, 128 },
    box = { 32, 64, TILE_M // 32 }, swizzle = 128, l2 = 128 }
end

-- pieces of work: tiles times parts of K
local function work(c)
  return ("ceildiv(%s,%d)*ceildiv(T,%d)*%d"):format(roles[c.role].n, TILE_M, c.p.tile_n, split_k.parts(c))
end

return {
  name = "wgmma_weight_gemm",
  doc = "transposed data gradients for few tokens on wgmma: fp32 weights converted in registers on their way to the tensor cores",
  roles = { "fc2_dgrad", "fc1_dgrad" },
  needs = { "wgmma", "tma", "mbarrier", "setmaxnreg" },
  accuracies = { "tf32", "bf16" },
  rank = 5,
  operands = function(c)
    local list = { { name = "token_copies", access = "in" }, { name = "weight", access = "in" }, { name = "scale_tokens", access = "in" } }
    if roles[c.role].gelu then
      for _, operand in ipairs { { name = "scale_weight", access = "in" }, { name = "scale_out", access = "inout" },
        { name = "intermediate", access = "in" }, { name = "grad_intermediate_blocks", access = "out" },
        { name = "column_partials", access = "out" } } do
        list[#list + 1] = operand
      end
    else
      list[#list + 1] = { name = "out", access = "out" }
    end
    return list
  end,
  params = {
    { name = "tile_n", doc = "tokens a block computes", values = { 128, 256 }, default = 256 },
    { name = "weight_stages", doc = "depth of the ring of 64 x 128 fp32 weights", values = { 3, 4, 5 }, default = 4 },
    { name = "token_stages", doc = "depth of the ring of token blocks", values = { 2, 3, 4 }, default = 3 },
    split_k.parameter,
  },
  valid = function(c)
    if shared_bytes(c.p) + 1024 > c.arch.limits.shared_bytes then
      return false, "shared memory"
    end
    return true
  end,
  prune = function(c, problem)
    local p = c.p
    local columns, k = problem[roles[c.role].n], problem[roles[c.role].k]
    local parts = split_k.parts(c)
    local blocks = ((columns + TILE_M - 1) // TILE_M) * ((problem.T + p.tile_n - 1) // p.tile_n) * parts
    if problem.T > 4 * p.tile_n then
      return false, "weights converted too often"
    end
    if p.tile_n > 128 and p.tile_n >= 2 * problem.T then
      return false, "tile of more tokens than there are"
    end
    if parts > 1 and blocks > 2 * problem.units then
      return false, "K split without a need for more blocks"
    end
    if parts > 1 and k // parts < 512 then
      return false, "parts of K too short"
    end
    if blocks * 3 < problem.units and k // parts >= 1024 and not roles[c.role].gelu then
      return false, "too few blocks"
    end
    if p.token_stages == 2 then
      return false, "ring of tokens too short" -- measured: 61 instead of 51 us
    end
    if shared_bytes(p) + WEIGHT_BYTES + 1024 <= c.arch.limits.shared_bytes and p.weight_stages < 5 then
      return false, "ring less deep than fits"
    end
    return true
  end,
  workspace = split_k.workspace,
  source = function(c)
    local p, role = c.p, roles[c.role]
    local sm90, rs = ptx(c)
    local values = {
      base = text "lib/base.cuh", ptx = text "lib/ptx.cuh", ptx_sm90 = sm90, ptx_sm90_rs = rs, ptx_tma = text "lib/ptx_tma.cuh", scale = cuda.scale(c.accuracy),
      m = variable[role.n], k = variable[role.k], operand_type = type_name[c.accuracy],
      tile_n = p.tile_n, weight_stages = p.weight_stages, token_stages = p.token_stages,
      lowest_tokens = role.a_is_input and "LOWEST_INPUT" or "LOWEST_INTERMEDIATE", split_reduction = split_k.reduction(c),
    }
    if role.gelu then
      values.gelu = text "lib/gelu.cuh"
      values.epilogue_parameters = "const Scale *scale_weight, Scale *scale_out, const __grid_constant__ TensorMap intermediate, u16 *grad_intermediate, float *column_partials, int attempt,"
      -- the second attempt runs only if the guessed exponent did not fit what the first one saw
      values.early_exit = "if (attempt == 1 && scale_out->guess == exponent_in_force(scale_out, LOWEST_INTERMEDIATE))\n        return;"
      values.shared_epilogue = ", exponents_out[CONSUMERS * 4]"
      values.start_epilogue = [[const int exponent_out = attempt == 0 ? guess_intermediate(scale_tokens, scale_weight, K)
                                                  : exponent_in_force(scale_out, LOWEST_INTERMEDIATE);
            exponents_out[consumer * 4 + warp] = exponent_out;
            if (attempt == 0 && blockIdx.x == 0 && threadIdx.x == 128)
                scale_out->guess = exponent_out;]]
      values.load_epilogue = text "kernels/wgmma_weight_gemm_intermediate.cu"
      values.epilogue = fill(text "kernels/wgmma_weight_gemm_dgelu.cu", { pack = cuda.pack[c.accuracy] })
    else
      values.gelu, values.epilogue_parameters, values.early_exit, values.load_epilogue = "", "float *out,", "", ""
      values.shared_epilogue, values.start_epilogue = "", ""
      values.epilogue = fill(text "kernels/wgmma_weight_gemm_store.cu",
        { store_target = split_k.parts(c) > 1 and "out + (i64)work.part * tokens * M" or "out" })
    end
    return fill(text "kernels/wgmma_weight_gemm.cu", values)
  end,
  launches = function(c)
    local p = c.p
    local count = work(c)
    local function launch(rest, option)
      local arguments = { { name = "token_copies" }, { name = "weight", map = boxes(roles[c.role].k, roles[c.role].n) },
        { name = "scale_tokens" } }
      table.move(rest, 1, #rest, #arguments + 1, arguments)
      for _, value in ipairs { "T", "H", "I", option, tostring(split_k.parts(c)), count } do
        arguments[#arguments + 1] = { i32 = value }
      end
      return { entry = "wgmma_weight_gemm", grid = { ("min(UNITS,%s)"):format(count) }, block = { 384 },
        shared = tostring(shared_bytes(p)), args = arguments }
    end
    if not roles[c.role].gelu then
      return split_k.launches(c, launch)
    end
    local function attempt(number)
      return launch({ { name = "scale_weight" }, { name = "scale_out" }, { name = "intermediate", map = boxes("T", "I") },
        { name = "grad_intermediate_blocks" }, { name = "column_partials" }, { i32 = tostring(number) } }, "ACTIVATION")
    end
    return { attempt(0), attempt(1) }
  end,
}
