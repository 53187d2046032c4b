return {
    name = "x86-64-v3",
    doc = "x86-64 with AVX2 and FMA (psABI level 3)",
    backend = "host",
    compiler = "cc",
    target = "x86-64-v3",
    parent = "x86-64-v2",
    compute_capability = 0,
    ship = true,
    features = { fma = true, avx2 = true },
    limits = { vector_bytes = 32 },
    -- two 256-bit fused multiply-adds and two 256-bit additions a clock (AMD Zen 3 and later)
    rates = { tf32 = 48, fp32 = 48, bf16 = 48 },
    memory_bandwidth = 0,
}
