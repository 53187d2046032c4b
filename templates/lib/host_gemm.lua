-- What the host GEMM kernels share: operand layouts by role, parameters, their limits, and the text of lib/host_gemm.c.
local host_gemm = {}

-- C[M][N] = A * B, sums over K; sizes are expressions. a_transposed: A is stored [K][M].
local layouts = {
    fc2_dgrad = { a = "grad_output", b = "weight2", c = "grad_intermediate", m = "T", n = "I", k = "H" },
    fc1_dgrad = { a = "grad_intermediate", b = "weight1", c = "grad_hidden_states", m = "T", n = "H", k = "I" },
    fc2_wgrad = { a = "grad_output", b = "intermediate_activated", c = "grad_weight2", m = "H", n = "I", k = "T",
                  a_transposed = true },
    fc1_wgrad = { a = "grad_intermediate", b = "hidden_states", c = "grad_weight1", m = "I", n = "H", k = "T",
                  a_transposed = true },
}

function host_gemm.layout(c)
    return layouts[c.role]
end

-- Rows x vectors of the micro tile, for the registers that go with a vector width: 32 of 64 bytes, else 16.
local micro_tiles = {
    [64] = { "6x4", "8x3", "14x2" },
    [32] = { "6x2", "4x3" },
    [16] = { "6x2", "4x2" },
}

local function micro(c)
    local rows, vectors = c.p.micro:match("^(%d+)x(%d+)$")
    return math.tointeger(rows), math.tointeger(vectors)
end

local function lanes(c)
    return c.arch.limits.vector_bytes // 4
end

local function round_up(value, step)
    return (value + step - 1) // step * step
end

-- Floats of one grid point's panels of A and of B.
local function panel_floats(c)
    local rows, vectors = micro(c)
    local a = round_up(round_up(c.p.tile_m, rows) * c.p.block_k, 64)
    local b = round_up(c.p.tile_n, vectors * lanes(c)) * c.p.block_k
    return a, b
end

-- Both, and the column sums in double; a whole number of pages.
local function panel_bytes(c)
    local a, b = panel_floats(c)
    return round_up(4 * (a + b) + 8 * c.p.tile_n, 4096)
end

function host_gemm.params(with)
    local params = {
        { name = "micro", doc = "micro tile kept in registers: rows x vectors",
          values = function(c) return micro_tiles[c.arch.limits.vector_bytes] end,
          default = function(c) return micro_tiles[c.arch.limits.vector_bytes][1] end },
        { name = "tile_m", doc = "rows of C that one task computes", values = { 128, 256, 512 }, default = 256 },
        { name = "tile_n", doc = "most columns of C that one task computes", values = { 256, 512, 1024 },
          default = 512 },
        { name = "block_k", doc = "length of the sums between two additions to C", values = { 128, 256, 512 },
          default = 256 },
        { name = "unroll", doc = "steps of K in one round of the innermost loop", values = { 1, 2, 4 }, default = 2 },
        { name = "threads", doc = "most processors to use; 1024: all", values = { 1024, 16, 1 }, default = 1024 },
    }
    if with.split_k then
        table.insert(params, { name = "split_k", doc = "parts of K summed by different tasks, then in fixed order",
                               values = { 1, 2, 4 }, default = 1 })
    end
    return params
end

-- No panel may push the other one out of a second-level cache of 2 MiB.
function host_gemm.valid(c)
    if panel_bytes(c) > 2 * 1024 * 1024 then
        return false, "the packed panels exceed 2 MiB"
    end
    return true
end

local function ceildiv(a, b)
    return (a + b - 1) // b
end

-- Columns of one task: at most tile_n, fewer where that would leave fewer than two tasks a processor. An expression
-- and, for prune, its value.
function host_gemm.tile_columns(c)
    local layout = host_gemm.layout(c)
    return string.format("max(64,min(%d,align(ceildiv(%s*ceildiv(%s,%d),2*UNITS),64)))", c.p.tile_n, layout.n,
                         layout.m, c.p.tile_m)
end

local function tile_columns_at(c, m, n, units)
    return math.max(64, math.min(c.p.tile_n, round_up(ceildiv(n * ceildiv(m, c.p.tile_m), 2 * units), 64)))
end

