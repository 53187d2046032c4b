/* CUDA's mathematical functions. Where CUDA's differ from C's the difference is said; approximate ones are exact here,
 * which is within their tolerance. */

/* ---- bits of a value ---- */

#define MLPBWD_BITS(name, from, to)                                                                                    \
    static __INLINE to name(from value) {                                                                              \
        to result;                                                                                                     \
        __builtin_memcpy(&result, &value, sizeof result);                                                              \
        return result;                                                                                                 \
    }
MLPBWD_BITS(__float_as_uint, float, unsigned)
MLPBWD_BITS(__float_as_int, float, int)
MLPBWD_BITS(__uint_as_float, unsigned, float)
MLPBWD_BITS(__int_as_float, int, float)
MLPBWD_BITS(__double_as_longlong, double, long long)
MLPBWD_BITS(__longlong_as_double, long long, double)

static __INLINE int __clz(int value) {
    return value ? __builtin_clz((unsigned)value) : 32;
}
static __INLINE int __clzll(long long value) {
    return value ? __builtin_clzll((unsigned long long)value) : 64;
}
static __INLINE int __popc(unsigned value) {
    return __builtin_popcount(value);
}
static __INLINE int __popcll(unsigned long long value) {
    return __builtin_popcountll(value);
}
static __INLINE int __ffs(int value) {
    return __builtin_ffs(value);
}
static __INLINE unsigned __brev(unsigned value) {
    unsigned result = 0;
    for (int bit = 0; bit < 32; bit++)
        result |= (value >> bit & 1u) << (31 - bit);
    return result;
}
static __INLINE unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const unsigned long long bytes = (unsigned long long)high << 32 | low;
    unsigned result = 0;
    for (int i = 0; i < 4; i++)
        result |= (unsigned)(bytes >> (selector >> 4 * i & 7u) * 8 & 0xffu) << 8 * i;
    return result;
}
static __INLINE unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((unsigned long long)a * b >> 32);
}
static __INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
static __INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}

/* ---- conversions; the hardware's give 0 for NaN and the nearest end for what is out of range ---- */

namespace emulated {
template <class INT> static __INLINE INT saturated(double value, INT lowest, INT highest, double below, double above) {
    return value != value ? 0 : value <= below ? lowest : value >= above ? highest : (INT)value;
}
} // namespace emulated
static __INLINE int __float2int_rn(float value) {
    return emulated::saturated<int>(__builtin_rint((double)value), -2147483647 - 1, 2147483647, -0x1p31, 0x1p31);
}
static __INLINE int __float2int_rz(float value) {
    return emulated::saturated<int>(value, -2147483647 - 1, 2147483647, -0x1p31, 0x1p31);
}
static __INLINE unsigned __float2uint_rn(float value) {
    return emulated::saturated<unsigned>(__builtin_rint((double)value), 0, 4294967295u, 0.0, 0x1p32);
}
static __INLINE unsigned __float2uint_rz(float value) {
    return emulated::saturated<unsigned>(value, 0, 4294967295u, 0.0, 0x1p32);
}
static __INLINE float __int2float_rn(int value) {
    return (float)value;
}
static __INLINE float __uint2float_rn(unsigned value) {
    return (float)value;
}
static __INLINE float __double2float_rn(double value) {
    return (float)value;
}

/* ---- fp32 ---- */

/* PTX ISA 9.7.3 max, min: a NaN loses against a number; -0 is less than +0. */
static __INLINE float fmaxf(float a, float b) {
    if (a > b || b != b)
        return a;
    if (b > a || a != a)
        return b;
    return __uint_as_float(__float_as_uint(a) & __float_as_uint(b));
}
static __INLINE float fminf(float a, float b) {
    if (a < b || b != b)
        return a;
    if (b < a || a != a)
        return b;
    return __uint_as_float(__float_as_uint(a) | __float_as_uint(b));
}
static __INLINE float fabsf(float x) {
    return __builtin_fabsf(x);
}
static __INLINE double fabs(double x) {
    return __builtin_fabs(x);
}
static __INLINE float copysignf(float x, float sign) {
    return __builtin_copysignf(x, sign);
}
/* An error of half a unit in the last place may come from rounding twice where the processor has no such instruction:
 * the product of two floats is exact in double. */
