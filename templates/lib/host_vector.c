/* Types and helpers of every host kernel. No header is included: the compiler alone is enough. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT ON
#else
#pragma GCC optimize("O3", "fp-contract=fast") /* -std=c11 would keep a * b + c from becoming one instruction */
#endif
#define LANES ${lanes}
#define HALF (LANES / 2)
typedef __INT64_TYPE__ i64;
typedef __INT32_TYPE__ i32;
typedef float vector __attribute__((vector_size(4 * LANES), may_alias));
typedef float vector_any __attribute__((vector_size(4 * LANES), aligned(4), may_alias)); /* any address of a float */
typedef float half_any __attribute__((vector_size(4 * HALF), aligned(4), may_alias));
typedef double wide __attribute__((vector_size(8 * HALF), may_alias));
typedef i64 wide_bits __attribute__((vector_size(8 * HALF), may_alias));

static inline i64 least(i64 a, i64 b) {
    return a < b ? a : b;
}

static inline wide load_wide(const float *from) {
    return __builtin_convertvector(*(const half_any *)from, wide);
}

static inline void store_wide(float *to, wide value) {
    typedef float half __attribute__((vector_size(4 * HALF)));
    *(half_any *)to = __builtin_convertvector(value, half);
}
