-- What the tcgen05 families share.
local M = {}

-- values of the holes for the pieces that their texts need
function M.texts(values)
  values.ptx_sm90, values.ptx_cluster, values.ptx_sm100 = fill(text "lib/ptx_sm90.cuh", { registers = 4, n = 8, type = "f16",
    d_list = "%0, %1, %2, %3", d_operands = '"+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])', a_index = 4, b_index = 5,
    accumulate_index = 6, transpose_index = 7 }), text "lib/ptx_cluster.cuh", text "lib/ptx_sm100.cuh"
  values.umma = text "lib/umma.cuh"
end

-- dynamic bytes: those that are used, and at least more than half of what a multiprocessor has. So no two blocks of these
-- kernels share one: pairs that each hold the tensor memory which the other waits for would never end.
function M.alone(bytes, limit)
  return math.max(bytes, (limit // 2 + 1023) // 1024 * 1024)
end

return M
