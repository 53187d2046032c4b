/* Inline PTX of clusters and their shared memory, dependent launches, and flags in global memory. PTX ISA sections beside
 * each. */
#ifndef MLPBWD_EMULATED
/* 10.16, 10.17 %cluster_ctarank, %cluster_nctarank: this block's place among the blocks of its cluster */
__device__ __forceinline__ u32 cluster_rank() {
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
__device__ __forceinline__ u32 cluster_size() {
    u32 size;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}
/* 9.7.13.3 barrier.cluster: every thread of every block of the cluster that has not exited; what was written before the
 * arrival is visible after the wait, or not (relaxed) */
__device__ __forceinline__ void cluster_barrier_arrive() {
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}
__device__ __forceinline__ void cluster_barrier_arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}
__device__ __forceinline__ void cluster_barrier_wait() {
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
/* 9.7.9.23 mapa: the address, in the cluster's shared memory, that an address of this block has in the block of that rank */
__device__ __forceinline__ u32 shared_of_rank(u32 shared, u32 rank) {
    u32 address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared), "r"(rank));
    return address;
}
/* 9.7.9.8, .11 ld, st in the cluster's shared memory: addresses of shared_of_rank */
__device__ __forceinline__ u32 load_shared_cluster(u32 address) {
    u32 v;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
    return v;
}
__device__ __forceinline__ void load_shared_cluster_x4(u32 (&r)[4], u32 address) {
    asm volatile("ld.shared::cluster.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address) : "memory");
}
__device__ __forceinline__ void store_shared_cluster(u32 address, u32 value) {
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
__device__ __forceinline__ void store_shared_cluster_x4(u32 address, const u32 (&r)[4]) {
    asm volatile("st.shared::cluster.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}
/* 9.7.13.15.13 mbarrier.arrive on another block's barrier (address of shared_of_rank), releasing to the cluster */
__device__ __forceinline__ void mbarrier_arrive_cluster(u32 barrier) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect_cluster(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}
/* 9.7.13.15.16 mbarrier.try_wait of this block's barrier on which threads of other blocks arrive */
__device__ __forceinline__ void mbarrier_wait_cluster(u32 barrier, u32 parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra.uni finished;\n"
                 "bra.uni again;\n"
                 "finished:\n"
                 "}" ::"r"(barrier), "r"(parity) : "memory");
}
/* 9.7.13.13 griddepcontrol: until the launches before this one are over and their writes visible; the next launch may start
 * (when every block has said so or exited) */
__device__ __forceinline__ void dependency_wait() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
__device__ __forceinline__ void dependency_launch() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
/* 9.7.9.8, .11, 9.7.13.5, .6 ld, st, atom, red of words between blocks: what was done before a release is visible after the
 * acquire that reads it */
__device__ __forceinline__ u32 load_acquire(const u32 *word) {
    u32 v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(word) : "memory");
    return v;
}
__device__ __forceinline__ void store_release(u32 *word, u32 value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
__device__ __forceinline__ void add_release(u32 *word, u32 value) {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
__device__ __forceinline__ u32 fetch_add_acquire_release(u32 *word, u32 value) {
    u32 before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(value) : "memory");
    return before;
}
/* 9.7.13.14 elect.sync: true in one lane of a whole warp, the same every time */
__device__ __forceinline__ bool elect_one() {
    u32 elected;
    asm volatile("{\n"
                 ".reg .pred one;\n"
                 "elect.sync _|one, 0xffffffff;\n"
                 "selp.b32 %0, 1, 0, one;\n"
                 "}" : "=r"(elected));
    return elected;
}
#endif
