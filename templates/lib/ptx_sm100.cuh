/* Inline PTX of data-centre Blackwell: tensor memory, tcgen05 products, cluster launch control, copies of block pairs.
 * PTX ISA 9.1 sections beside each. CTAS is cta_group: 1, or 2 for the pair of blocks whose ranks in the cluster differ
 * in bit 0; a kernel may use one value only. mbarriers and bulk copies are those of ptx_sm90.cuh. */
#ifndef MLPBWD_EMULATED
/* 9.7.16.7.1 tcgen05.alloc, dealloc, relinquish_alloc_permit: one whole warp (of each block of a pair). COLUMNS is a
 * power of two, 32 to 512; the address of the columns is written to shared memory. */
template <int CTAS, int COLUMNS> __device__ __forceinline__ void tmem_allocate(u32 shared) {
    if constexpr (CTAS == 1)
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared), "n"(COLUMNS) : "memory");
    else
        asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared), "n"(COLUMNS) : "memory");
}
template <int CTAS, int COLUMNS> __device__ __forceinline__ void tmem_free(u32 address) {
    if constexpr (CTAS == 1)
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "n"(COLUMNS) : "memory");
    else
        asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(address), "n"(COLUMNS) : "memory");
}
template <int CTAS> __device__ __forceinline__ void tmem_relinquish() {
    if constexpr (CTAS == 1)
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
    else
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::: "memory");
}
/* 9.7.16.10.9.1 tcgen05.mma: D (+)= A * B, issued by one thread; d and tensor-memory A are addresses of columns, a and b
 * descriptors of shared memory (umma_descriptor), instruction that of umma_instruction */
#define UMMA(group, kind, a_operand, a_constraint)                                                                             \
    asm volatile("{\n"                                                                                                         \
                 ".reg .pred add;\n"                                                                                           \
                 "setp.ne.b32 add, %4, 0;\n"                                                                                   \
                 "tcgen05.mma.cta_group::" group ".kind::" kind " [%0], " a_operand ", %2, %3, add;\n"                         \
                 "}" ::"r"(d), a_constraint(a), "l"(b), "r"(instruction), "r"(accumulate) : "memory")
template <int CTAS> __device__ __forceinline__ void umma_f16(u32 d, u64 a, u64 b, u32 instruction, int accumulate) {
    if constexpr (CTAS == 1)
        UMMA("1", "f16", "%1", "l");
    else
        UMMA("2", "f16", "%1", "l");
}
template <int CTAS> __device__ __forceinline__ void umma_f16_tmem(u32 d, u32 a, u64 b, u32 instruction, int accumulate) {
    if constexpr (CTAS == 1)
        UMMA("1", "f16", "[%1]", "r");
    else
        UMMA("2", "f16", "[%1]", "r");
}
template <int CTAS> __device__ __forceinline__ void umma_tf32(u32 d, u64 a, u64 b, u32 instruction, int accumulate) {
    if constexpr (CTAS == 1)
        UMMA("1", "tf32", "%1", "l");
    else
        UMMA("2", "tf32", "%1", "l");
}
template <int CTAS> __device__ __forceinline__ void umma_tf32_tmem(u32 d, u32 a, u64 b, u32 instruction, int accumulate) {
    if constexpr (CTAS == 1)
        UMMA("1", "tf32", "[%1]", "r");
    else
        UMMA("2", "tf32", "[%1]", "r");
}
#undef UMMA
/* 9.7.16.12.1 tcgen05.commit: one arrival when all that this thread has issued is done; with a mask, on the barriers at the
 * same place in the blocks of these ranks */
