/* Accesses of kernels to global memory. */
#include <stdio.h>
#include <stdlib.h>

#include "cluster.h"
#include "core.h"
#include "shadow.h"

/* Who does what to memory. */
typedef struct action {
    emu_thread *thread;
    const emu_view *view;
    const emu_effect *effect; /* NULL: a generic access */
    int kind;
    uintptr_t origin;
} action;

/* "bulk copy reads", "write of", for messages. */
static const char *doing(const action *act) {
    static char text[96];
    if (!act->effect)
        return act->kind == 0            ? "read of"
               : act->kind == EMU_WRITE  ? "write of"
               : act->kind == EMU_ATOMIC ? "ordered load of"
                                         : "atomic operation on";
    snprintf(text, sizeof text, "%s %s", act->effect->what, act->effect->writes ? "writes" : "reads");
    return text;
}

static emu_allocation *find(const action *act, uintptr_t address, size_t bytes) {
    emu_allocation *allocation = emu_allocation_of(address);
    if (allocation && bytes <= allocation->bytes - (address - allocation->start))
        return allocation;
    char nearest[200];
    emu_allocation_nearest(address, bytes, nearest, sizeof nearest);
    emu_fault(act->thread, act->origin, "%s %zu bytes at 0x%llx of global memory, outside every allocation; %s",
              doing(act), bytes, (unsigned long long)address, nearest);
}

emu_allocation *emu_allocation_find(emu_thread *thread, uintptr_t address, size_t bytes, int kind, uintptr_t origin) {
    return find(&(action){.thread = thread, .kind = kind, .origin = origin}, address, bytes);
}

/* ---- what a page knows of this launch and the ones before ---- */

void emu_page_turn(emu_page *page, const emu_launch *launch) {
    if (page->launch == launch->number)
        return;
    uint32_t chain = emu_memory_chain();
    bool keep_now = page->launch >= chain, keep_old = page->before >= chain;
    for (int kind = 0; kind < 2; kind++) {
        for (int i = 0; i < EMU_PAGE_WORDS / 64; i++) {
            page->old[kind][i] = (keep_now ? page->now[kind][i] : 0) | (keep_now && keep_old ? page->old[kind][i] : 0);
            page->now[kind][i] = 0;
        }
    }
    page->before = keep_now ? page->launch : 0;
    page->launch = launch->number;
}

enum { GROUP = 64 }; /* words whose bits are one uint64_t */

/* Bits of words from..to of one group. */
static inline uint64_t word_mask(uint32_t from, uint32_t to) {
    return (~(uint64_t)0 >> (GROUP - 1 - (to - from))) << from % GROUP;
}

/* The last word, up to `last`, of the group that a word is in. */
static inline uint32_t group_end(uint32_t word, uint32_t last) {
    uint32_t end = word / GROUP * GROUP + GROUP - 1;
    return end < last ? end : last;
}

/* Marks the words of bytes first..last of a page. */
static void mark(uint64_t *words, uint32_t first, uint32_t last) {
    for (uint32_t from = first / 4, end; from <= last / 4; from = end + 1) {
        end = group_end(from, last / 4);
        words[from / GROUP] |= word_mask(from, end);
    }
}

/* Is one of them marked? */
static bool any(const uint64_t *words, uint32_t first, uint32_t last) {
    for (uint32_t from = first / 4, end; from <= last / 4; from = end + 1) {
        end = group_end(from, last / 4);
        if (words[from / GROUP] & word_mask(from, end))
            return true;
    }
    return false;
}

/* Memory of a launch that may still run: nothing of it before griddepcontrol.wait (PTX ISA 9.7.13.13). */
static void check_dependency(const action *act, const emu_page *page, uint32_t first, uint32_t last,
                             uintptr_t address) {
    const emu_launch *launch = act->thread->block->launch;
    if (!launch->dims.programmatic || page->before < emu_memory_chain() || emu_dependency_known(act->thread))
        return;
    bool written = any(page->old[1], first, last);
    if (!written && !((act->kind & EMU_WRITE) && any(page->old[0], first, last)))
        return;
    char where[160];
    emu_global_name(address, where, sizeof where);
    emu_fault(act->thread, act->origin,
              "%s %s before griddepcontrol.wait: the launch before, which may still run, %s that memory", doing(act),
              where, written ? "writes" : "reads");
}

