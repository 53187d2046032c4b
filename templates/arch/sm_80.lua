return {
    name = "sm_80",
    doc = "NVIDIA Ampere data centre: A100, A30",
    backend = "cuda",
    compiler = "nvrtc",
    target = "sm_80",
    compute_capability = 80,
    ship = true,
    features = { cuda = true, mma_sync = true, ldmatrix = true, cp_async = true },
    limits = {
        -- CUDA C++ Programming Guide, technical specifications per compute capability: 163 KiB opt-in for 8.0
        shared_bytes = 166912,
        registers_per_thread = 255,
        threads_per_block = 1024,
    },
    rates = {
        -- A100 datasheet: 312 TFLOP/s dense fp16 and bf16 = 108 SMs x 1.41 GHz x 2048
        tf32 = 2048,
        bf16 = 2048,
        -- one fp32 product is at least three 16-bit ones (2048 / 3); plain FFMA gives 2 x 64 = 128 (19.5 TFLOP/s)
        fp32 = 683,
    },
    -- A100 80GB SXM datasheet, the fastest card of this generation
    memory_bandwidth = 2039e9,
    -- nobody measured what the L2 delivers: 0 leaves it out of predictions
    l2_bandwidth = 0,
    l2_bytes = 40e6, -- A100 datasheet
    max_clock_mhz = 1410, -- the same, as in the rates above
    units = 108, -- A100 datasheet (A30: 56)
}
