-- Both bias gradients from partial column sums over blocks of 64 tokens.
return {
  name = "cuda_bias_reduce",
  doc = "ordered float64 sums of the partial column sums of both bias gradients",
  roles = { "bias_reduce" },
  needs = { "cuda" },
  accuracies = { "tf32", "fp32", "bf16" },
  operands = function(c)
    return { { name = "partials1", access = "in" }, { name = "grad_bias1", access = "out" },
      { name = "partials2", access = "in" }, { name = "grad_bias2", access = "out" } }
  end,
  params = {
    { name = "groups", doc = "row groups summed side by side in a block", values = { 4, 8, 16, 32 }, default = 16 },
  },
  valid = function(c)
    return true
  end,
  prune = function(c, problem)
    if c.p.groups > 4 and c.p.groups * 64 > 2 * problem.T then
      return false, "more groups than rows"
    end
    return true
  end,
  source = function(c)
    return fill(text "kernels/cuda_bias_reduce.cu", { base = text "lib/base.cuh", groups = c.p.groups, threads = c.p.groups * 32 })
  end,
  launches = function(c)
    return { { entry = "bias_reduce", grid = { "ceildiv(I,32)+ceildiv(H,32)" }, block = { c.p.groups * 32 },
      args = { { name = "partials1", part = 1 }, { name = "grad_bias1", part = 1 }, { name = "partials2", part = 2 },
        { name = "grad_bias2", part = 2 }, { i32 = "T" }, { i32 = "H" }, { i32 = "I" }, { i32 = "ACCUMULATE" } } } }
  end,
}
