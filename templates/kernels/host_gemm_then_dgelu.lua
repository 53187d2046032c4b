local host_gemm = import "lib/host_gemm.lua"

local run_length = 8192

return {
    name = "host_gemm_then_dgelu",
    doc = "blocked, packed, vectorised GEMM, then a pass over its result that multiplies by gelu'",
    roles = { "fc2_dgrad" },
    needs = { "host" },
    accuracies = { "tf32", "fp32", "bf16" },
    operands = function()
        return {
            { name = "grad_output", access = "in" },
            { name = "weight2", access = "in" },
            { name = "intermediate", access = "in" },
            { name = "grad_intermediate", access = "out" },
        }
    end,
    params = host_gemm.params {},
    valid = host_gemm.valid,
    prune = function(c, problem) return host_gemm.prune(c, problem, 1) end,
    workspace = host_gemm.workspace,
    source = function(c)
        return host_gemm.source(c, { before = text "lib/host_dgelu.c" }) ..
            fill(text "kernels/host_gemm_then_dgelu.c", { run_length = run_length })
    end,
    launches = function(c)
        return {
            host_gemm.start(),
            host_gemm.launch(c, "host_gemm", "1", {
                { name = "grad_output" }, { name = "weight2" }, { name = "grad_intermediate" }, { name = "panels" },
                { name = "next" }, { i64 = "T" }, { i64 = "I" }, { i64 = "H" },
                { i64 = host_gemm.tile_columns(c) },
            }),
            {
                entry = "host_dgelu",
                grid = { string.format("ceildiv(T*I,%d)", run_length) },
                block = { c.p.threads },
                args = { { name = "grad_intermediate", access = "inout" }, { name = "intermediate" }, { i64 = "T*I" },
                         { i32 = "ACTIVATION" } },
            },
        }
    end,
}
