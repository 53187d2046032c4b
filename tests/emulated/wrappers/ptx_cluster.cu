/* Every wrapper of ptx_cluster.cuh once: for compilers only. */
extern "C" __global__ void __launch_bounds__(32) wrappers(u32 *words) {
    __shared__ __align__(16) u32 memory[64];
    __shared__ u64 barrier_memory;
    u32 barrier = shared_address(&barrier_memory), r[4];
    dependency_wait();
    dependency_launch();
    u32 other = shared_of_rank(shared_address(memory), (cluster_rank() + 1) % cluster_size());
    cluster_barrier_arrive_relaxed();
    cluster_barrier_wait();
    store_shared_cluster(other, load_shared_cluster(other));
    load_shared_cluster_x4(r, other);
    store_shared_cluster_x4(other + 16, r);
    cluster_barrier_arrive();
    cluster_barrier_wait();
    mbarrier_arrive_cluster(shared_of_rank(barrier, 0));
    mbarrier_arrive_expect_cluster(shared_of_rank(barrier, 0), 16);
    mbarrier_wait_cluster(barrier, 0);
    if (elect_one()) {
        u32 before = load_acquire(words);
        store_release(words + 1, before);
        add_release(words + 2, 1);
        words[3] = fetch_add_acquire_release(words + 2, 1);
    }
}
