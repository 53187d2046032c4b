/* The wrappers of templates/lib/ptx_sm100.cuh. */

template <int CTAS, int COLUMNS> static __INLINE void tmem_allocate(unsigned shared) {
    mlpbwd_api.tmem_allocate(shared, COLUMNS, CTAS == 2);
}
template <int CTAS, int COLUMNS> static __INLINE void tmem_free(unsigned address) {
    mlpbwd_api.tmem_free(address, COLUMNS, CTAS == 2);
}
template <int CTAS> static __INLINE void tmem_relinquish() {
    mlpbwd_api.tmem_relinquish(CTAS == 2);
}
template <int CTAS>
static __INLINE void umma_f16(unsigned d, unsigned long long a, unsigned long long b, unsigned instruction,
                              int accumulate) {
    mlpbwd_api.umma(d, a, 0, 0, b, instruction, accumulate, 0, CTAS == 2);
}
template <int CTAS>
static __INLINE void umma_f16_tmem(unsigned d, unsigned a, unsigned long long b, unsigned instruction, int accumulate) {
    mlpbwd_api.umma(d, 0, a, 1, b, instruction, accumulate, 0, CTAS == 2);
}
template <int CTAS>
static __INLINE void umma_tf32(unsigned d, unsigned long long a, unsigned long long b, unsigned instruction,
                               int accumulate) {
    mlpbwd_api.umma(d, a, 0, 0, b, instruction, accumulate, 1, CTAS == 2);
}
template <int CTAS>
static __INLINE void umma_tf32_tmem(unsigned d, unsigned a, unsigned long long b, unsigned instruction,
                                    int accumulate) {
    mlpbwd_api.umma(d, 0, a, 1, b, instruction, accumulate, 1, CTAS == 2);
}
template <int CTAS> static __INLINE void umma_commit(unsigned barrier) {
    mlpbwd_api.umma_commit(barrier, 0, CTAS == 2);
}
/* A mask that is meant is one bit at least; 0 stands for a commit without one. */
template <int CTAS> static __INLINE void umma_commit_multicast(unsigned barrier, unsigned short mask) {
    mlpbwd_api.umma_commit(barrier, mask ? mask : 1u << 16, CTAS == 2);
}
static __INLINE void tcgen05_fence_before() {
    mlpbwd_api.tcgen05_fence(0);
}
static __INLINE void tcgen05_fence_after() {
    mlpbwd_api.tcgen05_fence(1);
}
static __INLINE void tmem_wait_load() {
    mlpbwd_api.tmem_wait(0);
}
static __INLINE void tmem_wait_store() {
    mlpbwd_api.tmem_wait(1);
}
template <int N> static __INLINE void tmem_load_32x32b(unsigned (&r)[N], unsigned address) {
    mlpbwd_api.tmem_load(r, N, address, EMU_32X32B, 0, 0);
}
template <int N> static __INLINE void tmem_store_32x32b(unsigned address, const unsigned (&r)[N]) {
    mlpbwd_api.tmem_store(r, N, address, EMU_32X32B, 0, 0);
}
template <int N> static __INLINE void tmem_load_16x256b(unsigned (&r)[N], unsigned address) {
    mlpbwd_api.tmem_load(r, N, address, EMU_16X256B, 0, 0);
}
template <int N> static __INLINE void tmem_store_16x256b(unsigned address, const unsigned (&r)[N]) {
    mlpbwd_api.tmem_store(r, N, address, EMU_16X256B, 0, 0);
}
static __INLINE void cancel_request(unsigned shared, unsigned barrier) {
    mlpbwd_api.cancel_request(shared, barrier, 0);
}
static __INLINE void cancel_request_multicast(unsigned shared, unsigned barrier) {
    mlpbwd_api.cancel_request(shared, barrier, 1);
}
static __INLINE int cancel_succeeded(const unsigned (&answer)[4]) {
    return mlpbwd_api.cancel_succeeded(answer);
}
template <int DIMENSION> static __INLINE unsigned cancel_first_block(const unsigned (&answer)[4]) {
    return mlpbwd_api.cancel_first_block(answer, DIMENSION);
}
static __INLINE void cancel_fence_release() {
    mlpbwd_api.fence(EMU_FENCE_PROXY_ASYNC_SHARED);
}
/* Only completes the release on the readers' side, which is what the emulation demands. */
static __INLINE void cancel_fence_acquire() {
}
static __INLINE void tma_load_pair_2d(unsigned shared, const void *map, int x, int y, unsigned barrier) {
    const int origin[] = {x, y};
    mlpbwd_api.tensor_load(shared, map, 2, origin, barrier, 0, 1);
}
static __INLINE void tma_load_pair_multicast_2d(unsigned shared, const void *map, int x, int y, unsigned barrier,
                                                unsigned short mask) {
    const int origin[] = {x, y};
    mlpbwd_api.tensor_load(shared, map, 2, origin, barrier, mask ? mask : 1u << 16, 1);
}
static __INLINE void tma_load_pair_3d(unsigned shared, const void *map, int x, int y, int z, unsigned barrier) {
    const int origin[] = {x, y, z};
    mlpbwd_api.tensor_load(shared, map, 3, origin, barrier, 0, 1);
}
static __INLINE void tma_load_pair_multicast_3d(unsigned shared, const void *map, int x, int y, int z, unsigned barrier,
                                                unsigned short mask) {
    const int origin[] = {x, y, z};
    mlpbwd_api.tensor_load(shared, map, 3, origin, barrier, mask ? mask : 1u << 16, 1);
}
