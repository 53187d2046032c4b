/* Every wrapper of ptx_tma.cuh once: for compilers only. */
extern "C" __global__ void __launch_bounds__(32)
    wrappers(const __grid_constant__ TensorMap map, float *values, const float *others, u16 mask) {
    __shared__ __align__(1024) unsigned char memory[32768];
    __shared__ u64 barrier_memory;
    u32 shared = shared_address(memory), barrier = shared_address(&barrier_memory);
    tma_prefetch_map(&map);
    tma_load_1d(shared, &map, 0, barrier);
    tma_load_2d(shared, &map, 0, -1, barrier);
    tma_load_3d(shared, &map, 0, -1, 2, barrier);
    tma_load_hint_2d(shared, &map, 0, -1, barrier, EVICT_FIRST);
    tma_load_hint_3d(shared, &map, 0, -1, 2, barrier, EVICT_LAST);
    tma_load_multicast_1d(shared, &map, 0, barrier, mask);
    tma_load_multicast_2d(shared, &map, 0, -1, barrier, mask);
    tma_load_multicast_3d(shared, &map, 0, -1, 2, barrier, mask);
    bulk_load_hint(shared, others, 1024, barrier, EVICT_NORMAL);
    bulk_load_multicast(shared, others, 1024, barrier, mask);
    bulk_prefetch(others, 1024);
    fence_proxy_async_shared();
    fence_proxy_async();
    tma_store_1d(&map, 0, shared);
    tma_store_2d(&map, 0, 1, shared);
    tma_store_3d(&map, 0, 1, 2, shared);
    tma_store_hint_2d(&map, 0, 1, shared, EVICT_FIRST);
    tma_add_1d(&map, 0, shared);
    tma_add_2d(&map, 0, 1, shared);
    tma_add_3d(&map, 0, 1, 2, shared);
    bulk_store(values, shared, 1024);
    bulk_store_hint(values, shared, 1024, EVICT_FIRST);
    bulk_add_f32(values, shared, 1024);
    bulk_commit();
    bulk_wait_read<1>();
    bulk_wait<0>();
    bulk_copy_cluster(shared, shared, 1024, barrier);
}
