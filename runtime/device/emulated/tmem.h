/* Tensor memory and who uses it when: private to tmem.c, tmem_order.c, tmem_move.c and tcgen05.c. Sections are those of
 * the PTX ISA 9.1.
 *
 * Every access to tensor memory covers whole granules of 16 lanes x 1 column. A granule knows the access that wrote it
 * last and those that have read it since. Before a new access is let through, each earlier one that it conflicts with
 * must be over for the thread that issues the new one (9.7.16.6): a product is when the thread has waited for a phase
 * that a later tcgen05.commit of the same thread has arrived in, and executed tcgen05.fence::after_thread_sync; a load
 * or store of another warp is when that warp has executed tcgen05.wait and tcgen05.fence::before_thread_sync, and the
 * thread has come to know that and executed tcgen05.fence::after_thread_sync. */
#ifndef EMULATED_TMEM_H
#define EMULATED_TMEM_H

#include "emulator.h"
#include "layout.h"

enum {
    TMEM_LANES = 128,
    TMEM_COLUMNS = 512,
    TMEM_GROUP = 16, /* lanes of a granule */
    TMEM_GROUPS = TMEM_LANES / TMEM_GROUP,
    TMEM_LEAST = 32, /* columns of an allocation */
    TMEM_ALLOCATIONS = TMEM_COLUMNS / TMEM_LEAST,
};

enum tmem_kind { TMEM_PRODUCT, TMEM_PRODUCT_A, TMEM_LOAD, TMEM_STORE };

/* One instruction's access to tensor memory. Counted references: granules and pending moves hold them. */
typedef struct tmem_access {
    uint32_t references;
    enum tmem_kind kind;
    emu_site site;
    uint32_t slot;  /* products: of the thread's queue; loads and stores: of the warp's lane 0 */
    uint32_t clock; /* products: how many the thread had issued, this one included */
    /* loads and stores: the lanes' clocks when they had waited, and when they fenced after that; 0: not yet */
    uint32_t waited[EMU_WARP], fenced[EMU_WARP];
    /* products: what makes them one pipeline */
    uint32_t d, m, n;
} tmem_access;

/* Lanes (a multiple of TMEM_GROUP of them) and columns. */
typedef struct tmem_range {
    uint32_t lane, lanes, column, columns;
} tmem_range;

typedef struct tmem_reader {
    struct tmem_reader *next;
    tmem_access *access;
} tmem_reader;

typedef struct tmem_granule {
    tmem_access *write; /* NULL: never written since the columns were allocated */
    tmem_reader *readers;
} tmem_granule;

typedef struct tmem_allocation {
    uint32_t first, columns; /* columns 0: a free entry */
    emu_site site;
} tmem_allocation;

/* A warp's request for columns, or to free some, until it is granted. */
typedef struct tmem_request {
    bool active, free_them, pair; /* active: not granted yet */
    emu_thread *lane0;
    uintptr_t origin;
    uint32_t columns, address; /* address: free_them only */
    uint32_t shared;           /* offset where the address goes */
} tmem_request;

struct emu_tmem {
    uint32_t cells[TMEM_LANES][TMEM_COLUMNS];
    tmem_granule granules[TMEM_GROUPS][TMEM_COLUMNS];
    tmem_allocation allocations[TMEM_ALLOCATIONS];
    emu_site freed[TMEM_COLUMNS];                      /* who freed the column last; origin 0: nobody */
    uint32_t last_columns;                             /* of the last allocation; 0: none yet */
    emu_site relinquished;                             /* origin 0: not yet */
    tmem_request requests[EMU_MAX_THREADS / EMU_WARP]; /* by warp */
    uint32_t queues;                                   /* threads that have issued products */
};

/* A load or store of one lane that tcgen05.wait has not completed. */
typedef struct tmem_move {
    struct tmem_move *next;
    tmem_access *access;
    emu_registers owned; /* loads: on the thread's list */
    uint32_t *registers; /* loads */
    uint32_t count, address, split;
    enum emu_shape shape;
    bool packed;
    uint32_t data[]; /* stores: count of them */
} tmem_move;

/* What one thread has to do with tcgen05: emu_thread.tcgen05. */
typedef struct tmem_thread {
    emu_view after;   /* what it knew at its last fence::after_thread_sync */
    tmem_move *moves; /* pending, oldest first */
    tmem_move **moves_end;
    tmem_reader *unfenced; /* waited for, no fence::before_thread_sync since */
    uint32_t slot;         /* of its queue of products; 0: none yet */
    uint32_t products;     /* issued */
} tmem_thread;

/* ---- tmem.c ---- */

/* The block's tensor memory, made on first use. */
struct emu_tmem *tmem_of(emu_block *block);
/* The thread's part, made on first use. */
tmem_thread *tmem_thread_of(emu_thread *thread);
/* All tcgen05 instructions of a kernel name the same cta_group (9.7.16.7.1); pairs need a cluster of an even size. */
void tmem_check_group(emu_thread *thread, bool pair, uintptr_t origin);
/* The other block of the pair. Fault: it has exited. what: the instruction. */
emu_block *tmem_peer(emu_thread *thread, const char *what, uintptr_t origin);
/* calloc that ends the launch instead of failing. */
void *tmem_calloc(size_t count, size_t bytes);

/* ---- tmem_order.c ---- */

/* The address's lane and column, with the extent given. */
tmem_range tmem_range_at(uint32_t address, uint32_t lanes, uint32_t columns);
/* One reference, the caller's. */
tmem_access *tmem_access_new(emu_thread *thread, enum tmem_kind kind, uintptr_t origin);
void tmem_access_drop(tmem_access *access); /* NULL is harmless */
/* Faults unless all columns are allocated; what: the instruction. */
void tmem_check_allocated(emu_thread *thread, emu_block *block, tmem_range range, const char *what, uintptr_t origin);
/* The thread issues an access that reads, or writes (and so replaces what was there): faults when it is not ordered
 * behind what it conflicts with, or reads what was never written; else it is recorded. Loads and stores are checked for
 * every lane of the warp. */
void tmem_check_read(emu_thread *thread, emu_block *block, tmem_range range, tmem_access *access, uintptr_t origin);
void tmem_check_write(emu_thread *thread, emu_block *block, tmem_range range, tmem_access *access, bool accumulates,
                      uintptr_t origin);
/* The columns are given back: faults unless all that was done with them is over. Forgets it. */
void tmem_check_free(emu_thread *thread, emu_block *block, tmem_range range, uintptr_t origin);
void tmem_forget(emu_block *block, tmem_range range);

/* ---- tmem_move.c ---- */

/* fence::before_thread_sync for this thread's loads and stores that are over. */
void tmem_fence_before(emu_thread *thread);
/* Frees what is pending; it has no effect any more. */
void tmem_drop_moves(emu_thread *thread, tmem_thread *state);

#endif
