return {
    name = "naive_gradient",
    doc = "grad_output * weight2 times gelu' of intermediate, a token a task",
    roles = { "fc2_dgrad" },
    needs = { "host" },
    accuracies = { "fp32" },
    operands = function()
        return {
            { name = "grad_output", access = "in" }, { name = "weight2", access = "in" },
            { name = "intermediate", access = "in" }, { name = "gradient", access = "out" },
        }
    end,
    params = {},
    valid = function() return true end,
    source = function() return text "lib/naive_gradient.c" end,
    launches = function()
        return {
            { entry = "naive_gradient", grid = { "T" }, block = { 64 },
              args = { { name = "grad_output" }, { name = "weight2" }, { name = "intermediate" }, { name = "gradient" },
                       { i64 = "H" }, { i64 = "I" }, { i32 = "ACTIVATION" } } },
        }
    end,
}