static __INLINE float fmaf(float a, float b, float c) {
#ifdef __FMA__
    return __builtin_fmaf(a, b, c);
#else
    return (float)((double)a * b + c);
#endif
}
static __INLINE double fma(double a, double b, double c) {
    return __builtin_fma(a, b, c);
}
#define MLPBWD_MATH(name)                                                                                              \
    static __INLINE float name##f(float x) {                                                                           \
        return __builtin_##name##f(x);                                                                                 \
    }                                                                                                                  \
    static __INLINE double name(double x) {                                                                            \
        return __builtin_##name(x);                                                                                    \
    }
MLPBWD_MATH(sqrt)
MLPBWD_MATH(cbrt)
MLPBWD_MATH(exp)
MLPBWD_MATH(exp2)
MLPBWD_MATH(expm1)
MLPBWD_MATH(log)
MLPBWD_MATH(log2)
MLPBWD_MATH(log10)
MLPBWD_MATH(log1p)
MLPBWD_MATH(sin)
MLPBWD_MATH(cos)
MLPBWD_MATH(tanh)
MLPBWD_MATH(erf)
MLPBWD_MATH(erfc)
MLPBWD_MATH(floor)
MLPBWD_MATH(ceil)
MLPBWD_MATH(trunc)
MLPBWD_MATH(rint)
MLPBWD_MATH(round)
static __INLINE float powf(float x, float y) {
    return __builtin_powf(x, y);
}
static __INLINE float ldexpf(float x, int exponent) {
    return __builtin_ldexpf(x, exponent);
}
static __INLINE float fmodf(float x, float y) {
    return __builtin_fmodf(x, y);
}
static __INLINE float rsqrtf(float x) {
    return 1.0f / __builtin_sqrtf(x);
}
static __INLINE int isnan(float x) {
    return x != x;
}
static __INLINE int isinf(float x) {
    return __builtin_isinf(x) != 0;
}
static __INLINE int isfinite(float x) {
    return __builtin_isfinite(x) != 0;
}
static __INLINE float __fdividef(float x, float y) {
    return x / y;
}
static __INLINE float __frcp_rn(float x) {
    return 1.0f / x;
}
static __INLINE float __fsqrt_rn(float x) {
    return __builtin_sqrtf(x);
}
static __INLINE float __fmaf_rn(float a, float b, float c) {
    return fmaf(a, b, c);
}
/* These two must not be joined to a fused multiply-add. */
static __INLINE float __fmul_rn(float a, float b) {
    volatile float product = a * b;
    return product;
}
static __INLINE float __fadd_rn(float a, float b) {
    volatile float sum = a + b;
    return sum;
}
static __INLINE float __expf(float x) {
    return __builtin_expf(x);
}
static __INLINE float __logf(float x) {
    return __builtin_logf(x);
}
static __INLINE float __log2f(float x) {
    return __builtin_log2f(x);
}
static __INLINE float __sinf(float x) {
    return __builtin_sinf(x);
}
static __INLINE float __cosf(float x) {
    return __builtin_cosf(x);
}
static __INLINE float __saturatef(float x) {
    return fminf(fmaxf(x, 0.0f), 1.0f); /* NaN gives 0 */
}

/* ---- min, max, abs: the overloads of CUDA for mixed types ---- */

#define MLPBWD_MIN_MAX(a_type, b_type, result)                                                                         \
    static __INLINE result min(a_type a, b_type b) {                                                                   \
        return (result)a < (result)b ? (result)a : (result)b;                                                          \
    }                                                                                                                  \
    static __INLINE result max(a_type a, b_type b) {                                                                   \
        return (result)a > (result)b ? (result)a : (result)b;                                                          \
    }
#define MLPBWD_MIN_MAX_BOTH(signed_type, unsigned_type)                                                                \
    MLPBWD_MIN_MAX(signed_type, signed_type, signed_type)                                                              \
    MLPBWD_MIN_MAX(unsigned_type, unsigned_type, unsigned_type)                                                        \
    MLPBWD_MIN_MAX(signed_type, unsigned_type, unsigned_type)                                                          \
    MLPBWD_MIN_MAX(unsigned_type, signed_type, unsigned_type)
MLPBWD_MIN_MAX_BOTH(int, unsigned)
MLPBWD_MIN_MAX_BOTH(long, unsigned long)
MLPBWD_MIN_MAX_BOTH(long long, unsigned long long)
static __INLINE float min(float a, float b) {
    return fminf(a, b);
}
static __INLINE float max(float a, float b) {
    return fmaxf(a, b);
}
static __INLINE int abs(int x) {
    return x < 0 ? -x : x;
}
static __INLINE long long llabs(long long x) {
    return x < 0 ? -x : x;
}