template <int CTAS> __device__ __forceinline__ void umma_commit(u32 barrier) {
    if constexpr (CTAS == 1)
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
    else
        asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
}
template <int CTAS> __device__ __forceinline__ void umma_commit_multicast(u32 barrier, u16 mask) {
    if constexpr (CTAS == 1)
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                     ::"r"(barrier), "h"(mask) : "memory");
    else
        asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                     ::"r"(barrier), "h"(mask) : "memory");
}
/* 9.7.16.11.1 tcgen05.fence: before an arrival that others wait for; after a wait */
__device__ __forceinline__ void tcgen05_fence_before() {
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
__device__ __forceinline__ void tcgen05_fence_after() {
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}
/* 9.7.16.8.5 tcgen05.wait: the registers of earlier loads are filled, the cells of earlier stores written */
__device__ __forceinline__ void tmem_wait_load() {
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void tmem_wait_store() {
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}
/* 9.7.16.8.3, .4 tcgen05.ld and st, a whole warp, lanes 32 * (warp % 4) and up: the number of registers picks the form.
 * 32x32b: register i of lane t is row t, column i. 16x256b (16 rows): the C fragments of mma.m16n8k16, 8 columns each. */
#define TMEM_LIST_4 "%0,%1,%2,%3"
#define TMEM_LIST_8 TMEM_LIST_4 ",%4,%5,%6,%7"
#define TMEM_LIST_16 TMEM_LIST_8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define TMEM_LIST_32 TMEM_LIST_16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define TMEM_LIST_64 TMEM_LIST_32 \
    ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47" \
    ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define TMEM_LIST_128 TMEM_LIST_64 \
    ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79" \
    ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95" \
    ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111" \
    ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define TMEM_OUT_4(r, i) "=r"(r[i]), "=r"(r[i + 1]), "=r"(r[i + 2]), "=r"(r[i + 3])
#define TMEM_OUT_8(r, i) TMEM_OUT_4(r, i), TMEM_OUT_4(r, i + 4)
#define TMEM_OUT_16(r, i) TMEM_OUT_8(r, i), TMEM_OUT_8(r, i + 8)
#define TMEM_OUT_32(r, i) TMEM_OUT_16(r, i), TMEM_OUT_16(r, i + 16)
#define TMEM_OUT_64(r, i) TMEM_OUT_32(r, i), TMEM_OUT_32(r, i + 32)
#define TMEM_OUT_128(r, i) TMEM_OUT_64(r, i), TMEM_OUT_64(r, i + 64)
#define TMEM_IN_4(r, i) "r"(r[i]), "r"(r[i + 1]), "r"(r[i + 2]), "r"(r[i + 3])
#define TMEM_IN_8(r, i) TMEM_IN_4(r, i), TMEM_IN_4(r, i + 4)
#define TMEM_IN_16(r, i) TMEM_IN_8(r, i), TMEM_IN_8(r, i + 8)
#define TMEM_IN_32(r, i) TMEM_IN_16(r, i), TMEM_IN_16(r, i + 16)
#define TMEM_IN_64(r, i) TMEM_IN_32(r, i), TMEM_IN_32(r, i + 32)
#define TMEM_IN_128(r, i) TMEM_IN_64(r, i), TMEM_IN_64(r, i + 64)
#define TMEM_MOVES(shape, times, count)                                                                                        \
    __device__ __forceinline__ void tmem_load_##shape(u32 (&r)[count], u32 address) {                                          \
        asm volatile("tcgen05.ld.sync.aligned." #shape ".x" #times ".b32 {" TMEM_LIST_##count "}, [%" #count "];"              \
                     : TMEM_OUT_##count(r, 0) : "r"(address));                                                                 \
    }                                                                                                                          \
    __device__ __forceinline__ void tmem_store_##shape(u32 address, const u32 (&r)[count]) {                                   \
        asm volatile("tcgen05.st.sync.aligned." #shape ".x" #times ".b32 [%" #count "], {" TMEM_LIST_##count "};"              \
                     ::TMEM_IN_##count(r, 0), "r"(address));                                                                   \
    }
TMEM_MOVES(32x32b, 8, 8)
TMEM_MOVES(32x32b, 16, 16)
TMEM_MOVES(32x32b, 32, 32)
TMEM_MOVES(32x32b, 64, 64)
TMEM_MOVES(32x32b, 128, 128)
TMEM_MOVES(16x256b, 1, 4)
TMEM_MOVES(16x256b, 2, 8)
TMEM_MOVES(16x256b, 4, 16)
TMEM_MOVES(16x256b, 8, 32)
TMEM_MOVES(16x256b, 16, 64)
TMEM_MOVES(16x256b, 32, 128)
#undef TMEM_MOVES
/* 9.7.13.17 clusterlaunchcontrol.try_cancel: asks for the first block of a cluster that has not started, 16 bytes of answer,
 * counted on an mbarrier of this block; multicast: answer and count in every block of the cluster. Not after a refusal. */
__device__ __forceinline__ void cancel_request(u32 shared, u32 barrier) {
    asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::"r"(shared),
                 "r"(barrier) : "memory");
}
__device__ __forceinline__ void cancel_request_multicast(u32 shared, u32 barrier) {
    asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 "
                 "[%0], [%1];" ::"r"(shared), "r"(barrier) : "memory");
}
/* 9.7.13.18 clusterlaunchcontrol.query_cancel of the answer's four words; the block only where it succeeded */
__device__ __forceinline__ int cancel_succeeded(const u32 (&answer)[4]) {
    int yes;
    asm("{\n"
        ".reg .pred canceled;\n"
        ".reg .b64 low, high;\n"
        ".reg .b128 answer;\n"
        "mov.b64 low, {%1, %2};\n"
        "mov.b64 high, {%3, %4};\n"
        "mov.b128 answer, {low, high};\n"
        "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 canceled, answer;\n"
        "selp.b32 %0, 1, 0, canceled;\n"
        "}" : "=r"(yes) : "r"(answer[0]), "r"(answer[1]), "r"(answer[2]), "r"(answer[3]));
    return yes;
}
template <int DIMENSION> __device__ __forceinline__ u32 cancel_first_block(const u32 (&answer)[4]) { /* 0 x, 1 y, 2 z */
    u32 index[3];
    asm("{\n"
        ".reg .b64 low, high;\n"
        ".reg .b128 answer;\n"
        "mov.b64 low, {%3, %4};\n"
        "mov.b64 high, {%5, %6};\n"
        "mov.b128 answer, {low, high};\n"
        "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%0, %1, %2, _}, answer;\n"
        "}" : "=r"(index[0]), "=r"(index[1]), "=r"(index[2]) : "r"(answer[0]), "r"(answer[1]), "r"(answer[2]), "r"(answer[3]));
    return index[DIMENSION];
}
/* 9.7.13.4 fence.proxy.async, restricted: an answer that has been read before the next request overwrites it, on the
 * reader's side before it arrives, and on the requester's after its wait */
