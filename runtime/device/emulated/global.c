/* Accesses of kernels to global memory. */
#include <stdio.h>
#include <stdlib.h>

#include "cluster.h"
#include "core.h"
#include "shadow.h"

emu_allocation *emu_allocation_find(emu_thread *thread, uintptr_t address, size_t bytes, const char *doing,
                                    uintptr_t origin) {
    emu_allocation *allocation = emu_allocation_of(address);
    if (allocation && bytes <= allocation->bytes - (address - allocation->start))
        return allocation;
    char nearest[200];
    emu_allocation_nearest(address, bytes, nearest, sizeof nearest);
    emu_fault(thread, origin, "%s %zu bytes at 0x%llx of global memory, outside every allocation; %s", doing, bytes,
              (unsigned long long)address, nearest);
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
static void check_dependency(emu_thread *thread, const emu_page *page, uint32_t first, uint32_t last, bool write,
                             uintptr_t address, const char *doing, uintptr_t origin) {
    const emu_launch *launch = thread->block->launch;
    if (!launch->dims.programmatic || page->before < emu_memory_chain() || emu_dependency_known(thread))
        return;
    bool written = any(page->old[1], first, last);
    if (!written && !(write && any(page->old[0], first, last)))
        return;
    char where[160];
    emu_global_name(address, where, sizeof where);
    emu_fault(thread, origin,
              "%s %s before griddepcontrol.wait: the launch before, which may still run, %s that memory", doing, where,
              written ? "writes" : "reads");
}

/* Against asynchronous effects on the page. effect NULL: a generic access of the thread. */
static void check_spans(emu_thread *thread, const emu_page *page, uint32_t first, uint32_t last, bool write,
                        const emu_view *view, const emu_effect *effect, uintptr_t address, const char *doing,
                        uintptr_t origin) {
    for (uint32_t i = 0; i < page->span_count; i++) {
        const emu_span *span = &page->spans[i];
        const emu_effect *earlier = span->effect;
        if (span->first > last || span->last < first || earlier == effect || (!write && !earlier->writes))
            continue;
        bool fenced = effect && earlier->generic_proxy && !effect->generic_proxy;
        enum emu_known how =
            emu_effect_known(earlier, view, thread->block->cluster->generation, effect ? NULL : thread, fenced);
        if (how == EMU_KNOWN)
            continue;
        char where[160];
        emu_site site = emu_site_of(thread, origin);
        emu_global_name(address, where, sizeof where);
        emu_effect_fault(thread->block->launch, thread, &site, doing, where, earlier, how);
    }
}

static void fault_unwritten(emu_thread *thread, const emu_allocation *allocation, size_t offset, const char *doing,
                            size_t bytes, uintptr_t origin) {
    while (emu_bits_all(allocation->written, offset, 1))
        offset++;
    emu_fault(thread, origin,
              "%s %zu bytes of global memory of which the byte at 0x%llx has never been written (byte %zu of an "
              "allocation of %zu)",
              doing, bytes, (unsigned long long)allocation->start + offset, offset, allocation->bytes);
}

/* ---- generic accesses ---- */

static const char *verb(int kind) {
    return kind == 0            ? "read of"
           : kind == EMU_WRITE  ? "write of"
           : kind == EMU_ATOMIC ? "ordered load of"
                                : "atomic operation on";
}

static void touch_page(emu_thread *thread, emu_allocation *allocation, size_t offset, uint32_t bytes,
                       const emu_actor *actor, uintptr_t origin) {
    emu_page *page = &allocation->pages[offset / EMU_PAGE];
    uint32_t first = offset % EMU_PAGE, last = first + bytes - 1;
    bool write = actor->kind & EMU_WRITE;
    emu_page_turn(page, thread->block->launch);
    if (page->before)
        check_dependency(thread, page, first, last, write, allocation->start + offset, verb(actor->kind), origin);
    if (page->span_count)
        check_spans(thread, page, first, last, write, &thread->view, NULL, allocation->start + offset,
                    verb(actor->kind), origin);
    mark(page->now[write], first, last);
    while (bytes > 0) {
        uint32_t within = offset % EMU_CHUNK, room = EMU_CHUNK - within, part = bytes < room ? bytes : room;
        emu_record other;
        if (!emu_cell_access(emu_memory_arena(), &allocation->cells[offset / EMU_CHUNK], within, part, actor, &other)) {
            char where[160];
            emu_global_name(allocation->start + offset, where, sizeof where);
            emu_race_fault(thread, actor, origin, part, &other, where);
        }
        offset += part;
        bytes -= part;
    }
}

void emu_global_touch(emu_thread *thread, uintptr_t address, size_t bytes, int kind, uintptr_t origin) {
    emu_allocation *allocation = emu_allocation_find(thread, address, bytes, verb(kind), origin);
    size_t offset = address - allocation->start;
    emu_actor actor = emu_actor_of(thread, emu_trace_base(), kind, origin);
    if (kind != EMU_WRITE && !emu_bits_all(allocation->written, offset, bytes))
        fault_unwritten(thread, allocation, offset, verb(kind), bytes, origin);
    for (size_t done = 0; done < bytes;) {
        size_t room = EMU_PAGE - (offset + done) % EMU_PAGE, part = bytes - done < room ? bytes - done : room;
        touch_page(thread, allocation, offset + done, (uint32_t)part, &actor, origin);
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
static void check_cells(const emu_view *view, emu_thread *issuer, const emu_effect *effect, emu_allocation *allocation,
                        size_t offset, uint32_t bytes) {
    for (size_t chunk = offset / EMU_CHUNK; chunk <= (offset + bytes - 1) / EMU_CHUNK; chunk++) {
        emu_record other;
        emu_cell *cell = &allocation->cells[chunk];
        enum emu_known how = emu_cell_known(cell, view, emu_trace_base(), issuer->block->cluster->generation,
                                            effect->writes, !effect->generic_proxy, &other);
        if (how != EMU_KNOWN) {
            char where[160];
            emu_global_name(allocation->start + chunk * EMU_CHUNK, where, sizeof where);
            emu_order_fault(issuer->block->launch, effect, &other, where, how);
        }
        if (effect->writes && chunk * EMU_CHUNK >= offset && (chunk + 1) * EMU_CHUNK <= offset + bytes)
            emu_cell_clear(emu_memory_arena(), cell, emu_trace_base());
    }
}

static void effect_on_page(const emu_view *view, emu_thread *issuer, emu_effect *effect, emu_allocation *allocation,
                           size_t offset, uint32_t bytes, const char *doing) {
    emu_page *page = &allocation->pages[offset / EMU_PAGE];
    uint32_t first = offset % EMU_PAGE, last = first + bytes - 1;
    uintptr_t address = allocation->start + offset, origin = effect->site.origin;
    emu_page_turn(page, issuer->block->launch);
    if (page->before)
        check_dependency(issuer, page, first, last, effect->writes, address, doing, origin);
    check_spans(issuer, page, first, last, effect->writes, view, effect, address, doing, origin);
    if (any(page->now[1], first, last) || (effect->writes && any(page->now[0], first, last)))
        check_cells(view, issuer, effect, allocation, offset, bytes);
    mark(page->now[effect->writes], first, last);
    add_span(page, effect, first, last, view, issuer->block->cluster->generation);
}

void emu_global_effect(const emu_view *view, emu_thread *issuer, emu_effect *effect, uintptr_t address, size_t bytes,
                       bool generic_proxy) {
    char doing[96];
    if (bytes == 0)
        return;
    effect->generic_proxy = generic_proxy;
    snprintf(doing, sizeof doing, "%s %s", effect->what, effect->writes ? "writes" : "reads");
    emu_allocation *allocation = emu_allocation_find(issuer, address, bytes, doing, effect->site.origin);
    size_t offset = address - allocation->start;
    if (!effect->writes && !effect->poison_allowed && !emu_bits_all(allocation->written, offset, bytes))
        fault_unwritten(issuer, allocation, offset, doing, bytes, effect->site.origin);
    for (size_t done = 0; done < bytes;) {
        size_t room = EMU_PAGE - (offset + done) % EMU_PAGE, part = bytes - done < room ? bytes - done : room;
        effect_on_page(view, issuer, effect, allocation, offset + done, (uint32_t)part, doing);
        done += part;
    }
    if (effect->writes)
        emu_bits_set(allocation->written, offset, bytes, true);
}
