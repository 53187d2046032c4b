return {
    name = "direct",
    doc = "the default pipeline",
    accuracies = { "tf32", "fp32", "bf16" },
    rank = 10,
    buffers = { { name = "middle", size = "T*I*4" } },
    steps = {
        { slot = "first", role = "fc2_dgrad", bind = { from = "grad_output", to = "middle" } },
        { slot = "second", role = "fc1_dgrad", bind = { from = "middle", to = "grad_hidden_states" } },
    },
}
