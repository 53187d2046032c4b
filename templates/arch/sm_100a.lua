return {
    name = "sm_100a",
    doc = "NVIDIA Blackwell data centre: B200, GB200",
    backend = "cuda",
    compiler = "nvrtc",
    target = "sm_100a",
    parent = "sm_90a",
    compute_capability = 100,
    ship = true,
    -- ptxas rejects wgmma for this target; the tcgen05 family takes its place (PTX ISA 9.1, 9.7.16)
    features = { wgmma = false, tcgen05 = true, tmem = true, clc = true },
    -- shared_bytes as the parent: 227 KiB opt-in for 10.0 (CUDA C++ Programming Guide)
    rates = {
        -- HGX B200 datasheet: 2.25 PFLOP/s dense fp16 and bf16 = 148 SMs x 1.85 GHz x 8192
        -- (= tcgen05 128x256x16 in 128 clocks on one SM)
        tf32 = 8192,
        bf16 = 8192,
        -- one fp32 product is at least three 16-bit ones (8192 / 3); plain FFMA gives 2 x 128 = 256
        fp32 = 2731,
    },
    -- HGX B200 datasheet: up to 8 TB/s a GPU (a device query in pytorch/ao pull request 4002: 7680 bit at 3996 MHz = 7.67)
    memory_bandwidth = 8000e9,
    -- Nobody states what the L2 delivers. At least this: tiles of 256 x 256 take 1 byte for 128 flop, and Modular's blog
    -- (Matrix multiplication on Blackwell, part 4) reports 1772 TFLOP/s with pairs, for which such tiles are the largest.
    l2_bandwidth = 13.8e12,
    l2_bytes = 126.5e6, -- the same device query
    max_clock_mhz = 1965, -- stas00/ml-engineering, compute/accelerator
    units = 148, -- as in the rates above: what CUDA reports for a B200
}
