return {
    name = "naive",
    doc = "a right pass in two plain kernels; the second has rivals with planted faults",
    needs = { "host" },
    accuracies = { "fp32" },
    buffers = { { name = "gradient", size = "T*I*4" } },
    steps = {
        { slot = "gradient", role = "fc2_dgrad",
          bind = { grad_output = "grad_output", weight2 = "weight2", intermediate = "intermediate",
                   gradient = "gradient" } },
        { slot = "rest", role = "bias_reduce",
          bind = { gradient = "gradient", grad_output = "grad_output", hidden_states = "hidden_states",
                   weight1 = "weight1", intermediate_activated = "intermediate_activated",
                   grad_hidden_states = "grad_hidden_states", grad_weight1 = "grad_weight1",
                   grad_bias1 = "grad_bias1", grad_weight2 = "grad_weight2", grad_bias2 = "grad_bias2" } },
    },
}
