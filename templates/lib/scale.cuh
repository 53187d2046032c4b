/* Power-of-two scales of 16-bit operands. An operand is stored as x * 2^exponent; the exponent is guessed from a sample
 * (or exact) before conversion, the conversion records the largest finite magnitude, and whoever comes later derives
 * the exponent in force from both: the guess if it put that magnitude into the window, else the exact one. So the
 * decision is one pure function and needs no host. Window of fp16: the largest magnitude lands in [2^LOWEST, 65504],
 * hence no finite element overflows and an absolute rounding error of 2^-25 is at most 2^-(25+LOWEST) of the largest. */
struct Scale {
    int guess;     /* exponent */
    u32 largest;   /* bits of the largest finite magnitude */
    float square;  /* mean square of the finite elements the guess saw */
    int unused;
};

/* floor(log2 |x|) of a finite x > 0, subnormals included */
__device__ __forceinline__ int exponent_of(u32 bits) {
    int biased = (int)(bits >> 23);
    return biased ? biased - 127 : -118 - __clz((int)bits);
}

__device__ __forceinline__ int exact_exponent(u32 largest) {
    return largest ? 15 - exponent_of(largest) - ((largest & 0x7fffffu) >= 0x7fe000u) : 0;
}

__device__ __forceinline__ float power_of_two(int exponent) { /* -126..127 */
    return __int_as_float((exponent + 127) << 23);
}

/* x * 2^exponent in two exact steps (one factor could be out of range); beyond +-252 the result is 0 or Inf anyway */
struct Factor {
    float first, second;
};
__device__ __forceinline__ Factor make_factor(int exponent) {
    exponent = exponent > 252 ? 252 : exponent < -252 ? -252 : exponent;
    int half = exponent / 2;
    return {power_of_two(half), power_of_two(exponent - half)};
}
__device__ __forceinline__ float apply(float x, Factor factor) {
    return x * factor.first * factor.second;
}

/* lowest: the window's lower end as a power of two */
__device__ __forceinline__ bool guess_fits(int guess, u32 largest, int lowest) {
    if (!largest)
        return true;
    int exact = exact_exponent(largest);
    return guess <= exact && exponent_of(largest) + guess >= lowest;
}
__device__ __forceinline__ int exponent_in_force(const Scale *scale, int lowest) {
    int guess = scale->guess;
    u32 largest = scale->largest;
    return guess_fits(guess, largest, lowest) ? guess : exact_exponent(largest);
}
/* is the exponent in force not the guess? */
__device__ __forceinline__ bool guess_missed(const Scale *scale, int lowest) {
    return !guess_fits(scale->guess, scale->largest, lowest);
}

enum { LOWEST_INPUT = ${lowest_input}, LOWEST_INTERMEDIATE = ${lowest_intermediate} };

/* Guess for a tensor whose largest magnitude is about `magnitude`: that lands in [2^target, 2^(target+1)). */
__device__ __forceinline__ int guess_exponent(float magnitude) {
    u32 bits = __float_as_uint(magnitude);
    return bits ? ${target} - exponent_of(bits) : 0;
}

/* grad_intermediate before it exists: sums of `length` products of independent elements, the largest about six
 * standard deviations out (a miss only costs a second run of its kernel). The mean squares are those of x * 2^guess,
 * which keeps them in range. */
__device__ __forceinline__ int guess_intermediate(const Scale *a, const Scale *b, i64 length) {
    float deviation = sqrtf(a->square) * sqrtf(b->square) * sqrtf((float)length);
    u32 bits = __float_as_uint(6.0f * deviation);
    return bits ? ${target} - exponent_of(bits) + a->guess + b->guess : 0;
}
