-- The five fp32 tensors that become scaled 16-bit operands, and kernels over any subset of them: each tensor is one
-- part of the launch, so that a gradient nobody wants costs nothing and needs no input.
local M = {}

M.all = { "grad_output", "weight2", "intermediate_activated", "weight1", "hidden_states" }

-- elements, as a launch expression and in the kernel
local size = { grad_output = "T*H", weight2 = "H*I", intermediate_activated = "T*I", weight1 = "I*H", hidden_states = "T*H" }
local size_c = {
  grad_output = "(i64)tokens * hidden_size", weight2 = "(i64)hidden_size * intermediate_size",
  intermediate_activated = "(i64)tokens * intermediate_size", weight1 = "(i64)intermediate_size * hidden_size",
  hidden_states = "(i64)tokens * hidden_size",
}

-- rows and columns in the kernel; columns are multiples of 64
M.rows_c = { grad_output = "tokens", weight2 = "hidden_size", intermediate_activated = "tokens", weight1 = "intermediate_size", hidden_states = "tokens" }
M.columns_c = { grad_output = "hidden_size", weight2 = "intermediate_size", intermediate_activated = "intermediate_size",
  weight1 = "hidden_size", hidden_states = "hidden_size" }
local rows = { grad_output = "T", weight2 = "H", intermediate_activated = "T", weight1 = "I", hidden_states = "T" }
local columns = { grad_output = "H", weight2 = "I", intermediate_activated = "I", weight1 = "H", hidden_states = "H" }

M.size, M.size_c = size, size_c
M.block_elements = 8192 -- what one block of 256 threads converts: 8 float4 a thread

-- number of convert blocks of a tensor, as launch expression and in the kernel. Pieces of 64 rows x 128 columns where a
-- block lays out blocks or sums columns (of grad_output), else of 8192 elements.
function M.blocks(tensor, blocked)
  if blocked or tensor == "grad_output" then
    return ("ceildiv(%s,64)*ceildiv(%s,128)"):format(rows[tensor], columns[tensor])
  end
  return ("ceildiv(%s,%d)"):format(size[tensor], M.block_elements)
end

function M.blocks_c(tensor, blocked)
  if blocked or tensor == "grad_output" then
    return ("ceil_div(%s, 64) * ceil_div(%s, 128)"):format(M.rows_c[tensor], M.columns_c[tensor])
  end
  return ("ceil_div(%s, %d)"):format(size_c[tensor], M.block_elements)
end

function M.sum_blocks(set, blocked)
  local terms = {}
  for i, tensor in ipairs(set) do
    terms[i] = M.blocks(tensor, blocked)
  end
  return table.concat(terms, "+")
end

-- bytes of a 16-bit copy: plain, or in 64 x 64 blocks (rows rounded up)
function M.bytes_16(tensor, blocked)
  return ("2*%s*%s"):format(blocked and ("align(%s,64)"):format(rows[tensor]) or rows[tensor], columns[tensor])
end

M.sizes = { { i32 = "T" }, { i32 = "H" }, { i32 = "I" } }

-- declarations of formal operands: for every tensor the given {suffix, access} pairs ("" is the tensor itself)
function M.declare(set, kinds)
  local list = {}
  for _, tensor in ipairs(set) do
    for _, kind in ipairs(kinds) do
      list[#list + 1] = { name = tensor .. kind[1], access = kind[2] }
    end
  end
  return list
end

-- the same as launch arguments, the i-th tensor in part i
function M.arguments(set, suffixes)
  local list = {}
  for part, tensor in ipairs(set) do
    for _, suffix in ipairs(suffixes) do
      list[#list + 1] = { name = tensor .. suffix, part = part }
    end
  end
  return list
end

-- kernel text: the parameter list and one case a tensor, made by fill from `parameter` and `case`
function M.each(set, template, extra)
  local pieces = {}
  for i, tensor in ipairs(set) do
    local values = { tensor = tensor }
    for name, of in pairs(extra or {}) do
      values[name] = of(tensor, i)
    end
    pieces[i] = fill(template, values)
  end
  return table.concat(pieces)
end

return M
