/* The registers of wgmma: accumulators are poison while a product is in flight, A fragments must not be written. */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "wgmma.h"

enum { MOST_IDLE = 16 /* sets of accumulators remembered after their last product */ };

void *emu_wgmma_new(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (!memory)
        emu_out_of_memory();
    return memory;
}

/* ---- locks ---- */

static void lock(emu_thread *first, emu_registers *locks, uint32_t lane) {
    locks[lane].next = first[lane].registers;
    first[lane].registers = &locks[lane];
}

void emu_wgmma_unlock(emu_thread *first, emu_registers *locks) {
    for (uint32_t lane = 0; lane < EMU_WARP; lane++) {
        emu_registers **link = &first[lane].registers;
        while (*link && *link != &locks[lane])
            link = &(*link)->next;
        if (*link)
            *link = locks[lane].next;
    }
}

/* ---- accumulators ---- */

/* Register i of a lane: row and column of D as in layout_wgmma_d. */
static float *value_at(const accumulators *set, uint32_t lane, uint32_t i) {
    uint32_t row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    return &set->values[row * set->n + column];
}

static void fetch(accumulators *set) {
    for (uint32_t lane = 0; lane < EMU_WARP; lane++)
        for (uint32_t i = 0; i < set->n / 2; i++)
            *value_at(set, lane, i) = set->d[lane][i];
}

static uint32_t bits_of(const float *value) {
    uint32_t bits;
    memcpy(&bits, value, sizeof bits);
    return bits;
}

static bool changed(const accumulators *set) {
    for (uint32_t lane = 0; lane < EMU_WARP; lane++)
        for (uint32_t i = 0; i < set->n / 2; i++)
            if (bits_of(value_at(set, lane, i)) != bits_of(&set->d[lane][i]))
                return true;
    return false;
}

/* From now on only products may touch the registers. */
static void take(emu_thread *first, accumulators *set, const emu_site *site) {
    static const uint32_t poison = EMU_POISON;
    for (uint32_t lane = 0; lane < EMU_WARP; lane++) {
        for (uint32_t i = 0; i < set->n / 2; i++)
            memcpy(&set->d[lane][i], &poison, sizeof poison);
        set->locks[lane] = (emu_registers){.first = (uintptr_t)set->d[lane],
                                           .end = (uintptr_t)(set->d[lane] + set->n / 2),
                                           .what = "accumulators of a wgmma",
                                           .site = *site};
        memcpy(set->locks[lane].site.thread, first[lane].index, sizeof site->thread);
        lock(first, set->locks, lane);
    }
}

void emu_wgmma_give_back(emu_warp_matrix *warp, accumulators *set) {
    emu_wgmma_unlock(warp->first, set->locks);
    warp->fences_at_wait = warp->fences;
    for (uint32_t lane = 0; lane < EMU_WARP; lane++)
        for (uint32_t i = 0; i < set->n / 2; i++)
            set->d[lane][i] = *value_at(set, lane, i);
}

static void free_set(accumulators **link) {
    accumulators *set = *link;
    *link = set->next;
    free(set->values);
    free(set);
}

static bool overlap(const accumulators *set, const wgmma_request *request) {
    const float *d = request->d;
    return set->d[0] < d + request->n / 2 && d < set->d[0] + set->n / 2;
}

static bool same_registers(const accumulators *set, void *const requests[EMU_WARP], uint32_t n) {
    if (set->n != n)
        return false;
    for (uint32_t lane = 0; lane < EMU_WARP; lane++)
        if (set->d[lane] != ((const wgmma_request *)requests[lane])->d)
            return false;
    return true;
}

