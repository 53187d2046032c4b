if (threadIdx.x >= 32) {
            constexpr int WARPS = ${warps}, FLIGHT = ${flight};
            if (threadIdx.x == 32) {
                ${set}
            }
            named_barrier<6, 32 * WARPS>();
            const int warp = threadIdx.x / 32 - 1;
            convert_beside<FLIGHT>(barriers.conversions, blockIdx.x * WARPS + warp, gridDim.x * WARPS, shared_memory, ${at} + warp * FLIGHT * 512);
        }
