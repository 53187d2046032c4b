/* What an emulated kernel (C++, compiled from the emitted CUDA text) calls in the emulator (C). Read by both sides, and
 * by nothing else: the kernel's copy is embedded text, so this file includes nothing.
 *
 * X(result, name, parameters): one function pointer of struct emu_api. A function takes the place in the source for its
 * reports from its own return address, so the kernel's side must call through the table from inlined code; only the
 * access hook, which is a function of its own in the kernel, passes it (origin). Shared-memory addresses are what
 * cvta.to.shared gives (32 bits; in a cluster bits 24 and up are the rank of the block whose memory it is, as mapa
 * makes them). Sizes in bytes. */
#ifndef EMU_API_H
#define EMU_API_H

typedef unsigned int emu_u32;
typedef unsigned long long emu_u64;
typedef long long emu_i64;

enum emu_builtin {
    EMU_THREAD_INDEX = 0,
    EMU_BLOCK_INDEX = 3,
    EMU_BLOCK_SIZE = 6,
    EMU_GRID_SIZE = 9,
    EMU_CLUSTER_RANK = 12,
    EMU_CLUSTER_SIZE = 13,
    EMU_SM = 14
}; /* + 0, 1, 2 for x, y, z */
enum emu_shuffle { EMU_SHUFFLE_XOR, EMU_SHUFFLE_INDEX, EMU_SHUFFLE_UP, EMU_SHUFFLE_DOWN };
enum emu_type { EMU_F16, EMU_BF16, EMU_TF32 };
enum emu_reduction {
    EMU_ADD_F32,
    EMU_ADD_U32,
    EMU_MIN_U32,
    EMU_MAX_U32,
    EMU_AND_U32,
    EMU_OR_U32,
    EMU_EXCHANGE_U32,
    EMU_COMPARE_AND_SWAP_U32,
    EMU_ADD_U64,
    EMU_MAX_F32
};
enum emu_order { EMU_RELAXED, EMU_ACQUIRE, EMU_RELEASE, EMU_ACQUIRE_RELEASE };
enum emu_fence {
    EMU_FENCE_BLOCK,
    EMU_FENCE_CLUSTER,
    EMU_FENCE_DEVICE,
    EMU_FENCE_SYSTEM,
    EMU_FENCE_MBARRIER_INIT,
    EMU_FENCE_PROXY_ASYNC /* all spaces */,
    EMU_FENCE_PROXY_ASYNC_SHARED,
    EMU_FENCE_PROXY_ASYNC_GLOBAL,
    EMU_FENCE_PROXY_TENSORMAP
};
enum emu_shape { EMU_32X32B, EMU_16X64B, EMU_16X128B, EMU_16X256B, EMU_16X32BX2 };

