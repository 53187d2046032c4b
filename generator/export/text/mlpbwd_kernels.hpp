// The kernels that launches name by index; generated (mlpbwd_kernels.cpp).
#pragma once

namespace mlpbwd {

struct kernel {
    const char *name;          // for messages
    const void *(*function)(); // what cudaLaunchKernelExC takes
};
extern const kernel kernels[];
extern const int kernel_count;

} // namespace mlpbwd
