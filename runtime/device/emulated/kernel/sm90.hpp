/* The wrappers of templates/lib/ptx_sm90.cuh, and of ptx_sm90_rs.cuh what is not in cluster.hpp and tma.hpp. */

static __INLINE void mbarrier_init(unsigned barrier, unsigned count) {
    mlpbwd_api.mbarrier_init(barrier, count);
}
static __INLINE void mbarrier_init_fence() {
    mlpbwd_api.fence(EMU_FENCE_MBARRIER_INIT);
}
static __INLINE void mbarrier_arrive(unsigned barrier) {
    mlpbwd_api.mbarrier_arrive(barrier, 1, 0);
}
static __INLINE void mbarrier_arrive_expect(unsigned barrier, unsigned bytes) {
    mlpbwd_api.mbarrier_arrive(barrier, 1, bytes);
}
static __INLINE void mbarrier_wait(unsigned barrier, unsigned parity) {
    mlpbwd_api.mbarrier_wait(barrier, parity);
}
static __INLINE void bulk_load(unsigned shared, const void *global, unsigned bytes, unsigned barrier) {
    mlpbwd_api.bulk_load(shared, global, bytes, barrier, 0);
}
static __INLINE void fence_proxy_async_global() {
    mlpbwd_api.fence(EMU_FENCE_PROXY_ASYNC_GLOBAL);
}
template <int REGISTERS> static __INLINE void registers_decrease() {
    mlpbwd_api.registers(0, REGISTERS);
}
template <int REGISTERS> static __INLINE void registers_increase() {
    mlpbwd_api.registers(1, REGISTERS);
}
template <int ID, int THREADS> static __INLINE void named_barrier() {
    mlpbwd_api.barrier_sync(ID, THREADS);
}
template <int ID, int THREADS> static __INLINE void named_barrier_arrive() {
    mlpbwd_api.barrier_arrive(ID, THREADS);
}
static __INLINE void wgmma_fence() {
    mlpbwd_api.wgmma_fence();
}
static __INLINE void wgmma_commit() {
    mlpbwd_api.wgmma_commit();
}
template <int PENDING> static __INLINE void wgmma_wait() {
    mlpbwd_api.wgmma_wait(PENDING);
}

/* D[64, 2 * R] (+)= A * B. From shared memory B is MN-major, A where TRANSPOSE_A; beside A in registers B is K-major,
 * and beside a transposed (MN-major) one. */
#define MLPBWD_WGMMA(name, type)                                                                                       \
    template <int TRANSPOSE_A, int R>                                                                                  \
    static __INLINE void wgmma_##name(float(&d)[R], unsigned long long a, unsigned long long b, int accumulate) {      \
        mlpbwd_api.wgmma(d, 2 * R, nullptr, a, b, accumulate, type, TRANSPOSE_A, 1);                                   \
    }                                                                                                                  \
    template <int R>                                                                                                   \
    static __INLINE void wgmma_registers_##name(float(&d)[R], const unsigned(&a)[4], unsigned long long b,             \
                                                int accumulate) {                                                      \
        mlpbwd_api.wgmma(d, 2 * R, a, 0, b, accumulate, type, 0, 0);                                                   \
    }                                                                                                                  \
    template <int R>                                                                                                   \
    static __INLINE void wgmma_transposed_##name(float(&d)[R], unsigned long long a, unsigned long long b,             \
                                                 int accumulate) {                                                     \
        mlpbwd_api.wgmma(d, 2 * R, nullptr, a, b, accumulate, type, 1, 0);                                             \
    }
MLPBWD_WGMMA(f16, EMU_F16)
MLPBWD_WGMMA(bf16, EMU_BF16)

static __INLINE void store_shared_cluster(unsigned address, float4 value) {
    unsigned words[4];
    __builtin_memcpy(words, &value, sizeof words);
    mlpbwd_api.store_shared(words, address, sizeof words);
}
static __INLINE void store_shared_cluster(unsigned address, int value) {
    const unsigned word = (unsigned)value;
    mlpbwd_api.store_shared(&word, address, sizeof word);
}
