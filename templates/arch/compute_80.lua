return {
    name = "compute_80",
    doc = "PTX for every NVIDIA GPU of compute capability 8.0 and later; the driver compiles it when it is loaded",
    backend = "cuda",
    compiler = "nvrtc",
    target = "compute_80",
    parent = "sm_80",
    compute_capability = 80,
    ship = true,
    -- The least of all 8.x and later: 99 KiB opt-in for 8.6, 8.9 and 12.x (CUDA C++ Programming Guide, technical
    -- specifications per compute capability).
    limits = { shared_bytes = 101376 },
    -- It runs on any of them, so the bound for impossible times is that of the fastest (HGX B200 datasheet).
    rates = { tf32 = 8192, bf16 = 8192, fp32 = 2731 },
    memory_bandwidth = 0,
    max_clock_mhz = 0, -- nothing can be predicted of a GPU that is not known
}
