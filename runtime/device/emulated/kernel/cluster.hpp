/* The wrappers of templates/lib/ptx_cluster.cuh. */

static __INLINE unsigned cluster_rank() {
    return emulated::builtin(EMU_CLUSTER_RANK);
}
static __INLINE unsigned cluster_size() {
    return emulated::builtin(EMU_CLUSTER_SIZE);
}
static __INLINE void cluster_barrier_arrive() {
    mlpbwd_api.cluster_arrive(1);
}
static __INLINE void cluster_barrier_arrive_relaxed() {
    mlpbwd_api.cluster_arrive(0);
}
static __INLINE void cluster_barrier_wait() {
    mlpbwd_api.cluster_wait(1);
}
static __INLINE unsigned shared_of_rank(unsigned shared, unsigned rank) {
    return mlpbwd_api.map_shared_rank(shared, rank);
}
static __INLINE unsigned load_shared_cluster(unsigned address) {
    unsigned value;
    mlpbwd_api.load_shared(&value, address, sizeof value);
    return value;
}
static __INLINE void load_shared_cluster_x4(unsigned (&r)[4], unsigned address) {
    mlpbwd_api.load_shared(r, address, sizeof r);
}
static __INLINE void store_shared_cluster(unsigned address, unsigned value) {
    mlpbwd_api.store_shared(&value, address, sizeof value);
}
static __INLINE void store_shared_cluster_x4(unsigned address, const unsigned (&r)[4]) {
    mlpbwd_api.store_shared(r, address, sizeof r);
}
static __INLINE void mbarrier_arrive_cluster(unsigned barrier) {
    mlpbwd_api.mbarrier_arrive(barrier, 1, 0);
}
static __INLINE void mbarrier_arrive_expect_cluster(unsigned barrier, unsigned bytes) {
    mlpbwd_api.mbarrier_arrive(barrier, 1, bytes);
}
static __INLINE void mbarrier_wait_cluster(unsigned barrier, unsigned parity) {
    mlpbwd_api.mbarrier_wait(barrier, parity);
}
static __INLINE void dependency_wait() {
    mlpbwd_api.dependency_wait();
}
static __INLINE void dependency_launch() {
    mlpbwd_api.dependency_launch();
}
static __INLINE unsigned load_acquire(const unsigned *word) {
    return mlpbwd_api.load_ordered(word, EMU_ACQUIRE);
}
static __INLINE void store_release(unsigned *word, unsigned value) {
    mlpbwd_api.store_ordered(word, value, EMU_RELEASE);
}
static __INLINE void add_release(unsigned *word, unsigned value) {
    mlpbwd_api.reduce(word, value, 0, EMU_ADD_U32, EMU_RELEASE);
}
static __INLINE unsigned fetch_add_acquire_release(unsigned *word, unsigned value) {
    return (unsigned)mlpbwd_api.reduce(word, value, 0, EMU_ADD_U32, EMU_ACQUIRE_RELEASE);
}
static __INLINE bool elect_one() {
    return mlpbwd_api.elect(0xffffffffu) != 0;
}
