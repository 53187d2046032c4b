/* Core of the emulated device: CUDA threads as fibers, what each of them knows of the others' work, asynchronous
 * operations that take effect as late as the rules allow, and reports of faults.
 *
 * One launch runs at a time in a process (emu_launch_run holds a lock). Every resident block has an OS thread of its
 * own, because the kernel's __shared__ variables are thread_local; only one of these threads, or the launching one,
 * runs at any time, so nothing here needs atomics. A fiber runs until it has to wait.
 *
 * Knowledge (vector clocks, as in FastTrack: Flanagan and Freund, PLDI 2009). A slot is one CUDA thread or one mbarrier
 * of the cluster. A thread's clock grows whenever it releases something; an mbarrier's is the number of its completed
 * phases. A memory access has the epoch (slot, clock); it happened before what a thread does now if the thread's view
 * knows that epoch. A view also holds what has been fenced for the asynchronous proxy: the epochs that were known at
 * some fence.proxy.async on the way (PTX ISA 8.9, proxy-preserved base causality order).
 *
 * Memory of a fault: the first one ends the launch. */
#ifndef EMULATOR_H
#define EMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api.h"

enum {
    EMU_WARP = 32,
    EMU_MAX_THREADS = 1024,
    EMU_MAX_CLUSTER = 16,
    EMU_NAMED_BARRIERS = 16,
    EMU_MBARRIERS = 128,       /* a block may use so many at once */
    EMU_PRODUCT_QUEUES = 8,    /* threads of a block that issue tcgen05.mma: each queue has a slot (tcgen05.c) */
    EMU_CHUNK = 16,            /* bytes; grain of asynchronous effects on shared memory */
    EMU_SHARED_START = 1024,   /* shared-memory address of offset 0: real ones do not start at 0 either */
    EMU_RANK_SHIFT = 24,       /* rank in a cluster, in shared::cluster addresses */
    EMU_STACK_BYTES = 1 << 17, /* of a fiber */
};

typedef struct emu_launch emu_launch;
typedef struct emu_cluster emu_cluster;
typedef struct emu_block emu_block;
typedef struct emu_thread emu_thread;

/* The origin of an API call: the address in the kernel's code, for reports. Only in functions of struct emu_api. */
#define EMU_ORIGIN ((uintptr_t)__builtin_return_address(0))

/* Where something happened: for reports that come later, when the thread may be gone. */
typedef struct emu_site {
    uintptr_t origin; /* 0: none */
    uint32_t block[3], thread[3];
} emu_site;

/* ---- knowledge (clock.c) ---- */

/* Immutable while references > 1. at[slot]: epochs of that slot up to this one are known. */
typedef struct emu_clocks {
    uint32_t references, count;
    uint32_t at[];
} emu_clocks;

/* What other clusters' threads have released and this one has acquired (through flags in global memory). Immutable. */
typedef struct emu_foreign {
    uint32_t references, count;
    struct emu_foreign_entry {
        uint32_t cluster; /* emu_cluster.generation */
        emu_clocks *known, *fenced;
    } at[];
} emu_foreign;

typedef struct emu_view {
    emu_clocks *known, *fenced; /* never NULL in a thread; NULL = nothing known, in a barrier */
    emu_foreign *foreign;       /* NULL: none */
} emu_view;

/* ---- waiting ---- */

enum emu_state { EMU_RUNNABLE, EMU_WAITING, EMU_EXITED };

/* A register range of a fiber (its stack memory) that an asynchronous operation writes or reads: wgmma accumulators and
 * fragments, tcgen05.ld destinations. Any access of the kernel's own code in it is a fault until it is removed. */
typedef struct emu_registers {
    struct emu_registers *next;
    uintptr_t first, end;
    bool reads_allowed; /* the operation only reads them (A fragments): the kernel may read, not write */
    const char *what;   /* "accumulators of wgmma", static */
    emu_site site;
} emu_registers;

struct emu_thread {
    emu_block *block;
    uint32_t number, lane, warp; /* number = x + y * size.x + z * size.x * size.y */
    uint32_t index[3];
    enum emu_state state;
    emu_view view;
    uint32_t clock; /* of its own slot; starts at 1 */
    emu_registers *registers;

