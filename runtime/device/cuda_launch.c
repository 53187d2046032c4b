/* Launching CUDA functions, and the tensor maps that they take. */
#include "cuda_backend.h"

mlpbwd_status cuda_launch(const dev_function *base, const uint32_t grid[3], const uint32_t block[3],
                          size_t shared_bytes, void **arguments, dev_stream stream, mlp_message *why) {
    const cuda_function *function = (const cuda_function *)base;
    cuda_context *context = function->context;
    cuda_guard guard;
    mlpbwd_status status = cuda_enter(context, &guard, why);
    if (status)
        return status;
    cuda_enum result =
        context->api->cuLaunchKernel(function->handle, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                     (unsigned)shared_bytes, (CUstream)stream, arguments, NULL);
    cuda_leave(context, &guard);
    if (result)
        return cuda_failed(context->api, result, why, "a launch of %u x %u x %u blocks of %u x %u x %u threads failed",
                           grid[0], grid[1], grid[2], block[0], block[1], block[2]);
    return MLPBWD_OK;
}

mlpbwd_status cuda_launch_with(const dev_function *base, const uint32_t grid[3], const uint32_t block[3],
                               size_t shared_bytes, void **arguments, const dev_launch_attributes *wanted,
                               dev_stream stream, mlp_message *why) {
    const cuda_function *function = (const cuda_function *)base;
    cuda_context *context = function->context;
    cuda_launch_attribute attributes[] = {
        {.id = MLP_CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
         .value.cluster = {wanted->cluster[0], wanted->cluster[1], wanted->cluster[2]}},
        {.id = MLP_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value.programmatic = wanted->programmatic}};
    const cuda_launch_config config = {.grid = {grid[0], grid[1], grid[2]},
                                       .block = {block[0], block[1], block[2]},
                                       .shared_bytes = (unsigned)shared_bytes,
                                       .stream = (CUstream)stream,
                                       .attributes = attributes,
                                       .count = sizeof attributes / sizeof attributes[0]};
    cuda_guard guard;
    mlpbwd_status status = cuda_enter(context, &guard, why);
    if (status)
        return status;
    cuda_enum result =
        context->api->cuLaunchKernelEx((const CUlaunchConfig *)&config, function->handle, arguments, NULL);
    cuda_leave(context, &guard);
    if (result)
        return cuda_failed(context->api, result, why,
                           "a launch of %u x %u x %u blocks of %u x %u x %u threads in clusters of %u x %u x %u%s "
                           "failed",
                           grid[0], grid[1], grid[2], block[0], block[1], block[2], wanted->cluster[0],
                           wanted->cluster[1], wanted->cluster[2], wanted->programmatic ? ", programmatic," : "");
    return MLPBWD_OK;
}

mlpbwd_status cuda_active_clusters(const dev_function *base, const uint32_t block[3], size_t shared_bytes,
                                   const uint32_t cluster[3], int *count, mlp_message *why) {
    const cuda_function *function = (const cuda_function *)base;
    cuda_context *context = function->context;
    cuda_launch_attribute attribute = {.id = MLP_CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                       .value.cluster = {cluster[0], cluster[1], cluster[2]}};
    const cuda_launch_config config = {.grid = {cluster[0], cluster[1], cluster[2]},
                                       .block = {block[0], block[1], block[2]},
                                       .shared_bytes = (unsigned)shared_bytes,
                                       .attributes = &attribute,
                                       .count = 1};
    cuda_guard guard;
    mlpbwd_status status = cuda_enter(context, &guard, why);
    if (status)
        return status;
    cuda_enum result =
        context->api->cuOccupancyMaxActiveClusters(count, function->handle, (const CUlaunchConfig *)&config);
    cuda_leave(context, &guard);
    if (result)
        return cuda_failed(context->api, result, why,
                           "no count of clusters of %u x %u x %u blocks that can run at once", cluster[0], cluster[1],
                           cluster[2]);
    return MLPBWD_OK;
}

mlpbwd_status cuda_tensor_map_encode(dev_context *base, const dev_tensor *tensor, dev_tensor_map *out,
                                     mlp_message *why) {
    static const cuda_enum types[] = {[DEV_U8] = MLP_CU_TENSOR_MAP_DATA_TYPE_UINT8,
                                      [DEV_F16] = MLP_CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                                      [DEV_BF16] = MLP_CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                                      [DEV_F32] = MLP_CU_TENSOR_MAP_DATA_TYPE_FLOAT32};
    static const cuda_enum swizzles[] = {[DEV_SWIZZLE_NONE] = MLP_CU_TENSOR_MAP_SWIZZLE_NONE,
                                         [DEV_SWIZZLE_32B] = MLP_CU_TENSOR_MAP_SWIZZLE_32B,
                                         [DEV_SWIZZLE_64B] = MLP_CU_TENSOR_MAP_SWIZZLE_64B,
                                         [DEV_SWIZZLE_128B] = MLP_CU_TENSOR_MAP_SWIZZLE_128B};
    static const uint32_t element_stride[DEV_MAX_TENSOR_RANK] = {1, 1, 1, 1, 1};
    cuda_context *context = cuda_context_of(base);
    cuda_enum promotion = MLP_CU_TENSOR_MAP_L2_PROMOTION_NONE;
    if (tensor->l2_bytes)
        promotion = tensor->l2_bytes == 64    ? MLP_CU_TENSOR_MAP_L2_PROMOTION_L2_64B
                    : tensor->l2_bytes == 128 ? MLP_CU_TENSOR_MAP_L2_PROMOTION_L2_128B
                                              : MLP_CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
    cuda_guard guard;
    mlpbwd_status status = cuda_enter(context, &guard, why); /* the driver wants one to be current */
    if (status)
        return status;
    cuda_enum result = context->api->cuTensorMapEncodeTiled(
        (CUtensorMap *)out, types[tensor->element], (uint32_t)tensor->rank, tensor->address, tensor->size,
        tensor->stride, tensor->box, element_stride, MLP_CU_TENSOR_MAP_INTERLEAVE_NONE, swizzles[tensor->swizzle],
        promotion, MLP_CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    cuda_leave(context, &guard);
    if (result)
        return cuda_failed(context->api, result, why, "the driver made no tensor map of rank %d at %p", tensor->rank,
                           tensor->address);
    return MLPBWD_OK;
}
