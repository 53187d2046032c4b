local rest = import "lib/rest.lua"

return {
    name = "naive_rest",
    doc = "everything but the gradient of the activation, a row a task",
    roles = { "bias_reduce" },
    needs = { "host" },
    accuracies = { "fp32" },
    rank = 10,
    operands = rest.operands,
    params = { { name = "threads", doc = "most processors to use", values = { 1, 2, 64 }, default = 64 } },
    valid = function() return true end,
    source = function() return fill(text "lib/naive_rest.c", { fault = "" }) end,
    launches = function(c) return rest.launches(c.p.threads) end,
}
