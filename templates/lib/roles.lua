-- The four GEMMs C[M,N] = A*B (templates and header use the same names). a_k_major: A is stored [M,K]; else [K,M].
-- B is always stored [K,N]. m, n, k: launch expressions and the kernel's integer parameters spell the same sizes.
return {
  fc2_dgrad = { m = "T", n = "I", k = "H", a_k_major = true, a_is_input = true, gelu = true },
  fc2_wgrad = { m = "H", n = "I", k = "T", a_k_major = false, a_is_input = true, accumulates = true },
  fc1_dgrad = { m = "T", n = "H", k = "I", a_k_major = true },
  fc1_wgrad = { m = "I", n = "H", k = "T", a_k_major = false, accumulates = true },
}