/* Against asynchronous effects on the page. */
static void check_spans(const action *act, const emu_page *page, uint32_t first, uint32_t last, uintptr_t address) {
    const emu_block *block = act->thread->block;
    for (uint32_t i = 0; i < page->span_count; i++) {
        const emu_span *span = &page->spans[i];
        const emu_effect *earlier = span->effect;
        if (span->first > last || span->last < first || earlier == act->effect ||
            (!(act->kind & EMU_WRITE) && !earlier->writes))
            continue;
        bool fenced = act->effect && earlier->generic_proxy && !act->effect->generic_proxy;
        enum emu_known how =
            emu_effect_known(earlier, act->view, block->cluster->generation, act->effect ? NULL : act->thread, fenced);
        if (how == EMU_KNOWN)
            continue;
        char where[160];
        emu_site site = emu_site_of(act->thread, act->origin);
        emu_global_name(address, where, sizeof where);
        emu_effect_fault(block->launch, act->thread, &site, doing(act), where, earlier, how);
    }
}

/* Reads of what nobody has written. */
static void check_written(const action *act, const emu_allocation *allocation, size_t offset, size_t bytes) {
    if (emu_bits_all(allocation->written, offset, bytes))
        return;
    while (emu_bits_all(allocation->written, offset, 1))
        offset++;
    emu_fault(act->thread, act->origin,
              "%s %zu bytes of global memory of which the byte at 0x%llx has never been written (byte %zu of an "
              "allocation of %zu)",
              doing(act), bytes, (unsigned long long)allocation->start + offset, offset, allocation->bytes);
}

/* What a generic access and an effect have in common, on a part of one page. */
static emu_page *open_page(const action *act, emu_allocation *allocation, size_t offset, uint32_t bytes) {
    emu_page *page = &allocation->pages[offset / EMU_PAGE];
    uint32_t first = offset % EMU_PAGE, last = first + bytes - 1;
    emu_page_turn(page, act->thread->block->launch);
    if (page->before)
        check_dependency(act, page, first, last, allocation->start + offset);
    if (page->span_count)
        check_spans(act, page, first, last, allocation->start + offset);
    return page;
}

/* The part of a range of bytes from `offset` on that lies in one page. */
static uint32_t part_in_page(size_t offset, size_t bytes) {
    size_t room = EMU_PAGE - offset % EMU_PAGE;
    return (uint32_t)(bytes < room ? bytes : room);
}

/* ---- generic accesses ---- */

static void touch_page(const action *act, emu_allocation *allocation, size_t offset, uint32_t bytes,
                       const emu_actor *actor) {
    emu_page *page = open_page(act, allocation, offset, bytes);
    uint32_t first = offset % EMU_PAGE;
    mark(page->now[(actor->kind & EMU_WRITE) != 0], first, first + bytes - 1);
    while (bytes > 0) {
        uint32_t within = offset % EMU_CHUNK, room = EMU_CHUNK - within, part = bytes < room ? bytes : room;
        emu_record other;
        if (!emu_cell_access(emu_memory_arena(), &allocation->cells[offset / EMU_CHUNK], within, part, actor, &other)) {
            char where[160];
            emu_global_name(allocation->start + offset, where, sizeof where);
            emu_race_fault(act->thread, actor, act->origin, part, &other, where);
        }
        offset += part;
        bytes -= part;
    }
}

void emu_global_touch(emu_thread *thread, uintptr_t address, size_t bytes, int kind, uintptr_t origin) {
    const action act = {.thread = thread, .view = &thread->view, .kind = kind, .origin = origin};
    emu_allocation *allocation = find(&act, address, bytes);
    size_t offset = address - allocation->start;
    emu_actor actor = emu_actor_of(thread, emu_trace_base(), kind, origin);
    if (kind != EMU_WRITE)
        check_written(&act, allocation, offset, bytes);
    for (size_t done = 0; done < bytes;) {
        uint32_t part = part_in_page(offset + done, bytes - done);
        touch_page(&act, allocation, offset + done, part, &actor);
        done += part;
    }
    if (kind & EMU_WRITE)
        emu_bits_set(allocation->written, offset, bytes, true);
}

