/* Our own declarations for cuBLAS against its headers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../bench/cublas_constants.h"

#if __has_include("/usr/local/cuda/include/cublas_api.h")
#include "/usr/local/cuda/include/cublas_api.h"
#define HAVE_CUBLAS 1
#else
#define HAVE_CUBLAS 0
#endif

static void constants(void **state) {
    (void)state;
#if HAVE_CUBLAS
    assert_int_equal(OPERATION_N, CUBLAS_OP_N);
    assert_int_equal(OPERATION_T, CUBLAS_OP_T);
    assert_int_equal(REAL_32F, CUDA_R_32F);
    assert_int_equal(REAL_16F, CUDA_R_16F);
    assert_int_equal(COMPUTE_32F, CUBLAS_COMPUTE_32F);
    assert_int_equal(COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
    assert_int_equal(GEMM_DEFAULT, CUBLAS_GEMM_DEFAULT);
    assert_int_equal(CUBLAS_STATUS_SUCCESS, 0);
#else
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(constants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
