// What an exported solution's mlpbwd_run.cpp uses of PyTorch and of CUDA's runtime, simulated: tensors are numbers, and
// every call is a line on standard output. Streams print as c (the caller's, by its number) or s (made here).
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

// ---- CUDA's runtime ----
typedef int cudaError_t;
typedef struct fake_stream *cudaStream_t;
typedef struct fake_event *cudaEvent_t;
enum { cudaSuccess = 0, cudaDevAttrMultiProcessorCount = 16, cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum { cudaEventDisableTiming = 2, cudaStreamNonBlocking = 1 };
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    std::size_t dynamicSmemBytes;
    cudaStream_t stream;
    void *attrs;
    unsigned numAttrs;
};
struct cudaFuncAttributes {
    int numRegs;
};

constexpr int FAKE_UNITS = 132;
inline std::intptr_t fake_made = 0;        // streams and events made so far
inline const void *fake_refuses = nullptr; // a function whose launches fail

inline std::string fake_name(cudaStream_t stream) {
    const auto number = reinterpret_cast<std::intptr_t>(stream);
    return (number >= 1000 ? "s" : "c") + std::to_string(number >= 1000 ? number - 1000 : number);
}
inline const char *cudaGetErrorString(cudaError_t) {
    return "a simulated failure";
}
inline cudaError_t cudaDeviceGetAttribute(int *value, int which, int) {
    *value = which == cudaDevAttrMultiProcessorCount ? FAKE_UNITS : 0;
    return cudaSuccess;
}
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, const void *) {
    return cudaSuccess;
}
inline cudaError_t cudaFuncSetAttribute(const void *function, int which, int value) {
    std::printf("shared %s %d\n", static_cast<const char *>(function),
                which == cudaFuncAttributeMaxDynamicSharedMemorySize ? value : -1);
    return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    *stream = reinterpret_cast<cudaStream_t>(1000 + ++fake_made);
    std::printf("make %s\n", fake_name(*stream).c_str());
    return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
    *event = reinterpret_cast<cudaEvent_t>(++fake_made);
    return cudaSuccess;
}
inline cudaStream_t fake_recorded = nullptr; // where the last event was recorded
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t stream) {
    fake_recorded = stream;
    return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t, unsigned) {
    std::printf("%s waits for %s\n", fake_name(stream).c_str(), fake_name(fake_recorded).c_str());
    return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void *memory, int value, std::size_t size, cudaStream_t stream) {
    std::printf("fill %#llx %d %zu on %s\n", (unsigned long long)reinterpret_cast<std::uintptr_t>(memory), value, size,
                fake_name(stream).c_str());
    return cudaSuccess;
}
extern int fake_arguments(const void *function); // how many the kernel takes
inline cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **arguments) {
    const char *name = static_cast<const char *>(function);
    if (fake_refuses == function)
        return 1;
    std::printf("%s on %s: %u %u %u, %u %u %u, %zu:", name, fake_name(config->stream).c_str(), config->gridDim.x,
                config->gridDim.y, config->gridDim.z, config->blockDim.x, config->blockDim.y, config->blockDim.z,
                config->dynamicSmemBytes);
    for (int i = 0; i < fake_arguments(function); i++) {
        unsigned long long value;
        std::memcpy(&value, arguments[i], sizeof value);
        std::printf(" %llx", value);
    }
    std::printf("\n");
    return cudaSuccess;
}

// ---- CUDA's driver: tensor maps ----
enum CUresult { CUDA_SUCCESS = 0 };
typedef std::uint64_t cuuint64_t;
typedef std::uint32_t cuuint32_t;
struct CUtensorMap {
    std::uintptr_t address;
    unsigned char rest[120];
};
enum CUtensorMapDataType {
    CU_TENSOR_MAP_DATA_TYPE_UINT8,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9
};
enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE };
enum CUtensorMapSwizzle {
    CU_TENSOR_MAP_SWIZZLE_NONE,
    CU_TENSOR_MAP_SWIZZLE_32B,
    CU_TENSOR_MAP_SWIZZLE_64B,
    CU_TENSOR_MAP_SWIZZLE_128B
};
enum CUtensorMapL2promotion {
    CU_TENSOR_MAP_L2_PROMOTION_NONE,
    CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
    CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
    CU_TENSOR_MAP_L2_PROMOTION_L2_256B
};
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE };
enum { cudaEnableDefault = 0 };
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess };

