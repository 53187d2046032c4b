return {
    name = "generic",
    doc = "any processor of these tests",
    backend = "host",
    compiler = "cc",
    target = "generic",
    compute_capability = 0,
    ship = false,
    features = { host = true },
    limits = { shared_bytes = 0, registers_per_thread = 16, threads_per_block = 1024, vector_bytes = 16 },
    rates = { tf32 = 0, fp32 = 0, bf16 = 0 },
    memory_bandwidth = 0,
    units = 0,
}
