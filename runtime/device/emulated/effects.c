/* Asynchronous effects: what a bulk copy or a matrix operation reads and writes between its issue and the moment when
 * somebody knows that it is over. */
#include <stdio.h>
#include <stdlib.h>

#include "core.h"
#include "shadow.h"

emu_effect *emu_effect_new(emu_thread *thread, bool writes, const char *what, uintptr_t origin) {
    emu_effect *effect = calloc(1, sizeof *effect);
    if (!effect)
        emu_out_of_memory();
    effect->references = 1;
    effect->writes = writes;
    effect->what = what;
    effect->site = emu_site_of(thread, origin);
    return effect;
}

void emu_effect_drop(emu_effect *effect) {
    if (effect && --effect->references == 0)
        free(effect);
}

void emu_effect_retire(emu_effect *effect, const emu_block *block, uint32_t slot, uint32_t clock) {
    effect->retired = true;
    effect->cluster = block->cluster->generation;
    effect->slot = slot;
    effect->clock = clock;
}

enum emu_known emu_effect_known(const emu_effect *effect, const emu_view *view, uint32_t generation,
                                const emu_thread *thread, bool fenced) {
    if (!effect->retired)
        return EMU_UNKNOWN;
    if (thread && !fenced && effect->cluster == generation && effect->slot == emu_slot(thread))
        return EMU_KNOWN;
    if (!emu_view_has(view, generation, effect->cluster, effect->slot, effect->clock, false))
        return EMU_UNKNOWN;
    return !fenced || emu_view_has(view, generation, effect->cluster, effect->slot, effect->clock, true) ? EMU_KNOWN
                                                                                                         : EMU_UNFENCED;
}

void emu_effect_fault(emu_launch *launch, emu_thread *thread, const emu_site *at, const char *doing, const char *where,
                      const emu_effect *earlier, enum emu_known how) {
    const char *does = earlier->writes ? "writes" : "reads", *place = emu_place(launch, &earlier->site);
    char text[1400];
    if (how == EMU_UNFENCED)
        snprintf(
            text, sizeof text,
            "%s %s, which the %s issued at %s %s through the generic proxy; a fence.proxy.async between the two is "
            "missing",
            doing, where, earlier->what, place, does);
    else if (earlier->retired)
        snprintf(text, sizeof text,
                 "%s %s, which the %s issued at %s %s; that is over, but nothing has told this thread: it has to wait "
                 "for it itself, or for a barrier on which one that has waited arrives",
                 doing, where, earlier->what, place, does);
    else
        snprintf(text, sizeof text, "%s %s while the %s issued at %s %s it; a wait for its completion is missing",
                 doing, where, earlier->what, place, earlier->writes ? "still writes" : "still reads");
    if (thread)
        emu_fault(thread, at->origin, "%s", text);
    emu_fault_at(launch, at, "%s", text);
}

/* ---- on chunks of shared memory ---- */

void emu_links_drop(emu_links *links) {
    emu_effect_drop(links->writer);
    for (int i = 0; i < EMU_READERS; i++)
        emu_effect_drop(links->readers[i]);
    memset(links, 0, sizeof *links);
}

void emu_links_check(emu_thread *thread, emu_block *block, uint32_t chunk, int kind, bool whole, uint32_t offset,
                     uint32_t bytes, uintptr_t origin) {
    struct emu_shadow *shadow = block->shadow;
    emu_links *links = &shadow->links[chunk];
    for (int i = -1; i < (kind & EMU_WRITE ? EMU_READERS : 0); i++) {
        const emu_effect *effect = i < 0 ? links->writer : links->readers[i];
        if (!effect)
            continue;
        enum emu_known how = emu_effect_known(effect, &thread->view, shadow->generation, thread, false);
        if (how == EMU_KNOWN)
            continue;
        char doing[80], where[128];
        emu_site site = emu_site_of(thread, origin);
        snprintf(doing, sizeof doing, "%s of %u bytes of", kind & EMU_WRITE ? "write" : "read", bytes);
        emu_shared_name(block, offset, where, sizeof where);
        emu_effect_fault(block->launch, thread, &site, doing, where, effect, how);
    }
    if (kind == EMU_WRITE && whole) { /* all of them come before this write */
        emu_links_drop(links);
        shadow->state[chunk] &= (uint8_t)~EMU_HAS_EFFECTS;
    }
}

static bool same_thread(const emu_effect *a, const emu_effect *b) {
    return memcmp(a->site.block, b->site.block, sizeof a->site.block) == 0 &&
           memcmp(a->site.thread, b->site.thread, sizeof a->site.thread) == 0;
}

