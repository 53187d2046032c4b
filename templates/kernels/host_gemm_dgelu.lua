local host_gemm = import "lib/host_gemm.lua"

-- The last block's micro tile is still in the first-level cache when gelu' multiplies it.
local epilogue = [[
                if (k + depth == k1) {
                    dgelu_block(p->activation, c + offset, p->input + offset, p->n, least(MICRO_ROWS, rows - i),
                                least(MICRO_COLUMNS, columns - j), p->column_sums ? sums + j : (double *)0);
                }]]

local begin = [[
    double *sums = (double *)(panel + PANEL_FLOATS) - TILE_N;
    for (i64 j = 0; j < columns; j++) {
        sums[j] = 0.0;
    }]]

-- Rows of partial sums stand for 64 tokens each, whatever tile_m is: the tile's first has its sums, the others are 0.
local finish = [[
    if (p->column_sums) {
        for (i64 i = 0; i < rows; i += 64) {
            float *line = p->column_sums + (m0 + i) / 64 * p->n + n0;
            for (i64 j = 0; j < columns; j++) {
                line[j] = i ? 0.0F : (float)sums[j];
            }
        }
    }]]

return {
    name = "host_gemm_dgelu",
    doc = "blocked, packed, vectorised GEMM whose epilogue multiplies by gelu' and leaves partial column sums",
    roles = { "fc2_dgrad" },
    needs = { "host" },
    accuracies = { "tf32", "fp32", "bf16" },
    operands = function()
        return {
            { name = "grad_output", access = "in" },
            { name = "weight2", access = "in" },
            { name = "intermediate", access = "in" },
            { name = "grad_intermediate", access = "out" },
            { name = "column_sums", access = "out" },
        }
    end,
    params = host_gemm.params {},
    valid = host_gemm.valid,
    prune = function(c, problem) return host_gemm.prune(c, problem, 1) end,
    workspace = host_gemm.workspace,
    source = function(c)
        return host_gemm.source(c, { begin = begin, epilogue = epilogue, finish = finish,
                                     before = text "lib/host_dgelu.c" }) .. text "kernels/host_gemm_dgelu.c"
    end,
    launches = function(c)
        return {
            host_gemm.start(),
            host_gemm.launch(c, "host_gemm_dgelu", "1", {
                { name = "grad_output", part = 0 }, { name = "weight2", part = 0 },
                { name = "grad_intermediate", part = 0 }, { name = "intermediate", part = 0 },
                { name = "column_sums", part = 1 }, { name = "panels", part = 0 }, { name = "next", part = 0 },
                { i64 = "T" }, { i64 = "I" }, { i64 = "H" }, { i64 = host_gemm.tile_columns(c) },
                { i32 = "ACTIVATION" },
            }),
        }
    end,
}
