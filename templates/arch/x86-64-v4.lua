return {
    name = "x86-64-v4",
    doc = "x86-64 with AVX-512 (psABI level 4)",
    backend = "host",
    compiler = "cc",
    target = "x86-64-v4",
    parent = "x86-64-v3",
    compute_capability = 0,
    ship = true,
    features = { avx512 = true },
    limits = { vector_bytes = 64 },
    -- two 512-bit fused multiply-adds and two 512-bit additions a clock (AMD Zen 5)
    rates = { tf32 = 96, fp32 = 96, bf16 = 96 },
    memory_bandwidth = 0,
}
