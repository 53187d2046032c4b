return {
  name = "simt",
  doc = "fp32 throughout: column sums of grad_output, then the four FFMA GEMMs",
  needs = { "cuda" },
  accuracies = { "fp32" },
  rank = 50,
  buffers = {
    { name = "grad_intermediate", size = "4*T*I" },
    { name = "partials1", size = "4*I*ceildiv(T,64)" },
    { name = "partials2", size = "4*H*ceildiv(T,64)" },
  },
  steps = {
    { slot = "column_sum", role = "column_sum", bind = { grad_output = "grad_output", column_partials = "partials2" } },
    { slot = "fc2_dgrad", role = "fc2_dgrad", bind = { a = "grad_output", b = "weight2", intermediate = "intermediate",
      grad_intermediate = "grad_intermediate", column_partials = "partials1" } },
    { slot = "fc2_wgrad", role = "fc2_wgrad", bind = { a = "grad_output", b = "intermediate_activated", out = "grad_weight2" } },
    { slot = "fc1_dgrad", role = "fc1_dgrad", bind = { a = "grad_intermediate", b = "weight1", out = "grad_hidden_states" } },
    { slot = "fc1_wgrad", role = "fc1_wgrad", bind = { a = "grad_intermediate", b = "hidden_states", out = "grad_weight1" } },
    { slot = "bias_reduce", role = "bias_reduce", bind = { partials1 = "partials1", grad_bias1 = "grad_bias1",
      partials2 = "partials2", grad_bias2 = "grad_bias2" } },
  },
}
