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

M.size, M.size_c = size, size_c
M.block_elements = 8192 -- what one block of 256 threads converts: 8 float4 a thread

-- number of convert blocks of a tensor: grad_output goes in pieces of 64 tokens x 128 columns (for its column sums)
function M.blocks(tensor)
  if tensor == "grad_output" then
    return "ceildiv(T,64)*ceildiv(H,128)"
  end
  return ("ceildiv(%s,%d)"):format(size[tensor], M.block_elements)
end

function M.sum_blocks(set)
  local terms = {}
  for i, tensor in ipairs(set) do
    terms[i] = M.blocks(tensor)
  end
  return table.concat(terms, "+")
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