// The map's first word is the address, so that it prints among the arguments as the pointer would.
inline CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                       const cuuint64_t *size, const cuuint64_t *stride, const cuuint32_t *box,
                                       const cuuint32_t *steps, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                       CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill) {
    map->address = reinterpret_cast<std::uintptr_t>(address);
    std::printf("map %llx: type %d, swizzle %d, promotion %d:", (unsigned long long)map->address, type, swizzle,
                promotion);
    for (cuuint32_t i = 0; i < rank; i++)
        std::printf(" %llu/%u/%u/%llu", (unsigned long long)size[i], box[i], steps[i],
                    i > 0 ? (unsigned long long)stride[i - 1] : 0);
    std::printf("\n");
    return CUDA_SUCCESS;
}
inline cudaError_t cudaGetDriverEntryPointByVersion(const char *, void **found, unsigned, unsigned long long,
                                                    cudaDriverEntryPointQueryResult *result) {
    *found = reinterpret_cast<void *>(cuTensorMapEncodeTiled);
    *result = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

// ---- PyTorch ----
template <typename... Parts> [[noreturn]] void fake_throw(const Parts &...parts) {
    std::ostringstream text;
    (text << ... << parts);
    throw std::runtime_error(text.str());
}
#define TORCH_CHECK(condition, ...)                                                                                    \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fake_throw(__VA_ARGS__);                                                                                   \
    } while (0)

namespace at {
enum type { kFloat, kByte, kHalf };
struct fake_device {
    int number;
    int index() const { return number; }
    bool operator==(const fake_device &other) const { return number == other.number; }
};
inline std::ostream &operator<<(std::ostream &out, const fake_device &device) {
    return device.number < 0 ? out << "cpu" : out << "cuda:" << device.number;
}
struct fake_sizes {
    const std::vector<std::int64_t> &list;
};
inline std::ostream &operator<<(std::ostream &out, const fake_sizes &sizes) {
    for (const std::int64_t size : sizes.list)
        out << " " << size;
    return out;
}
struct Options {
    int device;
    Options dtype(type) const { return *this; }
};
struct Tensor {
    std::uintptr_t address = 0;
    std::vector<std::int64_t> shape;
    type element = kFloat;
    bool contiguous = true;
    int on = 0;

    bool is_cuda() const { return on >= 0; }
    fake_device device() const { return {on}; }
    type scalar_type() const { return element; }
    bool is_contiguous() const { return contiguous; }
    std::int64_t numel() const {
        std::int64_t product = 1;
        for (const std::int64_t size : shape)
            product *= size;
        return product;
    }
    std::int64_t size(std::int64_t) const { return shape.back(); } // asked for the last one only
    fake_sizes sizes() const { return {shape}; }
    void *data_ptr() const { return reinterpret_cast<void *>(address); }
    std::size_t nbytes() const { return static_cast<std::size_t>(numel()) * 4; }
    Options options() const { return {on}; }
    bool defined() const { return address != 0; }
    void reset() { *this = Tensor(); }
};
inline std::uintptr_t fake_next = 0x100000000000;
inline Tensor empty(const std::vector<std::int64_t> &shape, const Options &options) {
    Tensor made;
    made.address = fake_next;
    made.shape = shape;
    made.element = kByte;
    made.on = options.device;
    fake_next += 0x100000000000;
    std::printf("allocate %lld\n", (long long)made.numel());
    return made;
}
} // namespace at

inline std::intptr_t fake_current = 1; // the caller's stream
namespace c10::cuda {
struct CUDAGuard {
    explicit CUDAGuard(const at::fake_device &) {}
};
inline cudaStream_t getCurrentCUDAStream(int) {
    return reinterpret_cast<cudaStream_t>(fake_current);
}
} // namespace c10::cuda

#define FAKE_13(x) x, x, x, x, x, x, x, x, x, x, x, x, x
struct fake_module {
    void (*entry)(FAKE_13(const at::Tensor &)) = nullptr;
    void def(const char *, void (*run)(FAKE_13(const at::Tensor &)), const char *) { entry = run; }
};
#define PYBIND11_MODULE(name, module) void fake_initialise(fake_module &module)
