// run(): the backward pass on PyTorch's current stream, outputs written in place. Every stream that calls has its own
// workspace, side streams and event, kept for the life of the process, so that calls on different streams are
// independent; calls on one stream follow each other.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <torch/csrc/utils/pybind.h>

#include <map>
#include <mutex>
#include <unordered_map>

#include "mlpbwd_kernels.hpp"
#include "mlpbwd_pass.hpp"

namespace {

constexpr int INPUTS = 8, TENSORS = 13, STREAMS = 8, ARGUMENTS = 64, MAPS = 8;

void check(cudaError_t result, const char *what) {
    TORCH_CHECK(result == cudaSuccess, "mlpbwd: ", what, ": ", cudaGetErrorString(result));
}

// Fully loads the kernels of a pass and lets them have their shared memory: once a GPU, before any capture.
struct device_state {
    int units = 0;
    std::unordered_map<int, std::size_t> shared_bytes; // of each kernel, the most so far
    std::unordered_map<std::int64_t, mlpbwd::pass> passes;

    const mlpbwd::pass &pass_of(std::int64_t tokens, int device) {
        const auto known = passes.find(tokens);
        if (known != passes.end())
            return known->second;
        if (units == 0)
            check(cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, device), "the GPU's multiprocessors");
        mlpbwd::pass made = mlpbwd::make_pass(tokens, units);
        for (const mlpbwd::launch &launch : made.launches)
            prepare(launch);
        return passes.emplace(tokens, std::move(made)).first->second;
    }

private:
    void prepare(const mlpbwd::launch &launch) {
        const mlpbwd::kernel &kernel = mlpbwd::kernels[launch.kernel];
        const bool known = shared_bytes.count(launch.kernel) != 0;
        std::size_t &most = shared_bytes[launch.kernel];
        cudaFuncAttributes attributes;
        if (!known)
            check(cudaFuncGetAttributes(&attributes, kernel.function()), kernel.name);
        if (launch.shared_bytes > most) {
            check(cudaFuncSetAttribute(kernel.function(), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(launch.shared_bytes)),
                  kernel.name);
            most = launch.shared_bytes;
        }
    }
};

struct stream_state {
    at::Tensor workspace;
    cudaStream_t side[STREAMS] = {};
    cudaEvent_t event = nullptr;
};

// Never destroyed: at exit the CUDA context goes first.
std::mutex &guard_of_states() {
    static auto *mutex = new std::mutex;
    return *mutex;
}
device_state &state_of(int device) {
    static auto *states = new std::map<int, device_state>;
    return (*states)[device];
}
stream_state &state_of(int device, cudaStream_t stream) {
    static auto *states = new std::map<std::pair<int, cudaStream_t>, stream_state>;
    return (*states)[{device, stream}];
}

// The driver's function is asked of the runtime: the solution is not linked with the driver.
decltype(&cuTensorMapEncodeTiled) encoder() {
    constexpr unsigned since = 12000;
    void *found = nullptr;
    cudaDriverEntryPointQueryResult result;
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, since, cudaEnableDefault, &result),
          "the driver's tensor maps");
    TORCH_CHECK(result == cudaDriverEntryPointSuccess, "mlpbwd: the driver has no tensor maps");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
}

