return {
    name = "replay",
    doc = "an architecture whose times are recorded",
    backend = "host",
    compiler = "cc",
    target = "generic",
    compute_capability = 0,
    ship = false,
    features = { base = true },
    limits = { shared_bytes = 0, registers_per_thread = 32, threads_per_block = 64, vector_bytes = 16 },
    -- with 4 units at 1000 MHz: 64^3 * 2 flop take 0.13 us
    rates = { tf32 = 1000, fp32 = 1000, bf16 = 1000 },
    memory_bandwidth = 0,
    units = 0,
}
