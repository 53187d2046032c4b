-- fc2_dgrad on wgmma while three spare warps a block convert what the later GEMMs read.
return import("lib/wgmma_gemm.lua").kernel("wgmma_gemm_convert",
  "fc2_dgrad as wgmma_gemm, and beside it conversion of what the later GEMMs read, by spare warps",
  5, { "fc2_dgrad" }, import("lib/operands.lua").rest)
