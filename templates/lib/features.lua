-- Every feature that an architecture can have and a kernel can need (templates/README.md): name -> what it means.
-- Reading a name that does not stand here is an error, so a typing mistake cannot switch a kernel off in silence.
return {
    -- host: emitted C
    host = "C11 with GCC's vector extensions, called once per grid point",
    fma = "fused multiply-add in one instruction",
    avx2 = "256-bit integer and gather instructions",
    avx512 = "AVX-512 F, BW, CD, DQ and VL",

    -- cuda: emitted CUDA C++ for NVRTC
    cuda = "CUDA C++, compiled by NVRTC",
    mma_sync = "mma.sync.m16n8k16 on fp16 and bf16 with fp32 sums",
    ldmatrix = "ldmatrix.x4, also .trans",
    cp_async = "cp.async of 4, 8 and 16 bytes with commit and wait groups",
    mbarrier = "mbarrier in shared memory with transaction counts (expect_tx)",
    tma = "cp.async.bulk, with and without a tensor map",
    stmatrix = "stmatrix.x4, also .trans",
    wgmma = "wgmma.mma_async of a warpgroup",
    setmaxnreg = "setmaxnreg: registers moved between warpgroups",
    cluster = "thread-block clusters with distributed shared memory",
    pdl = "griddepcontrol: programmatic dependent launch",
    tcgen05 = "tcgen05.mma of one CTA or of a CTA pair",
    tmem = "tensor memory with tcgen05.alloc, .ld and .st",
    clc = "clusterlaunchcontrol: work stealing between clusters",
}
