return (import "lib/host_column_sums.lua").kernel("host_bias_reduce",
    "ordered sums of the partial column sums that fc2_dgrad left, and column sums of grad_output", "column_sums",
    "ceildiv(T,64)")
