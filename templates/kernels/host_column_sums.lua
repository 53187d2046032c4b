return (import "lib/host_column_sums.lua").kernel("host_column_sums",
    "column sums of grad_intermediate and grad_output: grad_bias1, grad_bias2", "grad_intermediate", "T")
