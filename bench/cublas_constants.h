/* The few values of cublas_api.h and library_types.h that peer_cublas.c needs, so that the build needs no CUDA;
 * tests/unit/test_cli_cublas.c compares them with these headers where they are installed. */
#ifndef MLP_CUBLAS_CONSTANTS_H
#define MLP_CUBLAS_CONSTANTS_H

enum {
    OPERATION_N = 0,
    OPERATION_T = 1,
    REAL_32F = 0,
    REAL_16F = 2,
    COMPUTE_32F = 68,
    COMPUTE_32F_FAST_TF32 = 77,
    GEMM_DEFAULT = -1
};

#endif
