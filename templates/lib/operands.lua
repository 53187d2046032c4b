-- The five fp32 tensors that become scaled 16-bit operands, and kernels over any subset of them: each tensor is one
-- part of the launch, so that a gradient nobody wants costs nothing and needs no input.
local variable = import "lib/sizes.lua"

local M = {}

-- the subsets that are converted together
M.all = { "grad_output", "weight2", "intermediate_activated", "weight1", "hidden_states" }
M.first = { "grad_output", "weight2" } -- what fc2_dgrad reads
M.rest = { "intermediate_activated", "weight1", "hidden_states" }
M.tokens = { "grad_output", "intermediate_activated", "hidden_states" } -- all but the weights

-- as launch expressions; columns are multiples of 64
local rows = { grad_output = "T", weight2 = "H", intermediate_activated = "T", weight1 = "I", hidden_states = "T" }
local columns = { grad_output = "H", weight2 = "I", intermediate_activated = "I", weight1 = "H", hidden_states = "H" }

-- rows, columns and elements in the kernel
M.rows_c, M.columns_c, M.size_c = {}, {}, {}
for _, tensor in ipairs(M.all) do
  M.rows_c[tensor], M.columns_c[tensor] = variable[rows[tensor]], variable[columns[tensor]]
  M.size_c[tensor] = ("(i64)%s * %s"):format(M.rows_c[tensor], M.columns_c[tensor])
end

-- values of holes of M.each: elements of the tensor, and its place in the list, from 0
function M.elements(tensor)
  return M.size_c[tensor]
end

function M.index(_, i)
  return i - 1
end

M.block_elements = 8192 -- what one block of 256 threads converts: 8 float4 a thread

-- number of convert blocks of a tensor, as launch expression and in the kernel. Pieces of 64 rows x 128 columns where a
-- block lays out blocks or sums columns (of grad_output), else of 8192 elements.
function M.blocks(tensor, blocked)
  if blocked or tensor == "grad_output" then
    return ("ceildiv(%s,64)*ceildiv(%s,128)"):format(rows[tensor], columns[tensor])
  end
  return ("ceildiv(%s*%s,%d)"):format(rows[tensor], columns[tensor], M.block_elements)
end

function M.blocks_c(tensor, blocked)
  if blocked or tensor == "grad_output" then
    return ("ceil_div(%s, 64) * ceil_div(%s, 128)"):format(M.rows_c[tensor], M.columns_c[tensor])
  end
  return ("ceil_div(%s, %d)"):format(M.size_c[tensor], M.block_elements)
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

-- appends the launch arguments tokens, hidden_size, intermediate_size
function M.add_sizes(arguments)
  for _, size in ipairs { "T", "H", "I" } do
    arguments[#arguments + 1] = { i32 = size }
  end
  return arguments
end

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

-- kernel text: the template once a tensor, filled with its name as `tensor` and with what each function of `extra` gives for it
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
