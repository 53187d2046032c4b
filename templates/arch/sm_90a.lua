return {
    name = "sm_90a",
    doc = "NVIDIA Hopper: H100, H200, GH200",
    backend = "cuda",
    compiler = "nvrtc",
    target = "sm_90a",
    parent = "sm_80",
    compute_capability = 90,
    ship = true,
    -- PTX ISA 9.0: target notes of each instruction
    features = {
        mbarrier = true, tma = true, stmatrix = true, wgmma = true, setmaxnreg = true, cluster = true, pdl = true,
    },
    -- CUDA C++ Programming Guide, technical specifications per compute capability: 227 KiB opt-in for 9.0
    limits = { shared_bytes = 232448 },
    rates = {
        -- H100 SXM datasheet: 989 TFLOP/s dense fp16 and bf16 = 132 SMs x 1.83 GHz x 4096
        tf32 = 4096,
        bf16 = 4096,
        -- one fp32 product is at least three 16-bit ones (4096 / 3); plain FFMA gives 2 x 128 = 256 (67 TFLOP/s)
        fp32 = 1366,
    },
    -- H200 SXM datasheet (H100 SXM: 3.35e12)
    memory_bandwidth = 4800e9,
    -- measured on an H200: 52 bytes a clock and multiprocessor with all 132 loading at once
    l2_bandwidth = 13.7e12,
    l2_bytes = 62914560, -- what CUDA reports for an H200
    max_clock_mhz = 1980, -- the same
    units = 132, -- H100 SXM and H200 SXM datasheets (H100 PCIe: 114)
}
