return {
  name = "cuda_column_sum",
  doc = "partial column sums of grad_output, where no conversion pass gives them for free",
  roles = { "column_sum" },
  needs = { "cuda" },
  accuracies = { "fp32" },
  operands = function(c)
    return { { name = "grad_output", access = "in" }, { name = "column_partials", access = "out" } }
  end,
  params = {},
  valid = function(c)
    return true
  end,
  source = function(c)
    return fill(text "kernels/cuda_column_sum.cu", { base = text "lib/base.cuh" })
  end,
  launches = function(c)
    return { { entry = "column_sum", grid = { "ceildiv(T,64)", "ceildiv(H,128)" }, block = { 128 },
      args = { { name = "grad_output" }, { name = "column_partials" }, { i32 = "T" }, { i32 = "H" } } } }
  end,
}