/* The set of these registers, in flight or remembered; a new one, with no products, where there is none. */
static accumulators *find_set(emu_warp_matrix *warp, void *const requests[EMU_WARP]) {
    const wgmma_request *request = requests[0];
    uint32_t n = (uint32_t)request->n, idle = 0;
    accumulators **link = &warp->sets;
    while (*link) {
        accumulators *set = *link;
        if (same_registers(set, requests, n))
            return set;
        if (set->products && overlap(set, request))
            emu_fault(warp->first, request->origin,
                      "wgmma of N = %u on accumulators that a wgmma of another shape (N = %u, at %s) still has: only "
                      "products of one shape may follow each other without wgmma.wait_group",
                      n, set->n, emu_place(warp->first->block->launch, &set->site));
        if (!set->products && (overlap(set, request) || ++idle > MOST_IDLE))
            free_set(link);
        else
            link = &set->next;
    }
    accumulators *set = emu_wgmma_new(sizeof *set);
    set->next = warp->sets;
    warp->sets = set;
    set->n = n;
    set->values = emu_wgmma_new(EMU_WARP_ROWS * sizeof(float) * n);
    set->fence = warp->fences_at_wait;
    for (uint32_t lane = 0; lane < EMU_WARP; lane++)
        set->d[lane] = ((const wgmma_request *)requests[lane])->d;
    return set;
}

/* 9.7.15.7.1: a wgmma.fence must stand between other accesses to the registers and the product. */
static void begin_chain(emu_warp_matrix *warp, accumulators *set, const wgmma_request *request, bool fresh) {
    if (fresh ? set->fence == warp->fences : changed(set))
        emu_fault(warp->first, request->origin,
                  "wgmma on accumulators that %s written since the last wgmma.fence; wgmma.fence must come between "
                  "other accesses to them and the product",
                  fresh ? "may have been" : "have been");
    if (request->accumulate)
        fetch(set);
    emu_site site = emu_site_of(warp->first, request->origin);
    take(warp->first, set, &site);
}

accumulators *emu_wgmma_accumulators(emu_warp_matrix *warp, void *const requests[EMU_WARP]) {
    accumulators *set = find_set(warp, requests);
    if (set->products == 0)
        begin_chain(warp, set, requests[0], set->site.origin == 0);
    return set;
}

void emu_wgmma_remember(emu_warp_matrix *warp) {
    for (accumulators *set = warp->sets; set; set = set->next)
        if (set->products == 0)
            fetch(set);
    for (int i = 0; i < EMU_FRAGMENTS; i++)
        for (uint32_t lane = 0; lane < EMU_WARP && warp->uses[i].registers[0]; lane++)
            memcpy(warp->uses[i].values[lane], warp->uses[i].registers[lane], sizeof warp->uses[i].values[0]);
}

void emu_wgmma_free_sets(emu_warp_matrix *warp) {
    while (warp->sets)
        free_set(&warp->sets);
}

/* ---- A in registers ---- */

void emu_wgmma_fragments(emu_warp_matrix *warp, product *made, void *const requests[EMU_WARP]) {
    const wgmma_request *request = requests[0];
    fragment_use *use = NULL;
    for (uint32_t lane = 0; lane < EMU_WARP; lane++)
        memcpy(made->fragments[lane], ((const wgmma_request *)requests[lane])->a, sizeof made->fragments[0]);
    for (int i = 0; i < EMU_FRAGMENTS && !use; i++)
        if (warp->uses[i].registers[0] == request->a)
            use = &warp->uses[i];
    if (use && memcmp(use->values, made->fragments, sizeof use->values) != 0)
        emu_fault(warp->first, request->origin,
                  "wgmma whose A registers have been written since the last wgmma.fence; wgmma.fence must come between "
                  "the two");
    if (!use) {
        use = &warp->uses[warp->next_use++ % EMU_FRAGMENTS];
        for (uint32_t lane = 0; lane < EMU_WARP; lane++)
            use->registers[lane] = ((const wgmma_request *)requests[lane])->a;
        memcpy(use->values, made->fragments, sizeof use->values);
    }
    fragment_locks *locks = emu_wgmma_new(sizeof *locks);
    locks->next = warp->open->locks;
    warp->open->locks = locks;
    for (uint32_t lane = 0; lane < EMU_WARP; lane++) {
        const wgmma_request *own = requests[lane];
        locks->locks[lane] = (emu_registers){.first = (uintptr_t)own->a,
                                             .end = (uintptr_t)(own->a + 4),
                                             .reads_allowed = true,
                                             .what = "A fragments of a wgmma",
                                             .site = emu_site_of(own->thread, own->origin)};
        lock(warp->first, locks->locks, lane);
    }
}