    /* why it waits, for the deadlock report: set by emu_wait and emu_sleep */
    uintptr_t wait_origin;
    bool (*ready)(emu_thread *thread, void *object); /* NULL: somebody calls emu_wake */
    void *wait_object;
    void (*describe)(const emu_thread *thread, void *object, char *text, size_t capacity);

    void *request;        /* of the warp collective it is in (warp.c) */
    void *sm80;           /* cp.async groups (sm80.c); freed by the hook */
    void *bulk;           /* bulk groups (bulk.c) */
    void *tcgen05;        /* what it has in flight (tcgen05.c) */
    void *order;          /* what its fences and relaxed loads have gathered (flags.c) */
    bool dependency_wait; /* griddepcontrol.wait has been executed */

    unsigned char *stack;    /* EMU_STACK_BYTES */
    struct emu_fiber *fiber; /* (fiber.c) */
};

/* A slot of OS thread, TLS and stacks that blocks run in, one after another. Private to launch.c. */
typedef struct emu_worker emu_worker;

struct emu_block {
    emu_launch *launch;
    emu_cluster *cluster;
    emu_worker *worker;
    uint32_t number; /* in the grid, linear */
    uint32_t index[3];
    uint32_t rank; /* in the cluster */
    uint32_t live; /* threads that have not exited */
    emu_thread *threads;
    unsigned char *shared; /* all shared memory of the block; offset 0 is shared-memory address EMU_SHARED_START */
    uint32_t shared_bytes; /* static and the whole dynamic window */
    uint32_t dynamic_start,
        dynamic_bytes;               /* offsets: what the launch asked for; the rest of the window is out of bounds */
    struct emu_shadow *shadow;       /* of its shared memory (shared.c) */
    struct emu_barriers *barriers;   /* named barriers (warp.c) */
    struct emu_mbarriers *mbarriers; /* (mbarrier.c) */
    struct emu_wgmma *wgmma;         /* warpgroups (wgmma.c) */
    struct emu_tmem *tmem;           /* tensor memory (tmem.c); NULL before the first use */
    emu_site cancel_refused;         /* where a failed try_cancel was seen (clc.c); origin 0: nowhere */
};

struct emu_cluster {
    emu_launch *launch;
    uint32_t number, size;   /* size in blocks */
    uint32_t slots_of_block; /* threads + EMU_MBARRIERS + EMU_PRODUCT_QUEUES */
    emu_block *blocks;       /* size of them, by rank */
    bool running;            /* resident; else a free place */
    void *barrier;           /* barrier.cluster (cluster.c) */
    uint32_t generation;     /* grows with every cluster of the process: tells re-used memory apart */
};

/* ---- launching (launch.c) ---- */

/* When asynchronous operations take effect: late = only when every thread waits; early = at once; mixed = drawn. */
enum emu_timing { EMU_LATE, EMU_EARLY, EMU_MIXED };

typedef struct emu_options {
    uint64_t seed; /* 0: threads run in order; else the order of threads, blocks and operations is drawn from it */
    enum emu_timing timing;
    uint32_t units; /* SMs: how many blocks (clusters: blocks / size) may be resident at once */
} emu_options;

/* What a kernel's machine code gives (module.c fills it, from the symbols of the compiled kernel). */
typedef struct emu_code {
    void (*entry)(void **arguments);
    void (*shared_range)(unsigned char **first, size_t *bytes, unsigned char **dynamic,
                         size_t *dynamic_bytes); /* of the
calling OS thread: all thread_local memory of the module, and its dynamic window */
    const char *path;                            /* the shared object, for addr2line */
    uintptr_t first, end;                        /* its mapped range: static data in it may be read */
} emu_code;

typedef struct emu_dims {
    uint32_t grid[3], block[3], cluster[3]; /* cluster: in blocks; {1,1,1} without */
    uint32_t shared_bytes;                  /* dynamic */
    bool programmatic;                      /* launched with programmatic stream serialization (PDL) */
} emu_dims;

