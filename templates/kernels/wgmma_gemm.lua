-- The four GEMMs on wgmma (Hopper), operands as scaled 16-bit copies in 64 x 64 blocks; see wgmma_gemm.cu.
return import("lib/wgmma_gemm.lua").kernel("wgmma_gemm",
  "persistent warp-specialised GEMM on wgmma with bulk copies of pre-swizzled blocks; dGELU and column sums fused in fc2_dgrad",
  5, { "fc2_dgrad", "fc2_wgrad", "fc1_dgrad", "fc1_wgrad" })
