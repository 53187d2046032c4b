/* wgmma (PTX ISA 9.7.15): each warp has its 16 rows of a product in flight from wgmma.mma_async until a wait_group that
 * covers it, and reads its operands in shared memory only there. */
#include "wgmma.h"

#include <stdlib.h>
#include <string.h>

static emu_warp_matrix *matrix_of(emu_thread *first) {
    emu_warp_matrix **place = &emu_wgmma_of(first->block)->warps[first->warp];
    if (!*place) {
        *place = emu_wgmma_new(sizeof **place);
        (*place)->first = first;
        (*place)->end = &(*place)->committed;
    }
    return *place;
}

/* ---- issue ---- */

static void check_operand(emu_thread *first, const wgmma_request *request, char name, uint64_t bits, uint32_t mn,
                          int mn_major, struct layout_operand *operand) {
    char reason[LAYOUT_REASON];
    *operand = (struct layout_operand){
        .major = mn_major ? LAYOUT_MN_MAJOR : LAYOUT_K_MAJOR, .element_bytes = 2, .mn = mn, .k = EMU_PRODUCT_K};
    if (!layout_decode_sm90(bits, &operand->at, reason) || !layout_check_operand(operand, reason))
        emu_fault(first, request->origin, "wgmma: operand %c: %s", name, reason);
}

/* The effect of this line's products in the open group. */
static emu_effect *effect_of(emu_warp_matrix *warp, uintptr_t origin) {
    product_group *open = warp->open;
    for (product_effect *entry = open->effects; entry; entry = entry->next)
        if (entry->effect->site.origin == origin)
            return entry->effect;
    product_effect *entry = emu_wgmma_new(sizeof *entry);
    entry->next = open->effects;
    open->effects = entry;
    entry->effect = emu_effect_new(warp->first, false, "wgmma", origin);
    entry->effect->poison_allowed = true; /* rows beyond a tensor's edge */
    return entry->effect;
}

static void mark_operand(emu_warp_matrix *warp, emu_effect *effect, const struct layout_operand *operand, char name,
                         uint32_t rows) {
    emu_block *block = warp->first->block;
    const emu_chunks *chunks = emu_operand_chunks(operand, rows);
    for (uint32_t i = 0; i < chunks->range_count; i++) {
        const struct emu_range *range = &chunks->ranges[i];
        if (range->first >= block->shared_bytes || range->bytes > block->shared_bytes - range->first)
            emu_fault(warp->first, effect->site.origin,
                      "wgmma: operand %c reaches shared address 0x%x, outside of the block's shared memory (0x%x to "
                      "0x%x); it starts at 0x%x, leading offset %u, stride offset %u, swizzle %s",
                      name, EMU_SHARED_START + range->first, EMU_SHARED_START,
                      EMU_SHARED_START + block->shared_bytes - 1, operand->at.start, operand->at.leading,
                      operand->at.stride, layout_swizzle_name(operand->at.swizzle));
        emu_shared_effect(&warp->view, effect, block, range->first, range->bytes, false);
    }
}

static void check_uniform(emu_thread *first, void *const requests[EMU_WARP]) {
    const wgmma_request *one = requests[0];
    for (uint32_t lane = 1; lane < EMU_WARP; lane++) {
        const wgmma_request *other = requests[lane];
        if (other->descriptor_a != one->descriptor_a || other->descriptor_b != one->descriptor_b ||
            other->n != one->n || !other->accumulate != !one->accumulate || other->type != one->type ||
            other->transpose_a != one->transpose_a || other->transpose_b != one->transpose_b || !other->a != !one->a)
            emu_fault(&first[lane], other->origin,
                      "lanes 0 and %u of a warp execute wgmma with different operands: 0x%llx, 0x%llx, accumulate %d "
                      "and 0x%llx, 0x%llx, accumulate %d",
                      lane, (unsigned long long)one->descriptor_a, (unsigned long long)one->descriptor_b,
                      one->accumulate != 0, (unsigned long long)other->descriptor_a,
                      (unsigned long long)other->descriptor_b, other->accumulate != 0);
    }
}

