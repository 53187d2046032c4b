return {
    name = "roundabout",
    doc = "the same result by way of another buffer",
    accuracies = { "tf32", "fp32", "bf16" },
    rank = 20,
    buffers = { { name = "there", size = "T*I*4" } },
    steps = {
        { slot = "outward", role = "fc2_dgrad", kernel = "first_plain", bind = { from = "grad_output", to = "there" } },
        { slot = "back", role = "fc1_dgrad", bind = { from = "there", to = "grad_hidden_states" } },
    },
}
