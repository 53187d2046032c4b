-- What the two host kernels of role bias_reduce share: they differ in what grad_bias1 is summed from.
local host_column_sums = {}

-- first: operand that grad_bias1 is the sum of, with `rows` rows of I.
function host_column_sums.kernel(name, doc, first, rows)
    local function launch(c, values, count, columns, bias)
        return {
            entry = "host_column_sums",
            grid = { string.format("ceildiv(%s,%d)", columns, c.p.run_columns) },
            block = { c.p.threads },
            args = { { name = values }, { name = bias }, { i64 = count }, { i64 = columns }, { i32 = "ACCUMULATE" } },
        }
    end
    return {
        name = name,
        doc = doc,
        roles = { "bias_reduce" },
        needs = { "host" },
        accuracies = { "tf32", "fp32", "bf16" },
        operands = function()
            return {
                { name = first, access = "in" },
                { name = "grad_output", access = "in" },
                { name = "grad_bias1", access = "inout" },
                { name = "grad_bias2", access = "inout" },
            }
        end,
        params = {
            { name = "run_columns", doc = "columns that one task sums", values = { 64, 256, 1024 }, default = 256 },
            { name = "threads", doc = "most processors to use; 1024: all", values = { 1024, 16, 1 }, default = 1024 },
        },
        valid = function() return true end,
        prune = function(c, problem)
            if c.p.threads == 1 and problem.T * problem.H > 1 << 16 then
                return false, "one thread is for sums that take less time than waking another"
            end
            if c.p.threads == 16 and problem.units <= 16 then
                return false, "16 threads are all there are"
            end
            return true
        end,
        source = function(c)
            return fill(text "lib/host_vector.c", { lanes = c.arch.limits.vector_bytes // 4 }) ..
                fill(text "lib/host_column_sums.c", { run_columns = c.p.run_columns })
        end,
        launches = function(c)
            return { launch(c, first, rows, "I", "grad_bias1"), launch(c, "grad_output", "T", "H", "grad_bias2") }
        end,
    }
end

return host_column_sums
