return {
    name = "first_other",
    doc = "competes for the first slot",
    roles = { "fc2_dgrad" },
    needs = { "base" },
    accuracies = { "tf32", "fp32", "bf16" },
    rank = 20,
    operands = function() return { { name = "from", access = "in" }, { name = "to", access = "out" } } end,
    params = {
        { name = "tile", doc = "elements a task does", values = { 1, 2, 4 }, default = 2 },
        { name = "unroll", doc = "steps at once", values = { 1, 2 }, default = 1 },
    },
    valid = function(c)
        if c.p.tile == 4 and c.p.unroll == 2 then
            return false, "8 at once are too many"
        end
        return true
    end,
    source = function(c) return string.format("first_other tile %d unroll %d", c.p.tile, c.p.unroll) end,
    launches = function()
        return { { entry = "run", grid = { "T" }, block = { 1 }, args = { { name = "from" }, { name = "to" } } } }
    end,
}
