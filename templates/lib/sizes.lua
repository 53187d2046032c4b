-- The integer parameter that holds a size of the launch expressions in every CUDA kernel.
return { T = "tokens", H = "hidden_size", I = "intermediate_size" }
