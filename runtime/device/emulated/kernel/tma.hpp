/* The wrappers of templates/lib/ptx_tma.cuh. What a cache hint may change is time. */

static __INLINE void tma_prefetch_map(const void *map) {
    mlpbwd_api.tensor_prefetch(map);
}

namespace emulated {
template <class... C>
static __INLINE void tensor_load(unsigned shared, const void *map, unsigned barrier, unsigned mask, int pair,
                                 C... coordinates) {
    const int origin[] = {coordinates...};
    mlpbwd_api.tensor_load(shared, map, sizeof...(C), origin, barrier, mask, pair);
}
template <class... C> static __INLINE void tensor_store(const void *map, unsigned shared, C... coordinates) {
    const int origin[] = {coordinates...};
    mlpbwd_api.tensor_store(map, sizeof...(C), origin, shared);
}
template <class... C> static __INLINE void tensor_add(const void *map, unsigned shared, C... coordinates) {
    const int origin[] = {coordinates...};
    mlpbwd_api.tensor_reduce(map, sizeof...(C), origin, shared, EMU_ADD_F32);
}
/* A mask that is meant is one bit at least; 0 stands for a load without one. */
static __INLINE unsigned multicast(unsigned mask) {
    return mask ? mask : 1u << 16;
}
} // namespace emulated

static __INLINE void tma_load_1d(unsigned shared, const void *map, int x, unsigned barrier) {
    emulated::tensor_load(shared, map, barrier, 0, 0, x);
}
static __INLINE void tma_load_2d(unsigned shared, const void *map, int x, int y, unsigned barrier) {
    emulated::tensor_load(shared, map, barrier, 0, 0, x, y);
}
static __INLINE void tma_load_3d(unsigned shared, const void *map, int x, int y, int z, unsigned barrier) {
    emulated::tensor_load(shared, map, barrier, 0, 0, x, y, z);
}
static __INLINE void tma_load_hint_2d(unsigned shared, const void *map, int x, int y, unsigned barrier,
                                      unsigned long long) {
    emulated::tensor_load(shared, map, barrier, 0, 0, x, y);
}
static __INLINE void tma_load_hint_3d(unsigned shared, const void *map, int x, int y, int z, unsigned barrier,
                                      unsigned long long) {
    emulated::tensor_load(shared, map, barrier, 0, 0, x, y, z);
}
static __INLINE void tma_load_multicast_1d(unsigned shared, const void *map, int x, unsigned barrier,
                                           unsigned short mask) {
    emulated::tensor_load(shared, map, barrier, emulated::multicast(mask), 0, x);
}
static __INLINE void tma_load_multicast_2d(unsigned shared, const void *map, int x, int y, unsigned barrier,
                                           unsigned short mask) {
    emulated::tensor_load(shared, map, barrier, emulated::multicast(mask), 0, x, y);
}
static __INLINE void tma_load_multicast_3d(unsigned shared, const void *map, int x, int y, int z, unsigned barrier,
                                           unsigned short mask) {
    emulated::tensor_load(shared, map, barrier, emulated::multicast(mask), 0, x, y, z);
}
static __INLINE void tma_store_1d(const void *map, int x, unsigned shared) {
    emulated::tensor_store(map, shared, x);
}
static __INLINE void tma_store_2d(const void *map, int x, int y, unsigned shared) {
    emulated::tensor_store(map, shared, x, y);
}
static __INLINE void tma_store_3d(const void *map, int x, int y, int z, unsigned shared) {
    emulated::tensor_store(map, shared, x, y, z);
}
static __INLINE void tma_store_hint_2d(const void *map, int x, int y, unsigned shared, unsigned long long) {
    emulated::tensor_store(map, shared, x, y);
}
static __INLINE void tma_add_1d(const void *map, int x, unsigned shared) {
    emulated::tensor_add(map, shared, x);
}
static __INLINE void tma_add_2d(const void *map, int x, int y, unsigned shared) {
    emulated::tensor_add(map, shared, x, y);
}
static __INLINE void tma_add_3d(const void *map, int x, int y, int z, unsigned shared) {
    emulated::tensor_add(map, shared, x, y, z);
}
static __INLINE void bulk_load_hint(unsigned shared, const void *global, unsigned bytes, unsigned barrier,
                                    unsigned long long) {
    mlpbwd_api.bulk_load(shared, global, bytes, barrier, 0);
}
static __INLINE void bulk_load_multicast(unsigned shared, const void *global, unsigned bytes, unsigned barrier,
                                         unsigned short mask) {
    mlpbwd_api.bulk_load(shared, global, bytes, barrier, emulated::multicast(mask));
}
static __INLINE void bulk_store(void *global, unsigned shared, unsigned bytes) {
    mlpbwd_api.bulk_store(global, shared, bytes);
}
static __INLINE void bulk_store_hint(void *global, unsigned shared, unsigned bytes, unsigned long long) {
    mlpbwd_api.bulk_store(global, shared, bytes);
}
static __INLINE void bulk_copy_cluster(unsigned to, unsigned from, unsigned bytes, unsigned barrier) {
    mlpbwd_api.bulk_copy_cluster(to, from, bytes, barrier);
}
static __INLINE void bulk_add_f32(void *global, unsigned shared, unsigned bytes) {
    mlpbwd_api.bulk_reduce(global, shared, bytes, EMU_ADD_F32);
}
static __INLINE void bulk_prefetch(const void *global, unsigned bytes) {
    mlpbwd_api.bulk_prefetch(global, bytes);
}
static __INLINE void bulk_commit() {
    mlpbwd_api.bulk_commit();
}
template <int PENDING> static __INLINE void bulk_wait() {
    mlpbwd_api.bulk_wait(PENDING, 0);
}
template <int PENDING> static __INLINE void bulk_wait_read() {
    mlpbwd_api.bulk_wait(PENDING, 1);
}
static __INLINE void fence_proxy_async_shared() {
    mlpbwd_api.fence(EMU_FENCE_PROXY_ASYNC_SHARED);
}
static __INLINE void fence_proxy_async() {
    mlpbwd_api.fence(EMU_FENCE_PROXY_ASYNC);
}