struct emu_launch {
    const emu_code *code;
    emu_dims dims;
    emu_options options;
    void **arguments;
    uint32_t number; /* of the launch in the process, from 1 */
    uint32_t threads, blocks, clusters;
    uint32_t next_cluster; /* the first one that has not been made resident */
    char fault[2048];      /* "" while all is well */
    struct emu_async *async, **async_end;
    uint64_t random;
    uint64_t activity; /* grows whenever something happens that others may have waited for */
    uint64_t ticks;    /* what clock64 last said */
    bool abandoned;    /* after a fault: nothing runs any more */
    emu_cluster *resident;
    uint32_t places; /* of resident[]: clusters that fit at once */
    struct emu_async *running;
    struct emu_async *making; /* made, not posted yet: a fault in between leaves it to nobody */
    uint64_t multiplies;      /* multiply-adds of matrix operations, for figures of speed */
};

/* Runs a grid to its end. Returns false with fault filled (also for a deadlock). The caller has checked the sizes
 * against the architecture's limits. */
bool emu_launch_run(const emu_code *code, const emu_dims *dims, const emu_options *options, void **arguments,
                    char *fault, size_t capacity);

/* What this process has emulated, so that authors of tests can size them. */
typedef struct emu_totals {
    uint64_t launches, multiplies; /* multiply-adds of matrix operations */
    double seconds;                /* in launches */
} emu_totals;
emu_totals emu_totals_so_far(void);

/* What fresh memory holds, as 32-bit words: NaN as fp32, fp16 and bf16. */
#define EMU_POISON 0x7fa57fa5u

extern const struct emu_api emu_api_table; /* table.c; what a kernel is bound to */

/* The thread that is running; NULL in asynchronous operations and outside launches. */
emu_thread *emu_self(void);

/* 0 <= result < below; 0 always without a seed. */
uint32_t emu_draw(emu_launch *launch, uint32_t below);

/* Waits until ready(thread, object): asked at once, and again whenever anything else has run. describe writes what is
 * waited for ("mbarrier at 0x4c0, phase 3: 1 of 4 arrivals missing"), for the deadlock report. */
void emu_wait(emu_thread *thread, bool (*ready)(emu_thread *thread, void *object), void *object,
              void (*describe)(const emu_thread *thread, void *object, char *text, size_t capacity), uintptr_t origin);
/* Waits for emu_wake(thread). */
void emu_sleep(emu_thread *thread, void *object,
               void (*describe)(const emu_thread *thread, void *object, char *text, size_t capacity), uintptr_t origin);
void emu_wake(emu_thread *thread);
/* Lets others run first (polling loops: ordered loads, mbarrier_test, nanosleep). A launch in which every thread only
 * yields, and nothing changes, is a deadlock; origin and what are named then. */
void emu_yield(emu_thread *thread, const char *what, uintptr_t origin);
/* Something happened that a polling thread may see (an ordered store, a barrier's phase). */
void emu_progress(emu_launch *launch);

/* ---- asynchronous operations (launch.c) ---- */

/* An operation that the hardware does beside the threads. Embedded as the first member of its payload. run does it,
 * after which the operation is freed with free(). Operations of one queue (a non-NULL key) run in the order of their
 * posting. */
typedef struct emu_async {
    struct emu_async *next;
    emu_block *block; /* whose thread issued it */
    const void *queue;
    const char *what; /* "bulk copy", static */
    emu_site site;    /* of its issue */
    emu_view view;    /* the issuer's; owned */
    void (*run)(struct emu_async *operation);
    void (*dispose)(
        struct emu_async *operation); /* frees what it owns beside view; also called when it never ran; may be NULL */
} emu_async;

/* calloc of `bytes` with the first members filled from the thread and its view copied. Out of memory ends the process'
 * launch as a fault. */
void *emu_async_new(emu_thread *thread, size_t bytes, const char *what, uintptr_t origin);
void emu_async_post(emu_async *operation);
/* Runs the pending operations of the key now. */
void emu_async_flush(emu_launch *launch, const void *queue);

/* ---- faults (fault.c) ---- */

