return {
    name = "generic",
    doc = "any processor: what the system compiler emits when it is told nothing",
    backend = "host",
    compiler = "cc",
    target = "generic",
    compute_capability = 0,
    ship = true,
    features = { host = true },
    limits = { shared_bytes = 0, registers_per_thread = 0, threads_per_block = 1024, vector_bytes = 16 },
    -- two 512-bit fused multiply-adds a clock, the most that any processor of today has
    rates = { tf32 = 64, fp32 = 64, bf16 = 64 },
    memory_bandwidth = 0,
    units = 0,
}