/* One more reader of a chunk. Operations of one thread end in their order, so the new one stands for the older. */
static void add_reader(emu_links *links, emu_effect *effect, const emu_view *view, uint32_t generation) {
    int place = -1;
    for (int i = 0; i < EMU_READERS; i++) {
        emu_effect *reader = links->readers[i];
        if (reader == effect)
            return;
        if (reader && same_thread(reader, effect)) {
            place = i;
            break;
        }
        if (place < 0 && (!reader || emu_effect_known(reader, view, generation, NULL, false) == EMU_KNOWN))
            place = i;
    }
    if (place < 0)
        place = 0;
    emu_effect_drop(links->readers[place]);
    links->readers[place] = effect;
    effect->references++;
}

static void effect_name(const emu_effect *effect, char *text, size_t capacity) {
    snprintf(text, capacity, "%s %s", effect->what, effect->writes ? "writes" : "reads");
}

/* Against earlier effects of a chunk. */
static void check_links(const emu_view *view, const emu_effect *effect, emu_block *block, uint32_t chunk) {
    struct emu_shadow *shadow = block->shadow;
    const emu_links *links = &shadow->links[chunk];
    for (int i = -1; i < (effect->writes ? EMU_READERS : 0); i++) {
        const emu_effect *earlier = i < 0 ? links->writer : links->readers[i];
        if (!earlier || earlier == effect)
            continue;
        bool fenced = earlier->generic_proxy && !effect->generic_proxy;
        enum emu_known how = emu_effect_known(earlier, view, shadow->generation, NULL, fenced);
        if (how == EMU_KNOWN)
            continue;
        char doing[128], where[128];
        effect_name(effect, doing, sizeof doing);
        emu_shared_name(block, chunk * EMU_CHUNK, where, sizeof where);
        emu_effect_fault(block->launch, NULL, &effect->site, doing, where, earlier, how);
    }
}

static void effect_on_chunk(const emu_view *view, emu_effect *effect, emu_block *block, uint32_t chunk) {
    struct emu_shadow *shadow = block->shadow;
    uint8_t *state = &shadow->state[chunk];
    emu_links *links = &shadow->links[chunk];
    if (*state & EMU_HAS_EFFECTS)
        check_links(view, effect, block, chunk);
    if (*state & EMU_TOUCHED) {
        emu_record other;
        enum emu_known how = emu_cell_known(&shadow->cells[chunk], view, shadow->generation, shadow->generation,
                                            effect->writes, !effect->generic_proxy, &other);
        if (how != EMU_KNOWN) {
            char where[128];
            emu_shared_name(block, chunk * EMU_CHUNK, where, sizeof where);
            emu_order_fault(block->launch, effect, &other, where, how);
        }
    }
    if (!effect->writes) {
        add_reader(links, effect, view, shadow->generation);
    } else if (links->writer != effect) {
        emu_links_drop(links);
        links->writer = effect;
        effect->references++;
        if (*state & EMU_TOUCHED)
            emu_cell_clear(&shadow->arena, &shadow->cells[chunk], shadow->generation);
        *state &= (uint8_t)~EMU_TOUCHED;
    }
    *state |= EMU_HAS_EFFECTS;
}

/* Bounds, opaque objects, and for reads whether there is anything to read. */
static void check_range(const emu_effect *effect, emu_block *block, uint32_t offset, uint32_t bytes) {
    const char *outside = emu_shared_outside(block, offset, bytes), *does = effect->writes ? "writes" : "reads";
    const emu_opaque *opaque = outside ? NULL : emu_shared_opaque_at(block, offset, bytes);
    if (!outside && !opaque)
        return;
    char where[128];
    emu_shared_name(block, offset, where, sizeof where);
    if (outside)
        emu_fault_at(block->launch, &effect->site, "%s %s %u bytes of %s; this %s", effect->what, does, bytes, where,
                     outside);
    emu_fault_at(block->launch, &effect->site, "%s %s %u bytes of %s, where there is an object: %s at 0x%x",
                 effect->what, does, bytes, where, opaque->what, EMU_SHARED_START + opaque->offset);
}

void emu_shared_effect(const emu_view *view, emu_effect *effect, emu_block *block, uint32_t offset, uint32_t bytes,
                       bool generic_proxy) {
    struct emu_shadow *shadow = block->shadow;
    if (bytes == 0)
        return;
    effect->generic_proxy = generic_proxy;
    check_range(effect, block, offset, bytes);
    for (uint32_t chunk = offset / EMU_CHUNK; chunk <= (offset + bytes - 1) / EMU_CHUNK; chunk++)
        effect_on_chunk(view, effect, block, chunk);
    if (!effect->writes) {
        if (!effect->poison_allowed && !emu_bits_all(shadow->written, offset, bytes)) {
            uint32_t first = offset;
            while (emu_bits_all(shadow->written, first, 1))
                first++;
            char where[128];
            emu_shared_name(block, first, where, sizeof where);
            emu_fault_at(block->launch, &effect->site, "%s reads %u bytes from 0x%x on; %s has never been written",
                         effect->what, bytes, EMU_SHARED_START + offset, where);
        }
        return;
    }
    emu_bits_set(shadow->written, offset, bytes, false);
    emu_poison(block->shared + offset, bytes);
}
