local host_gemm = import "lib/host_gemm.lua"

local reduce_length = 16384

local function splits(c)
    return host_gemm.splits(c, c.p.split_k)
end

return {
    name = "host_gemm",
    doc = "blocked, packed, vectorised GEMM of three of the four products; split-K with ordered sums",
    roles = { "fc2_wgrad", "fc1_dgrad", "fc1_wgrad" },
    needs = { "host" },
    accuracies = { "tf32", "fp32", "bf16" },
    operands = function(c)
        local layout = host_gemm.layout(c)
        return {
            { name = layout.a, access = "in" },
            { name = layout.b, access = "in" },
            { name = layout.c, access = layout.a_transposed and "inout" or "out" },
        }
    end,
    params = host_gemm.params { split_k = true },
    valid = host_gemm.valid,
    prune = function(c, problem) return host_gemm.prune(c, problem, c.p.split_k) end,
    workspace = function(c)
        local layout = host_gemm.layout(c)
        local buffers = host_gemm.workspace(c)
        table.insert(buffers, { name = "parts", size = string.format("min(%s-1,1)*%s*%s*%s*4", splits(c), splits(c),
                                                                     layout.m, layout.n) })
        return buffers
    end,
    source = function(c)
        return host_gemm.source(c, {}) ..
            fill(text "kernels/host_gemm.c", { reduce_length = reduce_length })
    end,
    launches = function(c)
        local layout = host_gemm.layout(c)
        local add = { i32 = layout.a_transposed and "ACCUMULATE" or "0" }
        return {
            host_gemm.start(),
            host_gemm.launch(c, "host_gemm", splits(c), {
                { name = layout.a }, { name = layout.b }, { name = layout.c }, { name = "parts" }, { name = "panels" },
                { name = "next" }, { i64 = layout.m }, { i64 = layout.n }, { i64 = layout.k }, { i64 = splits(c) },
                { i64 = host_gemm.tile_columns(c) }, add,
            }),
            {
                entry = "host_gemm_reduce",
                grid = { string.format("min(%s-1,1)*ceildiv(%s*%s,%d)", splits(c), layout.m, layout.n, reduce_length) },
                block = { c.p.threads },
                args = { { name = "parts" }, { name = layout.c }, { i64 = layout.m .. "*" .. layout.n },
                         { i64 = layout.k }, { i64 = splits(c) }, add },
            },
        }
    end,
}
