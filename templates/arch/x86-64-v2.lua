return {
    name = "x86-64-v2",
    doc = "x86-64 with SSE4.2 (psABI level 2)",
    backend = "host",
    compiler = "cc",
    target = "x86-64-v2",
    parent = "x86-64",
    compute_capability = 0,
    ship = false,
    limits = { vector_bytes = 16 },
    -- as its parent: no wider vectors and no fused multiply-add
    rates = { tf32 = 16, fp32 = 16, bf16 = 16 },
    memory_bandwidth = 0,
}
