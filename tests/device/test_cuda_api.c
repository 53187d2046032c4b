/* Are the declarations of runtime/device/cuda_api.def those of cuda.h and nvrtc.h? The comparison is done by the
 * compiler, where the headers exist; the program then says only that it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#if defined(__has_include)
#if __has_include(<cuda.h>)
#define __CUDA_API_VERSION_INTERNAL /* declares every version of a function under its own name */
#include <cuda.h>
#define HAVE_CUDA_H CUDA_VERSION
#endif
#if __has_include(<nvrtc.h>)
#include <nvrtc.h>
#define HAVE_NVRTC_H 1
#endif
#endif

#include "device/cuda_api.h"
#include "device/device.h"

#if defined(HAVE_CUDA_H) && HAVE_CUDA_H >= 12040
/* NOLINTBEGIN(bugprone-macro-parentheses): types cannot be put in parentheses. */
/* Two function types are compatible, in C's sense, when a pointer to one selects the other. */
#define CUDA_FUNCTION(name, parameters)                                                                                \
    _Static_assert(_Generic(&name, cuda_enum(*) parameters : 1, default : 0), #name " differs from cuda.h");
#define CUDA_OPTIONAL(name, parameters) CUDA_FUNCTION(name, parameters)
#define CUDA_CONSTANT(name, value) _Static_assert((value) == (int)(name), #name " differs from cuda.h");
#include "device/cuda_api.def"
#undef CUDA_FUNCTION
#undef CUDA_OPTIONAL
#undef CUDA_CONSTANT
/* Structures that the library has a layout of its own for. */
#define SAME(own, own_member, theirs, their_member)                                                                    \
    _Static_assert(offsetof(own, own_member) == offsetof(theirs, their_member),                                        \
                   #theirs "." #their_member " differs from cuda.h");
_Static_assert(sizeof(cuda_launch_attribute) == sizeof(CUlaunchAttribute), "CUlaunchAttribute differs from cuda.h");
SAME(cuda_launch_attribute, id, CUlaunchAttribute, id)
SAME(cuda_launch_attribute, value.cluster, CUlaunchAttribute, value.clusterDim)
SAME(cuda_launch_attribute, value.programmatic, CUlaunchAttribute, value.programmaticStreamSerializationAllowed)
_Static_assert(sizeof(cuda_launch_config) == sizeof(CUlaunchConfig), "CUlaunchConfig differs from cuda.h");
SAME(cuda_launch_config, grid, CUlaunchConfig, gridDimX)
SAME(cuda_launch_config, grid[2], CUlaunchConfig, gridDimZ)
SAME(cuda_launch_config, block, CUlaunchConfig, blockDimX)
SAME(cuda_launch_config, shared_bytes, CUlaunchConfig, sharedMemBytes)
SAME(cuda_launch_config, stream, CUlaunchConfig, hStream)
SAME(cuda_launch_config, attributes, CUlaunchConfig, attrs)
SAME(cuda_launch_config, count, CUlaunchConfig, numAttrs)
_Static_assert(sizeof(cuda_node_params) == sizeof(CUDA_KERNEL_NODE_PARAMS_v2),
               "a node's parameters differ from cuda.h");
SAME(cuda_node_params, function, CUDA_KERNEL_NODE_PARAMS_v2, func)
SAME(cuda_node_params, grid, CUDA_KERNEL_NODE_PARAMS_v2, gridDimX)
SAME(cuda_node_params, block, CUDA_KERNEL_NODE_PARAMS_v2, blockDimX)
SAME(cuda_node_params, shared_bytes, CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes)
SAME(cuda_node_params, arguments, CUDA_KERNEL_NODE_PARAMS_v2, kernelParams)
SAME(cuda_node_params, context, CUDA_KERNEL_NODE_PARAMS_v2, ctx)
_Static_assert(sizeof(dev_tensor_map) == sizeof(CUtensorMap) && _Alignof(dev_tensor_map) >= _Alignof(CUtensorMap),
               "CUtensorMap differs from cuda.h");
_Static_assert(sizeof(CUresult) == sizeof(cuda_enum), "an enumeration of cuda.h is not an unsigned int");
#endif

#ifdef HAVE_NVRTC_H
#define NVRTC_FUNCTION(type, name, parameters)                                                                         \
    _Static_assert(_Generic(&name, type(*) parameters : 1, default : 0), #name " differs from nvrtc.h");
#define NVRTC_CONSTANT(name, value) _Static_assert((value) == (int)(name), #name " differs from nvrtc.h");
#include "device/cuda_api.def"
#undef NVRTC_FUNCTION
#undef NVRTC_CONSTANT
#endif

/* NOLINTEND(bugprone-macro-parentheses) */

static void test_cuda_h(void **state) {
    (void)state;
#if !defined(HAVE_CUDA_H)
    print_message("cuda.h was not there when this test was compiled\n");
    skip();
#elif HAVE_CUDA_H < 12040
    print_message("cuda.h is older than 12.4 and lacks cuFuncLoad\n");
    skip();
#endif
}

static void test_nvrtc_h(void **state) {
    (void)state;
#ifndef HAVE_NVRTC_H
    print_message("nvrtc.h was not there when this test was compiled\n");
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cuda_h), cmocka_unit_test(test_nvrtc_h)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
