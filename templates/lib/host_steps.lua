-- The three products that both host pipelines run alike.
return {
    fc1_dgrad = { slot = "fc1_dgrad", role = "fc1_dgrad",
                  bind = { grad_intermediate = "grad_intermediate_buffer", weight1 = "weight1",
                           grad_hidden_states = "grad_hidden_states" } },
    fc1_wgrad = { slot = "fc1_wgrad", role = "fc1_wgrad",
                  bind = { grad_intermediate = "grad_intermediate_buffer", hidden_states = "hidden_states",
                           grad_weight1 = "grad_weight1" } },
    fc2_wgrad = { slot = "fc2_wgrad", role = "fc2_wgrad",
                  bind = { grad_output = "grad_output", intermediate_activated = "intermediate_activated",
                           grad_weight2 = "grad_weight2" } },
}