-- What is worth timing: the default and its neighbours, at most two parameters away.
function host_gemm.prune(c, problem, split_k)
    local sizes = { T = problem.T, H = problem.H, I = problem.I }
    local layout = host_gemm.layout(c)
    local m, n, k = sizes[layout.m], sizes[layout.n], sizes[layout.k]
    local columns = tile_columns_at(c, m, n, problem.units)
    local tasks = ceildiv(m, c.p.tile_m) * ceildiv(n, columns)
    if c.p.threads == 1 and m * n * k > 1 << 21 then
        return false, "one thread is for products that take less time than waking another"
    end
    if c.p.threads == 16 and problem.units <= 16 then
        return false, "16 threads are all there are"
    end
    if split_k > 1 and tasks >= 2 * problem.units then
        return false, "there are tasks enough without splitting K"
    end
    if c.p.tile_m == 128 and m > 128 then
        return false, "tiles of 128 rows pack B too often"
    end
    if c.p.tile_m > 128 and c.p.tile_m >= 2 * m then
        return false, "a tile of twice the rows of C"
    end
    if c.p.block_k == 128 and (k > 128 or c.arch.limits.vector_bytes == 64) then
        return false, "blocks of 128 add to C too often"
    end
    if c.p.block_k > 128 and c.p.block_k >= 2 * k then
        return false, "a block of twice the length of K"
    end
    if c.p.tile_n == 256 and n >= 1024 or c.p.tile_n > 256 and columns <= c.p.tile_n // 2 then
        return false, "a narrower or wider tile is the same or better"
    end
    local away = (c.p.micro ~= micro_tiles[c.arch.limits.vector_bytes][1] and 1 or 0) + (c.p.tile_m ~= 256 and 1 or 0) +
        (c.p.tile_n ~= 512 and 1 or 0) + (c.p.block_k ~= 256 and 1 or 0) + (c.p.unroll ~= 2 and 2 or 0)
    if away > 2 then
        return false, "more than two steps away from the default"
    end
    return true
end

function host_gemm.splits(c, split_k)
    -- Beyond 2^20 terms the sums of blocks themselves would be too long for float32.
    return string.format("max(%d,ceildiv(%s,1048576))", split_k, host_gemm.layout(c).k)
end

function host_gemm.workspace(c)
    return {
        { name = "next", size = "256" },
        { name = "panels", size = string.format("min(UNITS,%d)*%d", c.p.threads, panel_bytes(c)) },
    }
end

-- Before each launch of tiles: the number of the next one becomes 0.
function host_gemm.start()
    return { entry = "host_gemm_start", grid = { "1" }, block = { 1 }, args = { { name = "next" } } }
end

function host_gemm.launch(c, entry, splits, args)
    local layout = host_gemm.layout(c)
    local tasks = string.format("ceildiv(%s,%d)*ceildiv(%s,%s)*%s", layout.m, c.p.tile_m, layout.n,
                                host_gemm.tile_columns(c), splits)
    return { entry = entry, grid = { string.format("min(min(UNITS,%d),%s)", c.p.threads, tasks) },
             block = { c.p.threads }, args = args }
end

-- The unrolled text of the micro kernel: every sum is a variable, so that each gets a register.
local function micro_text(c)
    local rows, vectors = micro(c)
    local declare, step, store = {}, {}, {}
    for i = 0, rows - 1 do
        local names = {}
        for v = 0, vectors - 1 do
            names[#names + 1] = string.format("c%d_%d = {0}", i, v)
        end
        declare[#declare + 1] = "    vector " .. table.concat(names, ", ") .. ";"
    end
    step[#step + 1] = "        {"
    for v = 0, vectors - 1 do
        step[#step + 1] = string.format("            vector b%d = *(const vector *)(b + %d * LANES);", v, v)
    end
    for i = 0, rows - 1 do
        for v = 0, vectors - 1 do
            step[#step + 1] = string.format("            c%d_%d += a[%d] * b%d;", i, v, i, v)
        end
    end
    step[#step + 1] = "            a += MICRO_ROWS, b += MICRO_COLUMNS;"
    step[#step + 1] = "        }"
    for i = 0, rows - 1 do
        store[#store + 1] = string.format("    if (rows > %d) {", i)
        for v = 0, vectors - 1 do
            store[#store + 1] = string.format("        if (vectors > %d) {", v)
            local to = string.format("(vector_any *)(c + %d * stride + %d * LANES)", i, v)
            store[#store + 1] = "            vector_any *to = " .. to .. ";"
            store[#store + 1] = "            if (add) {"
            store[#store + 1] = string.format("                c%d_%d += *to;", i, v)
            store[#store + 1] = "            }"
            store[#store + 1] = string.format("            *to = c%d_%d;", i, v)
            store[#store + 1] = "        }"
        end
        store[#store + 1] = "    }"
    end
    return table.concat(declare, "\n"), table.concat(step, "\n"), table.concat(store, "\n")
end

-- extra: what a kernel adds to compute_tile: `begin`, `epilogue` after each micro tile, `finish` after the last block;
-- `before`: functions that these call.
function host_gemm.source(c, extra)
    local rows, vectors = micro(c)
    local declare, step, store = micro_text(c)
    return fill(text "lib/host_vector.c", { lanes = lanes(c) }) .. (extra.before or "") ..
        fill(text "lib/host_gemm.c", {
            micro_rows = rows, micro_vectors = vectors, tile_m = c.p.tile_m, tile_n = c.p.tile_n,
            block_k = c.p.block_k, unroll = c.p.unroll, a_transposed = host_gemm.layout(c).a_transposed or false,
            panel_a_floats = (panel_floats(c)), panel_floats = panel_bytes(c) // 4,
            micro_declare = declare, micro_step = step, micro_steps = step:rep(c.p.unroll, "\n"), micro_store = store,
            tile_begin = extra.begin or "", tile_epilogue = extra.epilogue or "", tile_end = extra.finish or "",
        })
end

return host_gemm