#define EMU_API_LIST(X)                                                                                                \
    /* every load (write 0) and store (write 1) of the kernel's own code; hooks of the compiler's thread sanitizer */  \
    X(void, access, (void *address, emu_u32 bytes, int write, const void *origin))                                     \
    /* the address of a load or store is not a multiple of what its type needs */                                      \
    X(void, misaligned, (const void *address, emu_u32 alignment, const void *origin))                                  \
    X(emu_u32, builtin, (int which))                                                                                   \
    X(emu_u64, clock, (void))                                                                                          \
    X(void, trap, (void))                                                                                              \
    /* block, warp */                                                                                                  \
    X(void, warp_sync, (emu_u32 mask))                                                                                 \
    X(emu_u32, shuffle, (emu_u32 mask, emu_u32 value, int operand, int kind, int width))                               \
    X(emu_u32, ballot, (emu_u32 mask, int predicate))                                                                  \
    X(emu_u32, elect, (emu_u32 mask))                                                                                  \
    X(emu_u32, active_mask, (void))                                                                                    \
    /* bar.sync / bar.arrive; threads 0: all of the block */                                                           \
    X(void, barrier_sync, (emu_u32 id, emu_u32 threads))                                                               \
    X(void, barrier_arrive, (emu_u32 id, emu_u32 threads))                                                             \
    X(void, registers, (int increase, emu_u32 count))                                                                  \
    X(void, fence, (int kind))                                                                                         \
    X(emu_u32, shared_address, (const void *pointer))                                                                  \
    /* global memory words between blocks (scope device); generic pointers to shared memory are allowed for atomics */ \
    X(emu_u32, load_ordered, (const void *address, int order))                                                         \
    X(void, store_ordered, (void *address, emu_u32 value, int order))                                                  \
    X(emu_u64, reduce, (void *address, emu_u64 value, emu_u64 compare, int reduction, int order))                      \
    X(void, nanosleep, (emu_u32 nanoseconds))                                                                          \
    /* sm_80 */                                                                                                        \
    X(void, cp_async, (emu_u32 shared, const void *global, emu_u32 bytes, emu_u32 copied))                             \
    X(void, cp_async_commit, (void))                                                                                   \
    X(void, cp_async_wait, (emu_u32 pending))                                                                          \
    X(void, cp_async_arrive, (emu_u32 barrier))                                                                        \
    X(void, ldmatrix, (emu_u32 * registers, emu_u32 shared, int matrices, int transpose))                              \
    X(void, stmatrix, (const emu_u32 *registers, emu_u32 shared, int matrices, int transpose))                         \
    X(void, mma_m16n8k16, (float *d, const emu_u32 *a, emu_u32 b0, emu_u32 b1, int type))                              \
    X(void, load_shared, (emu_u32 * registers, emu_u32 shared, emu_u32 bytes))                                         \
    X(void, store_shared, (const emu_u32 *registers, emu_u32 shared, emu_u32 bytes))                                   \
    /* mbarrier; barrier may be another block's of the cluster where PTX allows it */                                  \
    X(void, mbarrier_init, (emu_u32 barrier, emu_u32 count))                                                           \
    X(void, mbarrier_invalidate, (emu_u32 barrier))                                                                    \
    X(void, mbarrier_arrive, (emu_u32 barrier, emu_u32 count, emu_u32 expected_bytes))                                 \
    X(void, mbarrier_expect, (emu_u32 barrier, emu_u32 bytes))                                                         \
    X(int, mbarrier_test, (emu_u32 barrier, emu_u32 parity))                                                           \
    X(void, mbarrier_wait, (emu_u32 barrier, emu_u32 parity))                                                          \
    /* bulk copies; mask 0: this block only, else multicast to these ranks of the cluster */                           \
    X(void, bulk_load, (emu_u32 shared, const void *global, emu_u32 bytes, emu_u32 barrier, emu_u32 mask))             \
    X(void, bulk_store, (void *global, emu_u32 shared, emu_u32 bytes))                                                 \
    X(void, bulk_reduce, (void *global, emu_u32 shared, emu_u32 bytes, int reduction))                                 \
    X(void, bulk_copy_cluster, (emu_u32 to, emu_u32 from, emu_u32 bytes, emu_u32 barrier))                             \
    X(void, bulk_commit, (void))                                                                                       \
    X(void, bulk_wait, (emu_u32 pending, int reads_only))                                                              \
    X(void, bulk_prefetch, (const void *global, emu_u32 bytes))                                                        \
    /* tensor copies; pair: .cta_group::2 (the barrier may be the even block's) */                                     \
    X(void, tensor_load,                                                                                               \
      (emu_u32 shared, const void *map, int rank, const int *origin, emu_u32 barrier, emu_u32 mask, int pair))         \
    X(void, tensor_store, (const void *map, int rank, const int *origin, emu_u32 shared))                              \
    X(void, tensor_reduce, (const void *map, int rank, const int *origin, emu_u32 shared, int reduction))              \
    X(void, tensor_prefetch, (const void *map))                                                                        \
    /* clusters, dependent launches */                                                                                 \
    X(void, cluster_arrive, (int release))                                                                             \
    X(void, cluster_wait, (int acquire))                                                                               \
    X(emu_u32, map_shared_rank, (emu_u32 shared, emu_u32 rank))                                                        \
    X(void, dependency_wait, (void))                                                                                   \
    X(void, dependency_launch, (void))                                                                                 \
    /* wgmma; a NULL: descriptor_a is used */                                                                          \
    X(void, wgmma_fence, (void))                                                                                       \
    X(void, wgmma_commit, (void))                                                                                      \
    X(void, wgmma_wait, (emu_u32 pending))                                                                             \
    X(void, wgmma,                                                                                                     \
      (float *d, int n, const emu_u32 *a, emu_u64 descriptor_a, emu_u64 descriptor_b, int accumulate, int type,        \
       int transpose_a, int transpose_b))                                                                              \
    /* tcgen05; pair: cta_group::2 */                                                                                  \
    X(void, tmem_allocate, (emu_u32 shared, emu_u32 columns, int pair))                                                \
    X(void, tmem_free, (emu_u32 address, emu_u32 columns, int pair))                                                   \
    X(void, tmem_relinquish, (int pair))                                                                               \
    X(void, umma,                                                                                                      \
      (emu_u32 d, emu_u64 descriptor_a, emu_u32 tmem_a, int a_in_tmem, emu_u64 descriptor_b, emu_u32 instruction,      \
       int accumulate, int tf32, int pair))                                                                            \
    X(void, umma_commit, (emu_u32 barrier, emu_u32 mask, int pair))                                                    \
    X(void, tmem_load, (emu_u32 * registers, emu_u32 count, emu_u32 address, int shape, int pack, int offset))         \
    X(void, tmem_store, (const emu_u32 *registers, emu_u32 count, emu_u32 address, int shape, int unpack, int offset)) \
    X(void, tmem_wait, (int stores))                                                                                   \
    X(void, tcgen05_fence, (int after))                                                                                \
    /* cluster launch control */                                                                                       \
    X(void, cancel_request, (emu_u32 shared, emu_u32 barrier, int multicast))                                          \
    X(int, cancel_succeeded, (const emu_u32 *response))                                                                \
    X(emu_u32, cancel_first_block, (const emu_u32 *response, int dimension))

/* A declarator cannot be put in parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define EMU_API_MEMBER(result, name, parameters) result(*name) parameters;
struct emu_api {
    EMU_API_LIST(EMU_API_MEMBER)
};
#endif
