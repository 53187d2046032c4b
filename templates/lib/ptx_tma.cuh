/* Inline PTX of tensor copies (TMA) and of the bulk copies that ptx_sm90.cuh lacks. PTX ISA sections beside each. A map
 * comes from dev_tensor_map_encode and reaches the kernel as `const __grid_constant__ TensorMap map`; the wrappers take
 * its address. Coordinates are elements, innermost first (that one a multiple of 16 bytes), and may be negative in loads.
 * shared is the box's place, aligned to 128 bytes, and to the repeat of the swizzle (1024 bytes for 128B) where products or
 * this code's formulas read it. */
struct __align__(64) TensorMap {
    unsigned char bytes[128];
};
/* 9.7.9.2 cache policies, as createpolicy makes them */
enum CachePolicy : u64 {
    EVICT_NORMAL = 0x1000000000000000ull,
    EVICT_FIRST = 0x12f0000000000000ull,
    EVICT_LAST = 0x14f0000000000000ull
};
#ifndef MLPBWD_EMULATED
/* 9.7.9.15 prefetch.tensormap: hides the first use's fetch of the map */
__device__ __forceinline__ void tma_prefetch_map(const void *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
/* 9.7.9.25.5.2 cp.async.bulk.tensor: a box from global to shared memory, its full bytes counted on an mbarrier; what lies
 * outside the tensor becomes 0 */
__device__ __forceinline__ void tma_load_1d(u32 shared, const void *map, int x, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];"
                 ::"r"(shared), "l"(map), "r"(x), "r"(barrier) : "memory");
}
__device__ __forceinline__ void tma_load_2d(u32 shared, const void *map, int x, int y, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
__device__ __forceinline__ void tma_load_3d(u32 shared, const void *map, int x, int y, int z, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared), "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier) : "memory");
}
/* the same with a cache policy */
__device__ __forceinline__ void tma_load_hint_2d(u32 shared, const void *map, int x, int y, u32 barrier, u64 policy) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared), "l"(map), "r"(x), "r"(y), "r"(barrier), "l"(policy)
                 : "memory");
}
__device__ __forceinline__ void tma_load_hint_3d(u32 shared, const void *map, int x, int y, int z, u32 barrier, u64 policy) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared), "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier),
                 "l"(policy) : "memory");
}
/* the same into every block of the cluster whose rank's bit is in the mask: at the same place in its shared memory, counted
 * on its barrier at the same place */
__device__ __forceinline__ void tma_load_multicast_1d(u32 shared, const void *map, int x, u32 barrier, u16 mask) {
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2}], [%3], %4;" ::"r"(shared), "l"(map), "r"(x), "r"(barrier), "h"(mask) : "memory");
}
__device__ __forceinline__ void tma_load_multicast_2d(u32 shared, const void *map, int x, int y, u32 barrier, u16 mask) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared), "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(mask) : "memory");
}
__device__ __forceinline__ void tma_load_multicast_3d(u32 shared, const void *map, int x, int y, int z, u32 barrier, u16 mask) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared), "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier),
                 "h"(mask) : "memory");
}
/* 9.7.9.25.5.2 cp.async.bulk.tensor: a box from this block's shared memory to global memory, clipped to the tensor (an
 * H200 writes whole 16 bytes at the end of a row: its size must be a multiple); in the bulk group that bulk_commit closes */
__device__ __forceinline__ void tma_store_1d(const void *map, int x, u32 shared) {
    asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%0, {%1}], [%2];" ::"l"(map), "r"(x), "r"(shared)
                 : "memory");
}
__device__ __forceinline__ void tma_store_2d(const void *map, int x, int y, u32 shared) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x), "r"(y),
                 "r"(shared) : "memory");
}
__device__ __forceinline__ void tma_store_3d(const void *map, int x, int y, int z, u32 shared) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(map), "r"(x),
                 "r"(y), "r"(z), "r"(shared) : "memory");
}
__device__ __forceinline__ void tma_store_hint_2d(const void *map, int x, int y, u32 shared, u64 policy) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint [%0, {%1, %2}], [%3], %4;"
                 ::"l"(map), "r"(x), "r"(y), "r"(shared), "l"(policy) : "memory");
}
/* 9.7.9.25.5.3 cp.reduce.async.bulk.tensor: adds the box to the tensor, each element atomically and in no order */
__device__ __forceinline__ void tma_add_1d(const void *map, int x, u32 shared) {
    asm volatile("cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%0, {%1}], [%2];" ::"l"(map), "r"(x),
                 "r"(shared) : "memory");
}
__device__ __forceinline__ void tma_add_2d(const void *map, int x, int y, u32 shared) {
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
                 "r"(x), "r"(y), "r"(shared) : "memory");
}
__device__ __forceinline__ void tma_add_3d(const void *map, int x, int y, int z, u32 shared) {
    asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(map),
                 "r"(x), "r"(y), "r"(z), "r"(shared) : "memory");
}
/* 9.7.9.25.4.1 cp.async.bulk: contiguous bytes (a multiple of 16; both ends aligned to 16); with a cache policy; into every
 * block of the mask; back to global memory, in a bulk group; between blocks of a cluster (to and barrier as shared_of_rank
 * gives them, from in this block) */
__device__ __forceinline__ void bulk_load_hint(u32 shared, const void *global, u32 bytes, u32 barrier, u64 policy) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
                 ::"r"(shared), "l"(global), "r"(bytes), "r"(barrier), "l"(policy) : "memory");
}
__device__ __forceinline__ void bulk_load_multicast(u32 shared, const void *global, u32 bytes, u32 barrier, u16 mask) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1], %2, [%3], %4;" ::"r"(shared), "l"(global), "r"(bytes), "r"(barrier), "h"(mask) : "memory");
}
__device__ __forceinline__ void bulk_store(void *global, u32 shared, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(shared), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void bulk_store_hint(void *global, u32 shared, u32 bytes, u64 policy) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(global), "r"(shared),
                 "r"(bytes), "l"(policy) : "memory");
}
__device__ __forceinline__ void bulk_copy_cluster(u32 to, u32 from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "r"(from), "r"(bytes), "r"(barrier) : "memory");
}
/* 9.7.9.25.4.2 cp.reduce.async.bulk: adds floats to global memory, each atomically and in no order */
__device__ __forceinline__ void bulk_add_f32(void *global, u32 shared, u32 bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(global), "r"(shared),
                 "r"(bytes) : "memory");
}
/* 9.7.9.25.4.3 cp.async.bulk.prefetch: into L2 */
__device__ __forceinline__ void bulk_prefetch(const void *global, u32 bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes) : "memory");
}
/* 9.7.9.25.6 bulk groups of this thread: close one; wait until at most PENDING of the newest are not over, that is, their
 * writes are done and visible to this thread; or until their shared memory has been read and may be used again */
__device__ __forceinline__ void bulk_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
template <int PENDING> __device__ __forceinline__ void bulk_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}
template <int PENDING> __device__ __forceinline__ void bulk_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}
/* 9.7.13.4 fence.proxy.async: this thread's ordinary accesses to shared memory (or to all memory) before copies by the copy
 * engine and products, and the reverse; for global memory alone see ptx_sm90.cuh */
__device__ __forceinline__ void fence_proxy_async_shared() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void fence_proxy_async() {
    asm volatile("fence.proxy.async;" ::: "memory");
}
#endif
