/* What devices from compute capability 9.0 on add to device.h: launches with attributes and tensor maps. The rules are
 * checked here, in words, for every backend: drivers answer with a number. */
#include <stdio.h>

#include "backend.h"

enum { LEAST_CAPABILITY = 90 };

static mlpbwd_status check_capability(const dev *device, const char *what, mlp_message *why) {
    if (device->info.compute_capability >= LEAST_CAPABILITY)
        return MLPBWD_OK;
    if (device->info.compute_capability == 0)
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "device %s has no %s", device->info.id, what);
    return mlp_fail(why, MLPBWD_UNSUPPORTED, "device %s has compute capability %d.%d; %s need 9.0 or later",
                    device->info.id, device->info.compute_capability / 10, device->info.compute_capability % 10, what);
}

/* ---- launches ---- */

static mlpbwd_status check_cluster(const uint32_t cluster[3], mlp_message *why) {
    uint64_t blocks = 1;
    for (int i = 0; i < 3; i++) {
        if (cluster[i] == 0 || cluster[i] > DEV_MAX_CLUSTER)
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                            "a cluster of %u x %u x %u blocks: every size must be from 1 to %d", cluster[0], cluster[1],
                            cluster[2], DEV_MAX_CLUSTER);
        blocks *= cluster[i];
    }
    if (blocks > DEV_MAX_CLUSTER)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "a cluster of %u x %u x %u blocks has more than %d", cluster[0],
                        cluster[1], cluster[2], DEV_MAX_CLUSTER);
    return MLPBWD_OK;
}

mlpbwd_status dev_launch_with(const dev_function *function, const uint32_t grid[3], const uint32_t block[3],
                              size_t shared_bytes, void **arguments, const dev_launch_attributes *attributes,
                              dev_stream stream, mlp_message *why) {
    dev_launch_attributes checked = attributes ? *attributes : (dev_launch_attributes){0};
    bool clusters = checked.cluster[0] || checked.cluster[1] || checked.cluster[2];
    if (!clusters && !checked.programmatic)
        return dev_launch(function, grid, block, shared_bytes, arguments, stream, why);
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0)
        return MLPBWD_OK;
    const dev *device = function->module->context->device;
    mlpbwd_status status = check_capability(device, "clusters and programmatic launches", why);
    if (!status && clusters)
        status = check_cluster(checked.cluster, why);
    for (int i = 0; i < 3 && !status; i++) {
        if (!clusters)
            checked.cluster[i] = 1;
        if (grid[i] % checked.cluster[i])
            status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                              "a grid of %u x %u x %u blocks cannot be cut into clusters of %u x %u x %u", grid[0],
                              grid[1], grid[2], checked.cluster[0], checked.cluster[1], checked.cluster[2]);
    }
    return status
               ? status
               : function->backend->launch_with(function, grid, block, shared_bytes, arguments, &checked, stream, why);
}

mlpbwd_status dev_active_clusters(const dev_function *function, const uint32_t block[3], size_t shared_bytes,
                                  const uint32_t cluster[3], int *count, mlp_message *why) {
    *count = 0;
    mlpbwd_status status = check_capability(function->module->context->device, "clusters", why);
    if (!status)
        status = check_cluster(cluster, why);
    return status ? status : function->backend->active_clusters(function, block, shared_bytes, cluster, count, why);
}

/* ---- tensor maps: the rules of cuTensorMapEncodeTiled without interleaving and with element strides of 1 ---- */

static const struct element {
    const char *name;
    unsigned bytes;
} elements[] = {[DEV_U8] = {"u8", 1}, [DEV_F16] = {"f16", 2}, [DEV_BF16] = {"bf16", 2}, [DEV_F32] = {"f32", 4}};
enum { ELEMENTS = sizeof elements / sizeof elements[0], STRIDE_UNIT = 16, MOST_BOX = 256, ADDRESS_UNIT = 16 };

unsigned dev_element_bytes(enum dev_element element) {
    return elements[element].bytes;
}

unsigned dev_swizzle_bytes(enum dev_swizzle swizzle) {
    return swizzle == DEV_SWIZZLE_NONE ? 0 : 16U << swizzle;
}

static mlpbwd_status check_shape(const dev_tensor *tensor, mlp_message *why) {
    for (int i = 0; i < tensor->rank; i++) {
        if (tensor->size[i] < 1 || tensor->size[i] > UINT64_C(1) << 32)
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                            "tensor map: size[%d] is %llu elements; 1 to 2^32 would be right", i,
                            (unsigned long long)tensor->size[i]);
        if (tensor->box[i] < 1 || tensor->box[i] > MOST_BOX)
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "tensor map: box[%d] is %u elements; 1 to %d would be right",
                            i, tensor->box[i], MOST_BOX);
        uint64_t stride = i ? tensor->stride[i - 1] : STRIDE_UNIT;
        if (stride == 0 || stride % STRIDE_UNIT || stride >= UINT64_C(1) << 40)
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                            "tensor map: stride[%d] is %llu bytes; a multiple of %d below 2^40 would be right", i - 1,
                            (unsigned long long)stride, STRIDE_UNIT);
    }
    return MLPBWD_OK;
}

static mlpbwd_status check_box_row(const dev_tensor *tensor, mlp_message *why) {
    unsigned row = tensor->box[0] * elements[tensor->element].bytes, width = dev_swizzle_bytes(tensor->swizzle);
    if (row % STRIDE_UNIT)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "tensor map: box[0] is %u elements of %s, %u bytes; a multiple of %d bytes would be right",
                        tensor->box[0], elements[tensor->element].name, row, STRIDE_UNIT);
    if (width && row > width)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "tensor map: box[0] is %u elements of %s, %u bytes; the swizzle of %u bytes allows no more "
                        "than that",
                        tensor->box[0], elements[tensor->element].name, row, width);
    return MLPBWD_OK;
}

mlpbwd_status dev_tensor_check(const dev_tensor *tensor, mlp_message *why) {
    if ((unsigned)tensor->element >= ELEMENTS)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "tensor map: element type %d is not known", (int)tensor->element);
    if ((unsigned)tensor->swizzle > DEV_SWIZZLE_128B)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "tensor map: swizzle %d is not known", (int)tensor->swizzle);
    if (tensor->rank < 1 || tensor->rank > DEV_MAX_TENSOR_RANK)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "tensor map: the rank is %d; 1 to %d would be right",
                        tensor->rank, DEV_MAX_TENSOR_RANK);
    if (tensor->l2_bytes != 0 && tensor->l2_bytes != 64 && tensor->l2_bytes != 128 && tensor->l2_bytes != 256)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "tensor map: l2_bytes is %d; 0, 64, 128 or 256 would be right",
                        tensor->l2_bytes);
    mlpbwd_status status = check_shape(tensor, why);
    return status ? status : check_box_row(tensor, why);
}

mlpbwd_status dev_tensor_maps_available(const dev_context *context, mlp_message *why) {
    return check_capability(context->device, "tensor maps", why);
}

mlpbwd_status dev_tensor_map_encode(dev_context *context, const dev_tensor *tensor, dev_tensor_map *out,
                                    mlp_message *why) {
    mlpbwd_status status = dev_tensor_maps_available(context, why);
    if (!status)
        status = dev_tensor_check(tensor, why);
    if (!status && (!tensor->address || (uintptr_t)tensor->address % ADDRESS_UNIT))
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                          "tensor map: the address is %p; device memory aligned to %d bytes would be right",
                          tensor->address, ADDRESS_UNIT);
    return status ? status : context->backend->tensor_map_encode(context, tensor, out, why);
}