void encode(const mlpbwd::tensor_map &map, void *address, CUtensorMap &out) {
    static const auto encode_tiled = encoder();
    static const CUtensorMapDataType elements[] = {CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                                                   CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, CU_TENSOR_MAP_DATA_TYPE_FLOAT32};
    const CUtensorMapSwizzle swizzle = map.swizzle == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                                       : map.swizzle == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                       : map.swizzle == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                                           : CU_TENSOR_MAP_SWIZZLE_NONE;
    const CUtensorMapL2promotion promotion = map.l2 == 256   ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B
                                             : map.l2 == 128 ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B
                                             : map.l2 == 64  ? CU_TENSOR_MAP_L2_PROMOTION_L2_64B
                                                             : CU_TENSOR_MAP_L2_PROMOTION_NONE;
    const std::vector<cuuint64_t> size(map.size.begin(), map.size.end()), stride(map.stride.begin(), map.stride.end());
    const std::vector<cuuint32_t> box(map.box.begin(), map.box.end()), steps(map.box.size(), 1);
    const CUresult result = encode_tiled(&out, elements[map.element], static_cast<cuuint32_t>(size.size()), address,
                                         size.data(), stride.data(), box.data(), steps.data(),
                                         CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion,
                                         CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    TORCH_CHECK(result == CUDA_SUCCESS, "mlpbwd: the driver made no tensor map: error ", static_cast<int>(result));
}

void order(cudaStream_t later, cudaStream_t earlier, cudaEvent_t event) {
    check(cudaEventRecord(event, earlier), "an event could not be recorded");
    check(cudaStreamWaitEvent(later, event, 0), "a stream could not wait");
}

void start(const mlpbwd::pass &pass, const mlpbwd::launch &launch, void *const *tensors, char *workspace,
           cudaStream_t stream) {
    if (launch.grid[0] == 0 || launch.grid[1] == 0 || launch.grid[2] == 0)
        return;
    const mlpbwd::kernel &kernel = mlpbwd::kernels[launch.kernel];
    mlpbwd::argument values[ARGUMENTS];
    void *addresses[ARGUMENTS];
    CUtensorMap maps[MAPS];
    TORCH_CHECK(launch.maps.size() <= MAPS, "mlpbwd: ", kernel.name, " has too many tensor maps");
    for (std::size_t i = 0; i < launch.arguments.size(); i++) {
        values[i] = launch.arguments[i];
        if (values[i].kind == mlpbwd::argument::TENSOR)
            values[i].value.pointer = tensors[values[i].index];
        else if (values[i].kind == mlpbwd::argument::BUFFER)
            values[i].value.pointer = workspace + pass.buffers[values[i].index].offset;
        addresses[i] = &values[i].value;
        if (values[i].map >= 0) {
            encode(launch.maps[values[i].map], values[i].value.pointer, maps[values[i].map]);
            addresses[i] = &maps[values[i].map];
        }
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(launch.grid[0], launch.grid[1], launch.grid[2]);
    config.blockDim = dim3(launch.block[0], launch.block[1], launch.block[2]);
    config.dynamicSmemBytes = launch.shared_bytes;
    config.stream = stream;
    check(cudaLaunchKernelExC(&config, kernel.function(), addresses), kernel.name);
}

void start_all(const mlpbwd::pass &pass, void *const *tensors, stream_state &state, cudaStream_t stream) {
    cudaStream_t streams[STREAMS] = {stream};
    bool forked[STREAMS] = {};
    char *workspace = pass.workspace > 0 ? static_cast<char *>(state.workspace.data_ptr()) : nullptr;
    if (pass.streams > 1 && state.event == nullptr)
        check(cudaEventCreateWithFlags(&state.event, cudaEventDisableTiming), "an event could not be made");
    for (int s = 1; s < pass.streams; s++) {
        if (state.side[s] == nullptr)
            check(cudaStreamCreateWithFlags(&state.side[s], cudaStreamNonBlocking), "a stream could not be made");
        streams[s] = state.side[s];
    }
    for (const mlpbwd::launch &launch : pass.launches) {
        for (const auto &wait : launch.waits) {
            order(streams[wait.first], streams[wait.second], state.event);
            forked[wait.first] = true;
        }
        start(pass, launch, tensors, workspace, streams[launch.stream]);
    }
    for (int s = 1; s < pass.streams; s++)
        if (forked[s])
            order(stream, streams[s], state.event);
}

void check_tensor(const at::Tensor &tensor, const char *name, std::int64_t rows, std::int64_t columns,
                  const at::Tensor &first) {
    TORCH_CHECK(tensor.is_cuda() && tensor.device() == first.device(), "mlpbwd: ", name, " is on ", tensor.device(),
                "; it must be on the CUDA device of grad_output");
    TORCH_CHECK(tensor.scalar_type() == at::kFloat, "mlpbwd: ", name, " is of type ", tensor.scalar_type(),
                "; it must be float32");
    TORCH_CHECK(tensor.is_contiguous(), "mlpbwd: ", name, " is not contiguous");
    TORCH_CHECK(tensor.numel() == rows * columns && (tensor.numel() == 0 || tensor.size(-1) == columns), "mlpbwd: ",
                name, " has the shape ", tensor.sizes(), "; it must have ", rows, " rows of ", columns);
    TORCH_CHECK(reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 16 == 0, "mlpbwd: ", name,
                " is not aligned to 16 bytes");
}

void run(const at::Tensor &grad_output, const at::Tensor &hidden_states, const at::Tensor &weight1,
         const at::Tensor &bias1, const at::Tensor &weight2, const at::Tensor &bias2, const at::Tensor &intermediate,
         const at::Tensor &intermediate_activated, const at::Tensor &grad_hidden_states,
         const at::Tensor &grad_weight1, const at::Tensor &grad_bias1, const at::Tensor &grad_weight2,
         const at::Tensor &grad_bias2) {
    const std::int64_t H = mlpbwd::hidden_size, I = mlpbwd::intermediate_size;
    const std::int64_t T = grad_output.numel() / H;
    const struct {
        const at::Tensor &tensor;
        const char *name;
        std::int64_t rows, columns;
    } all[TENSORS] = {{grad_output, "grad_output", T, H},
                      {hidden_states, "hidden_states", T, H},
                      {weight1, "weight1", I, H},
                      {bias1, "bias1", 1, I},
                      {weight2, "weight2", H, I},
                      {bias2, "bias2", 1, H},
                      {intermediate, "intermediate", T, I},
                      {intermediate_activated, "intermediate_activated", T, I},
                      {grad_hidden_states, "grad_hidden_states", T, H},
                      {grad_weight1, "grad_weight1", I, H},
                      {grad_bias1, "grad_bias1", 1, I},
                      {grad_weight2, "grad_weight2", H, I},
                      {grad_bias2, "grad_bias2", 1, H}};
    void *pointers[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        check_tensor(all[i].tensor, all[i].name, all[i].rows, all[i].columns, grad_output);
        pointers[i] = all[i].tensor.data_ptr();
    }
    const c10::cuda::CUDAGuard device(grad_output.device());
    const int index = grad_output.device().index();
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(index);
    if (T == 0) {
        for (int i = INPUTS; i < TENSORS; i++)
            check(cudaMemsetAsync(pointers[i], 0, all[i].tensor.nbytes(), stream), all[i].name);
        return;
    }
    const std::lock_guard<std::mutex> lock(guard_of_states());
    const mlpbwd::pass &pass = state_of(index).pass_of(T, index);
    stream_state &state = state_of(index, stream);
    const auto size = static_cast<std::int64_t>(pass.workspace);
    if (size > 0 && (!state.workspace.defined() || state.workspace.numel() < size)) {
        state.workspace.reset();
        state.workspace = at::empty({size}, grad_output.options().dtype(at::kByte));
    }
    start_all(pass, pointers, state, stream);
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    module.def("run", &run, "Backward pass of linear, GELU (tanh form), linear; writes the last five tensors.");
}