static void check_instruction(const emu_warp_matrix *warp, const wgmma_request *request) {
    if (request->n < 8 || request->n > 256 || request->n % 8)
        emu_fault(warp->first, request->origin, "wgmma with N = %d; it must be a multiple of 8 from 8 to 256",
                  request->n);
    if (request->type != EMU_F16 && request->type != EMU_BF16)
        emu_fault(warp->first, request->origin, "wgmma of an operand type that is not emulated: f16 and bf16 are");
    if (warp->fences == 0)
        emu_fault(warp->first, request->origin,
                  "wgmma without a wgmma.fence before it; the first one needs it, and every access to its registers "
                  "since");
}

static void issue(emu_thread *first, void *const requests[EMU_WARP]) {
    const wgmma_request *request = requests[0];
    emu_warp_matrix *warp = matrix_of(first);
    check_uniform(first, requests);
    check_instruction(warp, request);
    emu_step step = {.name = "wgmma.mma_async",
                     .a = request->a ? 0 : request->descriptor_a,
                     .b = request->descriptor_b,
                     .number = (uint32_t)request->n | (request->accumulate != 0) << 9 | (request->a != NULL) << 10 |
                               (request->transpose_a != 0) << 11 | (request->transpose_b != 0) << 12 |
                               (uint32_t)request->type << 13,
                     .site = emu_site_of(first, request->origin)};
    emu_warpgroup_step(first, &step);
    if (!warp->open) {
        warp->open = emu_wgmma_new(sizeof *warp->open);
        warp->open->end = &warp->open->first;
        warp->open->site = step.site;
    }
    product *made = emu_wgmma_new(sizeof *made);
    *warp->open->end = made;
    warp->open->end = &made->next;
    made->what = (emu_product){.shared = first->block->shared,
                               .type = (enum emu_type)request->type,
                               .n = (uint32_t)request->n,
                               .warp = first->warp % EMU_GROUP_WARPS,
                               .accumulate = request->accumulate != 0};
    if (!request->a)
        check_operand(first, request, 'A', request->descriptor_a, 64, request->transpose_a, &made->what.a);
    check_operand(first, request, 'B', request->descriptor_b, (uint32_t)request->n, request->transpose_b,
                  &made->what.b);
    emu_effect *effect = effect_of(warp, request->origin);
    emu_view_of(first, &warp->view);
    if (!request->a)
        mark_operand(warp, effect, &made->what.a, 'A', made->what.warp);
    mark_operand(warp, effect, &made->what.b, 'B', EMU_GROUP_WARPS);
    emu_view_clear(&warp->view);
    accumulators *set = emu_wgmma_accumulators(warp, requests);
    if (request->a) {
        emu_wgmma_fragments(warp, made, requests);
        made->what.fragments = made->fragments;
    }
    made->set = set;
    made->what.values = set->values;
    set->products++;
    set->fence = warp->fences;
    set->site = step.site;
    first->block->launch->multiplies += (uint64_t)EMU_WARP_ROWS * EMU_PRODUCT_K * (uint32_t)request->n;
}

void emu_api_wgmma(float *d, int n, const emu_u32 *a, emu_u64 descriptor_a, emu_u64 descriptor_b, int accumulate,
                   int type, int transpose_a, int transpose_b) {
    uintptr_t origin = EMU_ORIGIN;
    emu_thread *thread = emu_self();
    wgmma_request request = {thread, origin,     d,    a,           descriptor_a, descriptor_b,
                             n,      accumulate, type, transpose_a, transpose_b};
    emu_warp_meet(thread, ~0U, "wgmma.mma_async", false, &request, issue, origin);
}

/* ---- groups ---- */

static void compute(product_group *group) {
    for (product *each = group->first; each && !group->done; each = each->next)
        emu_product_run(&each->what);
    group->done = true;
}

static void group_free(product_group *group) {
    while (group->first) {
        product *each = group->first;
        group->first = each->next;
        free(each);
    }
    while (group->effects) {
        product_effect *entry = group->effects;
        group->effects = entry->next;
        emu_effect_drop(entry->effect);
        free(entry);
    }
    while (group->locks) {
        fragment_locks *locks = group->locks;
        group->locks = locks->next;
        free(locks);
    }
    free(group);
}

