/* What the tests of tcgen05 on emulated devices share: their kernels' texts and operands. */
#ifndef SM100_FIXTURE_H
#define SM100_FIXTURE_H

#include "emulated_kernel.h"

/* The text of tests/emulated/kernels/NAME.cu behind the wrappers it uses; the first occurrence of `find`, where not
 * NULL, becomes `put`. fills as for kernel_text, for the kernel's own holes. malloc'ed. */
char *sm100_text(const char *name, const kernel_fill *fills, const char *find, const char *put);
/* The same, compiled for emulated:sm_100a; skips the test where the device cannot be had. */
test_kernel *sm100_load(const char *name, const kernel_fill *fills, const char *find, const char *put);

enum sm100_type { SM100_F16, SM100_BF16, SM100_TF32 }; /* as umma_instruction counts them */

/* Element `index` of an operand: a multiple of 1/64 in [-2, 2), which every type holds exactly, and of which sums of a
 * thousand products are exact in fp32. */
double sm100_value(uint32_t operand, size_t index);
uint16_t sm100_half(double value, enum sm100_type type); /* value as sm100_value gives it */

/* Operand [mn][k], element index mn * k_size + k, as 64 x 64 blocks of 8 KiB in the 128-byte swizzle, K-major (blocks
 * of one row of blocks along k) or MN-major (blocks of one k along mn). mn and k are multiples of 64. malloc'ed. */
uint16_t *sm100_blocks(uint32_t operand, size_t mn, size_t k, enum sm100_type type, bool mn_major);

/* Is d[m][n] the float64 product of operands 0 [m][k] and 1 [n][k], to the last bit? Else sentence, where not NULL,
 * names the first place that differs. */
bool sm100_equal(const float *d, size_t m, size_t n, size_t k, char *sentence, size_t capacity);

#endif
