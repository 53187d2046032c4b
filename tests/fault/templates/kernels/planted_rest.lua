local rest = import "lib/rest.lua"

local faults = {
    trap = "__builtin_trap();",
    loop = "for (volatile int forever = 1; forever;) {}",
    compile_error = "this is no statement;",
    nothing = "return;",
    skip_row = "if (x == (unsigned)(T + I + H - 1)) return;",
    wrong_input = "if (x == 0) ((float *)hidden_states)[5] += 1;",
    outside = "if (x == 0) grad_bias1[I] = 0;",
}

-- Millions of dependent statements: the optimiser needs minutes.
local function slow_text()
    local lines = { "#define S0 a = a * b + 3; b = b * a ^ (a >> 3);" }
    for level = 1, 6 do
        table.insert(lines, "#define S" .. level .. string.rep(" S" .. level - 1, 10))
    end
    return table.concat(lines, "\n") ..
        "\nunsigned long slow(unsigned long a, unsigned long b) { S6 return a + b; }\n" ..
        fill(text "lib/naive_rest.c", { fault = "" })
end

return {
    name = "planted_rest",
    doc = "naive_rest with a planted fault",
    roles = { "bias_reduce" },
    needs = { "host" },
    accuracies = { "fp32" },
    rank = 900,
    operands = rest.operands,
    params = {
        { name = "fault", doc = "what is wrong with it", default = "nothing",
          values = { "nothing", "trap", "loop", "compile_error", "slow_compile", "skip_row", "wrong_input", "outside" } },
    },
    valid = function() return true end,
    source = function(c)
        if c.p.fault == "slow_compile" then
            return slow_text()
        end
        return fill(text "lib/naive_rest.c", { fault = faults[c.p.fault] })
    end,
    launches = function() return rest.launches(64) end,
}
