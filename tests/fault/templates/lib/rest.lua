local rest = {}

function rest.operands()
    local list = {}
    for _, name in ipairs { "gradient", "grad_output", "hidden_states", "weight1", "intermediate_activated" } do
        table.insert(list, { name = name, access = "in" })
    end
    table.insert(list, { name = "grad_hidden_states", access = "out" })
    for _, name in ipairs { "grad_weight1", "grad_bias1", "grad_weight2", "grad_bias2" } do
        table.insert(list, { name = name, access = "inout" })
    end
    return list
end

function rest.launches(threads)
    local args = {}
    for _, operand in ipairs(rest.operands()) do
        table.insert(args, { name = operand.name })
    end
    for _, expression in ipairs { "T", "H", "I" } do
        table.insert(args, { i64 = expression })
    end
    table.insert(args, { i32 = "ACCUMULATE" })
    return { { entry = "naive_rest", grid = { "T+I+H" }, block = { threads }, args = args } }
end

return rest