__device__ __forceinline__ void cancel_fence_release() {
    asm volatile("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;" ::: "memory");
}
__device__ __forceinline__ void cancel_fence_acquire() {
    asm volatile("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;" ::: "memory");
}
/* 9.7.9.25.5.2 cp.async.bulk.tensor with cta_group::2: into this block's memory, counted on a barrier of either block of
 * the pair */
__device__ __forceinline__ void tma_load_pair_2d(u32 shared, const void *map, int x, int y, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
__device__ __forceinline__ void tma_load_pair_multicast_2d(u32 shared, const void *map, int x, int y, u32 barrier, u16 mask) {
    asm volatile("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared), "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(mask) : "memory");
}
__device__ __forceinline__ void tma_load_pair_3d(u32 shared, const void *map, int x, int y, int z, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.3d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared), "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier) : "memory");
}
__device__ __forceinline__ void tma_load_pair_multicast_3d(u32 shared, const void *map, int x, int y, int z, u32 barrier,
                                                           u16 mask) {
    asm volatile("cp.async.bulk.tensor.3d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared), "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier),
                 "h"(mask) : "memory");
}
#endif
/* 9.7.16.4.1 descriptor of a tile in shared memory, 128-byte swizzle: start address, leading and stride offsets in 16-byte
 * units, bit 46 */
__device__ __forceinline__ u64 umma_descriptor(u32 shared, u32 leading_bytes, u32 stride_bytes) {
    return (u64)((shared & 0x3ffff) >> 4) | (u64)(leading_bytes >> 4) << 16 | (u64)(stride_bytes >> 4) << 32 | (u64)1 << 46 |
           (u64)2 << 61;
}
/* 9.7.16.4.2 instruction descriptor, fp32 sums: type 0 f16, 1 bf16, 2 tf32; m and n are the pair's where there is one */
__device__ constexpr u32 umma_instruction(int type, int m, int n, bool a_mn_major, bool b_mn_major) {
    return 1u << 4 | (u32)type << 7 | (u32)type << 10 | (u32)a_mn_major << 15 | (u32)b_mn_major << 16 | (u32)(n >> 3) << 17 |
           (u32)(m >> 4) << 24;
}