emu_site emu_site_of(const emu_thread *thread, uintptr_t origin);
/* "wgmma_gemm.cu:212 (in wait_for_turn, from wgmma_gemm.cu:300), block (1,0,0), thread (128,0,0)" */
void emu_site_text(const emu_launch *launch, const emu_site *site, char *text, size_t capacity);
/* Ends the launch. The report is the message, then where: "...; at SITE". %-arguments as printf. thread: who did it. */
_Noreturn void emu_fault(emu_thread *thread, uintptr_t origin, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for an asynchronous operation, or when the place is that of an earlier call. */
_Noreturn void emu_fault_at(emu_launch *launch, const emu_site *site, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A second place, as text for a message: a static buffer, one of four in turn. */
const char *emu_place(const emu_launch *launch, const emu_site *site);

/* ---- knowledge (clock.c) ---- */

uint32_t emu_slot(const emu_thread *thread);                         /* its slot in its cluster */
uint32_t emu_mbarrier_slot(const emu_block *block, uint32_t number); /* number < EMU_MBARRIERS */
void emu_view_init(emu_view *view, uint32_t slots);                  /* nothing known */
void emu_view_copy(emu_view *to, const emu_view *from);              /* to: uninitialised */
void emu_view_clear(emu_view *view);                                 /* frees; may be {0} */
void emu_view_join(emu_view *into, const emu_view *from);            /* into: may be {0} */
void emu_view_learn(emu_view *into, uint32_t slot, uint32_t clock,
                    bool fenced); /* one epoch more; fenced: as fenced, too */
/* A thread's own view need not hold its own epochs: whoever compares with the accessing thread's own slot does not ask.
 * The views of operations (emu_view_of) do hold their issuer's. */
bool emu_view_knows(const emu_view *view, uint32_t slot, uint32_t clock);
bool emu_view_knows_fenced(const emu_view *view, uint32_t slot, uint32_t clock);
/* The thread's own view with its own epoch in it, into `into` (joined), as a release does; then its clock grows. */
void emu_release(emu_thread *thread, emu_view *into);
void emu_acquire(emu_thread *thread, const emu_view *from);
/* The view as an asynchronous operation of the thread has it: with the thread's own epoch. to: uninitialised. The clock
 * grows, so that what the thread does afterwards is not known to the operation. */
void emu_view_of(emu_thread *thread, emu_view *to);
/* All that is known becomes fenced (fence.proxy.async). */
void emu_proxy_fence(emu_thread *thread);
/* Across clusters, through a word of global memory: the release is kept with its cluster's number. */
void emu_release_far(emu_thread *thread, emu_foreign **into);
void emu_acquire_far(emu_thread *thread, const emu_foreign *from);
void emu_foreign_clear(emu_foreign **foreign);
/* What the thread's last fence released, into a view that emu_view_init has made (flags.c): for arrivals that release
 * nothing themselves. */
void emu_order_release(emu_thread *thread, emu_view *into);
/* Does the view know the epoch of a slot of another cluster (its generation)? */
bool emu_view_knows_far(const emu_view *view, uint32_t cluster, uint32_t slot, uint32_t clock, bool fenced);

/* ---- warps and barriers of a block (warp.c) ---- */

/* All lanes of mask meet here; the last to come calls operation for all of them, with requests[lane] (NULL outside the
 * mask). Then all go on. Faults: a lane of the mask has exited, or meets with another name. ordered: memory too is
 * ordered among them (bar.warp.sync); else not (shuffles, the .aligned instructions). */
void emu_warp_meet(emu_thread *thread, uint32_t mask, const char *name, bool ordered, void *request,
                   void (*operation)(emu_thread *lane0_of_warp, void *const requests[EMU_WARP]), uintptr_t origin);
/* The first thread of the warp of `thread`. */
emu_thread *emu_warp_first(emu_thread *thread);

/* ---- memory (memory.c: global; shared.c: shared) ---- */

/* An asynchronous effect on memory: begun when the operation is issued, retired when somebody may know that it is over:
 * then (slot, clock) is the epoch to know. Counted references: cells of shadows hold them. */
typedef struct emu_effect {
    uint32_t references;
    bool writes, retired;
    bool generic_proxy;  /* set by emu_shared_effect and emu_global_effect */
    bool poison_allowed; /* a read of never-written memory gives poison (NaN) and is no fault: set it for operands of
                            matrix instructions, whose rows beyond a tensor's edge may be anything */
    uint32_t cluster, slot, clock; /* cluster: emu_cluster.generation */
    const char *what;              /* "bulk copy", static */
    emu_site site;
} emu_effect;
emu_effect *emu_effect_new(emu_thread *thread, bool writes, const char *what,
                           uintptr_t origin); /* one reference, the caller's */
void emu_effect_drop(emu_effect *effect);
void emu_effect_retire(emu_effect *effect, const emu_block *block, uint32_t slot, uint32_t clock);

/* A generic access of a thread to shared memory (own block, or another block of the cluster): checks bounds,
 * uninitialised reads, races with other threads and with asynchronous effects; records it. */
void emu_shared_access(emu_thread *thread, emu_block *block, uint32_t offset, uint32_t bytes, bool write,
                       uintptr_t origin);
/* An asynchronous read or write of shared memory is issued: checks bounds, initialisation (reads), that what happened
 * there before is known to `view` (the issuer's) and fenced for the asynchronous proxy; marks the chunks with the
 * effect. The data of a write is poison until the operation runs. Offsets and sizes that are not multiples of EMU_CHUNK
 * mark whole chunks. sync_proxy: true for cp.async and ldmatrix-like operations of the generic proxy (no fence needed).
 */
void emu_shared_effect(const emu_view *view, emu_effect *effect, emu_block *block, uint32_t offset, uint32_t bytes,
                       bool generic_proxy);
/* The bytes written by an operation count as initialised now. */
void emu_shared_written(emu_block *block, uint32_t offset, uint32_t bytes);
/* Memory of an opaque object (an mbarrier): any generic or asynchronous access to it is a fault while set. */
void emu_shared_opaque(emu_block *block, uint32_t offset, uint32_t bytes, bool set, const char *what);
/* Resolves a shared::cta or shared::cluster address. Faults when it is outside, or the block has exited. */
emu_block *emu_shared_resolve(emu_thread *thread, uint32_t address, uint32_t bytes, uint32_t *offset, uintptr_t origin);

/* Generic access to global memory: bounds (the nearest allocation is named), reads of never-written memory, races with
 * other threads and blocks of this launch, asynchronous effects in flight. */
void emu_global_access(emu_thread *thread, uintptr_t address, size_t bytes, bool write, uintptr_t origin);
/* Asynchronous read or write of global memory, as emu_shared_effect. The effect stays on a list of the allocation. */
void emu_global_effect(const emu_view *view, emu_thread *issuer, emu_effect *effect, uintptr_t address, size_t bytes,
                       bool generic_proxy);
/* The same without checks of order, for operations that hardware makes atomic per element (red, reductions). */
void emu_global_atomic(emu_thread *thread, uintptr_t address, size_t bytes, uintptr_t origin);
/* Memory of the device. Uninitialised (poisoned) when fresh. */
void *emu_global_allocate(size_t bytes);
bool emu_global_free(void *memory);                         /* false: no such allocation */
bool emu_global_contains(const void *memory, size_t bytes); /* wholly in one allocation? for copies by the host */
void emu_global_host_wrote(void *memory, size_t bytes);     /* copy_in, fill: initialised now; settles, too */
/* The host has waited for all launches (copies, synchronise): the next one overlaps none of them, even if it is
 * programmatic. */
void emu_global_settle(void);

/* ---- hooks (each in its own file; called by launch.c) ---- */

/* A block begins (shared memory is poisoned by then) and has ended; thread exits. The ends check for what must not be
 * left: copies in flight, tensor memory not freed, barriers with pending bytes. *_dispose frees after a fault, too. */
#define EMU_BLOCK_PARTS(X) X(shared) X(warp) X(mbarrier) X(bulk) X(sm80) X(wgmma) X(cluster) X(tmem)
#define EMU_DECLARE_PART(name)                                                                                         \
    void emu_##name##_begin(emu_block *block);                                                                         \
    void emu_##name##_exit(emu_thread *thread, uintptr_t origin);                                                      \
    void emu_##name##_end(emu_block *block);                                                                           \
    void emu_##name##_dispose(emu_block *block);
EMU_BLOCK_PARTS(EMU_DECLARE_PART)
/* A launch begins and ends (memory.c: shadows of global memory are of one launch). */
void emu_memory_begin(emu_launch *launch);
void emu_memory_end(emu_launch *launch);

/* ---- functions of the table, by file; see api.h ---- */
#define EMU_DECLARE_API(result, name, parameters) result emu_api_##name parameters;
EMU_API_LIST(EMU_DECLARE_API)

#endif
