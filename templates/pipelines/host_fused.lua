local steps = import "lib/host_steps.lua"

return {
    name = "host_fused",
    doc = "gelu' and the column sums for grad_bias1 in the epilogue of the first product",
    needs = { "host" },
    accuracies = { "tf32", "fp32", "bf16" },
    rank = 10,
    buffers = {
        { name = "grad_intermediate_buffer", size = "T*I*4" },
        { name = "column_sums", size = "ceildiv(T,64)*I*4" },
    },
    steps = {
        { slot = "fc2_dgrad", role = "fc2_dgrad",
          bind = { grad_output = "grad_output", weight2 = "weight2", intermediate = "intermediate",
                   grad_intermediate = "grad_intermediate_buffer", column_sums = "column_sums" } },
        steps.fc1_dgrad,
        steps.fc1_wgrad,
        steps.fc2_wgrad,
        { slot = "bias_reduce", role = "bias_reduce",
          bind = { column_sums = "column_sums", grad_output = "grad_output",
                   grad_bias1 = "grad_bias1", grad_bias2 = "grad_bias2" } },
    },
}
