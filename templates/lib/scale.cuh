/* Power-of-two scales of 16-bit operands. An operand is stored as x * 2^exponent; the exponent is guessed from a sample
 * (or exact) before conversion, the conversion records the largest finite magnitude, and whoever comes later derives
 * the exponent in force from both: the guess if it put that magnitude into the window, else the exact one. So the
 * decision is one pure function and needs no host. Window of fp16: the largest magnitude lands in [2^LOWEST, 65504],
 * hence no finite element overflows and an absolute rounding error of 2^-25 is at most 2^-(25+LOWEST) of the largest. */
enum { OPERAND_GRAD_OUTPUT, OPERAND_WEIGHT2, OPERAND_ACTIVATED, OPERAND_WEIGHT1, OPERAND_HIDDEN,
       OPERAND_GRAD_INTERMEDIATE, OPERAND_COUNT };

struct Scales {
    int guess[8];      /* exponents */
    u32 largest[8];    /* bits of the largest finite magnitude */
    float square[8];   /* mean square of the finite elements seen by the guess */
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
__device__ __forceinline__ int exponent_in_force(const Scales *scales, int operand) {
    int guess = scales->guess[operand];
    u32 largest = scales->largest[operand];
    return guess_fits(guess, largest, operand == OPERAND_GRAD_INTERMEDIATE ? ${lowest_intermediate} : ${lowest_input})
               ? guess
               : exact_exponent(largest);
}
