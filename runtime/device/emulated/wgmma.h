/* wgmma's operations of one warp. Private to wgmma.c and wgmma_registers.c. */
#ifndef EMULATED_WGMMA_H
#define EMULATED_WGMMA_H

#include "warpgroup.h"

enum { EMU_FRAGMENTS = 16 /* remembered */ };

/* The accumulators of a chain of products. */
typedef struct accumulators {
    struct accumulators *next;
    uint32_t n;
    uint32_t products; /* in flight */
    uint32_t fence;    /* of the warp, when the last product was issued */
    emu_site site;     /* of that one */
    float *d[EMU_WARP];
    emu_registers locks[EMU_WARP];
    float *values; /* [16][n]; without products in flight: the registers' at the last fence */
} accumulators;

typedef struct product {
    struct product *next;
    accumulators *set;
    emu_product what;
    uint32_t fragments[EMU_WARP][4];
} product;

/* A's registers, until the group is over. */
typedef struct fragment_locks {
    struct fragment_locks *next;
    emu_registers locks[EMU_WARP];
} fragment_locks;

typedef struct product_effect {
    struct product_effect *next;
    emu_effect *effect;
} product_effect;

typedef struct product_group {
    struct product_group *next;
    product *first, **end;
    product_effect *effects; /* one for each line that issues products */
    fragment_locks *locks;
    bool done; /* computed early; what it holds is still held */
    emu_site site;
} product_group;

/* Registers that were A of an earlier product: they must not change between a fence and the next. */
typedef struct fragment_use {
    const uint32_t *registers[EMU_WARP];
    uint32_t values[EMU_WARP][4]; /* at the last fence */
} fragment_use;

struct emu_warp_matrix {
    emu_thread *first;
    uint32_t fences;
    uint32_t fences_at_wait; /* when a wait last gave accumulators back */
    product_group *open, *committed, **end;
    uint32_t groups; /* committed */
    accumulators *sets;
    emu_view view; /* of the product that is being issued */
    fragment_use uses[EMU_FRAGMENTS];
    uint32_t next_use;
};

typedef struct wgmma_request {
    emu_thread *thread;
    uintptr_t origin;
    float *d;
    const uint32_t *a;
    uint64_t descriptor_a, descriptor_b;
    int n, accumulate, type, transpose_a, transpose_b;
} wgmma_request;

/* ---- wgmma_registers.c ---- */

/* calloc that ends the launch without memory. */
void *emu_wgmma_new(size_t bytes);
/* The accumulators of the lanes' requests, ready for one product more: fetched and poisoned if it is the first of a
 * chain. Faults: another shape has them in flight; no wgmma.fence since they may have been accessed. */
accumulators *emu_wgmma_accumulators(emu_warp_matrix *warp, void *const requests[EMU_WARP]);
/* After the last product of a chain: the lanes have their registers again. The set stays, remembered. */
void emu_wgmma_give_back(emu_warp_matrix *warp, accumulators *set);
void emu_wgmma_free_sets(emu_warp_matrix *warp);
/* wgmma.fence: what stands now in registers of earlier products, which the next ones may use. */
void emu_wgmma_remember(emu_warp_matrix *warp);
/* Reads A's registers of all lanes into the product, and locks them for its group. Fault: they have changed without a
 * wgmma.fence. */
void emu_wgmma_fragments(emu_warp_matrix *warp, product *made, void *const requests[EMU_WARP]);
void emu_wgmma_unlock(emu_thread *first, emu_registers *locks);

#endif