void emu_global_access(emu_thread *thread, uintptr_t address, size_t bytes, bool write, uintptr_t origin) {
    if (bytes)
        emu_global_touch(thread, address, bytes, write ? EMU_WRITE : 0, origin);
}

void emu_global_atomic(emu_thread *thread, uintptr_t address, size_t bytes, uintptr_t origin) {
    if (bytes)
        emu_global_touch(thread, address, bytes, EMU_WRITE | EMU_ATOMIC, origin);
}

/* ---- asynchronous effects ---- */

static void add_span(emu_page *page, emu_effect *effect, uint32_t first, uint32_t last, const emu_view *view,
                     uint32_t generation) {
    if (page->span_capacity == 0)
        emu_memory_has_spans(page);
    /* spans that the new one covers and that are over for it need not be kept */
    for (uint32_t i = 0; i < page->span_count; i++) {
        const emu_span *old = &page->spans[i];
        bool covered = old->first >= first && old->last <= last && (effect->writes || !old->effect->writes);
        if (!covered || emu_effect_known(old->effect, view, generation, NULL, false) != EMU_KNOWN)
            continue;
        emu_effect_drop(old->effect);
        page->spans[i--] = page->spans[--page->span_count];
    }
    if (page->span_count == page->span_capacity) {
        uint32_t capacity = page->span_capacity ? page->span_capacity * 2 : 4;
        emu_span *grown = realloc(page->spans, capacity * sizeof *grown);
        if (!grown)
            emu_out_of_memory();
        page->spans = grown;
        page->span_capacity = capacity;
    }
    page->spans[page->span_count++] = (emu_span){effect, (uint16_t)first, (uint16_t)last};
    effect->references++;
}

/* Against ordinary accesses of this launch; a write makes them forgotten. */
static void check_cells(const action *act, emu_allocation *allocation, size_t offset, uint32_t bytes) {
    const emu_effect *effect = act->effect;
    const emu_block *block = act->thread->block;
    for (size_t chunk = offset / EMU_CHUNK; chunk <= (offset + bytes - 1) / EMU_CHUNK; chunk++) {
        emu_record other;
        emu_cell *cell = &allocation->cells[chunk];
        enum emu_known how = emu_cell_known(cell, act->view, emu_trace_base(), block->cluster->generation,
                                            effect->writes, !effect->generic_proxy, &other);
        if (how != EMU_KNOWN) {
            char where[160];
            emu_global_name(allocation->start + chunk * EMU_CHUNK, where, sizeof where);
            emu_order_fault(block->launch, effect, &other, where, how);
        }
        if (effect->writes && chunk * EMU_CHUNK >= offset && (chunk + 1) * EMU_CHUNK <= offset + bytes)
            emu_cell_clear(emu_memory_arena(), cell, emu_trace_base());
    }
}

void emu_global_effect(const emu_view *view, emu_thread *issuer, emu_effect *effect, uintptr_t address, size_t bytes,
                       bool generic_proxy) {
    if (bytes == 0)
        return;
    effect->generic_proxy = generic_proxy;
    const action act = {.thread = issuer,
                        .view = view,
                        .effect = effect,
                        .kind = effect->writes ? EMU_WRITE : 0,
                        .origin = effect->site.origin};
    emu_allocation *allocation = find(&act, address, bytes);
    size_t offset = address - allocation->start;
    if (!effect->writes && !effect->poison_allowed)
        check_written(&act, allocation, offset, bytes);
    for (size_t done = 0; done < bytes;) {
        uint32_t part = part_in_page(offset + done, bytes - done), first = (offset + done) % EMU_PAGE;
        uint32_t last = first + part - 1;
        emu_page *page = open_page(&act, allocation, offset + done, part);
        if (any(page->now[1], first, last) || (effect->writes && any(page->now[0], first, last)))
            check_cells(&act, allocation, offset + done, part);
        mark(page->now[effect->writes], first, last);
        add_span(page, effect, first, last, view, issuer->block->cluster->generation);
        done += part;
    }
    if (effect->writes)
        emu_bits_set(allocation->written, offset, bytes, true);
}
