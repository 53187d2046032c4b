return {
    name = "x86-64",
    doc = "x86-64 with SSE2, the psABI's baseline",
    backend = "host",
    compiler = "cc",
    target = "x86-64",
    parent = "generic",
    compute_capability = 0,
    ship = false,
    limits = { vector_bytes = 16 },
    -- at most four 128-bit additions or multiplications a clock (AMD Zen 3 and later, Software Optimization Guide)
    rates = { tf32 = 16, fp32 = 16, bf16 = 16 },
    memory_bandwidth = 0,
}