/* The group is over for its warp: all lanes know it, and whoever learns what they do next. */
static void finish(emu_warp_matrix *warp, product_group *group) {
    emu_thread *first = warp->first;
    compute(group);
    for (product_effect *entry = group->effects; entry; entry = entry->next)
        emu_effect_retire(entry->effect, first->block, emu_slot(first), first->clock);
    for (fragment_locks *locks = group->locks; locks; locks = locks->next)
        emu_wgmma_unlock(first, locks->locks);
    for (product *each = group->first; each; each = each->next) {
        if (--each->set->products == 0)
            emu_wgmma_give_back(warp, each->set);
    }
    group_free(group);
}

typedef struct order_request {
    uint32_t pending;
    uintptr_t origin;
} order_request;

static void step_of(emu_thread *first, void *const requests[EMU_WARP], const char *name) {
    const order_request *request = requests[0];
    emu_step step = {.name = name, .number = request->pending, .site = emu_site_of(first, request->origin)};
    emu_warpgroup_step(first, &step);
}

static void fence(emu_thread *first, void *const requests[EMU_WARP]) {
    step_of(first, requests, "wgmma.fence");
    emu_warp_matrix *warp = matrix_of(first);
    warp->fences++;
    emu_wgmma_remember(warp);
}

static void commit(emu_thread *first, void *const requests[EMU_WARP]) {
    step_of(first, requests, "wgmma.commit_group");
    emu_warp_matrix *warp = matrix_of(first);
    emu_launch *launch = first->block->launch;
    product_group *group = warp->open;
    if (!group) {
        group = emu_wgmma_new(sizeof *group);
        group->end = &group->first;
        group->site = emu_site_of(first, ((const order_request *)requests[0])->origin);
    }
    *warp->end = group;
    warp->end = &group->next;
    warp->open = NULL;
    warp->groups++;
    if (launch->options.timing == EMU_EARLY || (launch->options.timing == EMU_MIXED && emu_draw(launch, 2)))
        for (group = warp->committed; group; group = group->next)
            compute(group);
}

static void wait_for_groups(emu_thread *first, void *const requests[EMU_WARP]) {
    step_of(first, requests, "wgmma.wait_group");
    emu_warp_matrix *warp = matrix_of(first);
    uint32_t pending = ((const order_request *)requests[0])->pending;
    if (warp->groups <= pending)
        return;
    for (product_group *group = warp->committed; group && warp->groups > pending; group = warp->committed) {
        warp->committed = group->next;
        if (!warp->committed)
            warp->end = &warp->committed;
        warp->groups--;
        finish(warp, group);
    }
    for (uint32_t lane = 1; lane < EMU_WARP; lane++)
        emu_view_learn(&first[lane].view, emu_slot(first), first->clock, false);
    first->clock++; /* what the first lane does from here on is not what the others have learnt */
}

static void order(uint32_t pending, const char *name, void (*operation)(emu_thread *, void *const[EMU_WARP]),
                  uintptr_t origin) {
    emu_thread *thread = emu_self();
    order_request request = {pending, origin};
    emu_warp_meet(thread, ~0U, name, false, &request, operation, origin);
}

void emu_api_wgmma_fence(void) {
    order(0, "wgmma.fence", fence, EMU_ORIGIN);
}

void emu_api_wgmma_commit(void) {
    order(0, "wgmma.commit_group", commit, EMU_ORIGIN);
}

void emu_api_wgmma_wait(emu_u32 pending) {
    order(pending, "wgmma.wait_group", wait_for_groups, EMU_ORIGIN);
}

/* ---- the end of a warp ---- */

void emu_matrix_exit(emu_warp_matrix *warp) {
    emu_launch *launch = warp->first->block->launch;
    if (warp->open)
        emu_fault_at(launch, &warp->open->site,
                     "the thread has ended without wgmma.commit_group and wait_group for the wgmma issued here");
    for (const product_group *group = warp->committed; group; group = group->next)
        if (group->first)
            emu_fault_at(launch, &group->site,
                         "the thread has ended without wgmma.wait_group for the wgmma issued here");
}

void emu_matrix_free(emu_warp_matrix *warp) {
    if (!warp)
        return;
    if (warp->open)
        group_free(warp->open);
    while (warp->committed) {
        product_group *group = warp->committed;
        warp->committed = group->next;
        group_free(group);
    }
    emu_wgmma_free_sets(warp);
    emu_view_clear(&warp->view);
    free(warp);
}
