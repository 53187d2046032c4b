local steps = import "lib/host_steps.lua"

return {
    name = "host_separate",
    doc = "bare products; gelu' and the column sums in launches of their own",
    needs = { "host" },
    accuracies = { "tf32", "fp32", "bf16" },
    rank = 20,
    buffers = {
        { name = "grad_intermediate_buffer", size = "T*I*4" },
    },
    steps = {
        { slot = "fc2_dgrad", role = "fc2_dgrad",
          bind = { grad_output = "grad_output", weight2 = "weight2", intermediate = "intermediate",
                   grad_intermediate = "grad_intermediate_buffer" } },
        steps.fc1_dgrad,
        steps.fc1_wgrad,
        steps.fc2_wgrad,
        { slot = "bias_reduce", role = "bias_reduce",
          bind = { grad_intermediate = "grad_intermediate_buffer", grad_output = "grad_output",
                   grad_bias1 = "grad_bias1", grad_bias2 = "grad_bias2" } },
    },
}
