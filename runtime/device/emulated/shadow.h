/* What is remembered about memory: who wrote and read it last, what has been written at all. Private to memory.c,
 * global.c, shared.c, effects.c, shadow.c, flags.c, access.c and trace.c.
 *
 * A cell covers 16 bytes; when a part of it is accessed alone it is split into four cells of a word, and such a one
 * into four of a byte. A whole-cell write joins it again. Every cell remembers up to three accesses: the last write,
 * and two more that a later write has to come after. Accesses of an earlier launch (or of the block that had the shared
 * memory before) are told by their generation and count as absent, so nothing has to be cleared. */
#ifndef EMULATED_SHADOW_H
#define EMULATED_SHADOW_H

#include <string.h>

#include "emulator.h"

enum { EMU_WRITE = 1, EMU_ATOMIC = 2, EMU_RECORDS = 3 };

typedef struct emu_record {
    uint32_t generation; /* of the cluster; 0: no access */
    uint32_t clock;
    uint32_t origin; /* lower half of the address in the kernel's code */
    uint16_t slot;
    uint8_t kind;  /* EMU_WRITE | EMU_ATOMIC */
    uint8_t split; /* in the first record: children are valid, the other records are not */
} emu_record;

typedef struct emu_cell {
    emu_record last; /* the last write, if any */
    union {
        emu_record others[EMU_RECORDS - 1];
        struct emu_cell *children; /* four */
    };
} emu_cell;

/* Where children come from; all are given back at once. {0} is empty. */
typedef struct emu_arena {
    emu_cell **slabs;
    size_t count, capacity, used; /* slabs, and groups of four taken from all of them */
    emu_cell *free;               /* linked through .children */
    uint32_t random;              /* for which record gives way */
} emu_arena;

void emu_arena_reset(emu_arena *arena); /* all children are invalid */
void emu_arena_free(emu_arena *arena);

/* Who accesses memory. base: older generations are no longer there. */
typedef struct emu_actor {
    const emu_view *view;
    uint32_t base, generation, clock, origin;
    uint16_t slot;
    uint8_t kind;
} emu_actor;

emu_actor emu_actor_of(const emu_thread *thread, uint32_t base, int kind, uintptr_t origin);

/* An access of `count` bytes from byte `first` of the cell on. False: the one in *other conflicts with it, and nothing
 * orders the two. */
bool emu_cell_access(emu_arena *arena, emu_cell *cell, uint32_t first, uint32_t count, const emu_actor *actor,
                     emu_record *other);

enum emu_known { EMU_KNOWN, EMU_UNKNOWN, EMU_UNFENCED };
/* Are the accesses that conflict with an asynchronous one (their writes only, if it reads) known to view, and fenced
 * where `fenced`? generation: of the issuer. *other is the one that is not. */
enum emu_known emu_cell_known(const emu_cell *cell, const emu_view *view, uint32_t base, uint32_t generation,
                              bool writes, bool fenced, emu_record *other);
/* All accesses are ordered before what follows: they are forgotten. */
void emu_cell_clear(emu_arena *arena, emu_cell *cell, uint32_t base);

static inline bool emu_view_has(const emu_view *view, uint32_t own, uint32_t generation, uint32_t slot, uint32_t clock,
                                bool fenced) {
    const emu_clocks *clocks = fenced ? view->fenced : view->known;
    if (generation == own)
        return clocks && slot < clocks->count && clocks->at[slot] >= clock;
    return view->foreign && emu_view_knows_far(view, generation, slot, clock, fenced);
}

/* ---- bits, one a byte of memory: has it been written? ---- */

enum { EMU_BITS_PAD = 8 }; /* bytes to allocate behind an array of bits */

bool emu_bits_all_long(const uint8_t *bits, size_t first, size_t count);
void emu_bits_set_long(uint8_t *bits, size_t first, size_t count, bool value);

/* Are bits first..first+count-1 all set? */
static inline bool emu_bits_all(const uint8_t *bits, size_t first, size_t count) {
    if (count > EMU_CHUNK)
        return emu_bits_all_long(bits, first, count);
    uint32_t word, mask = (1u << count) - 1;
    memcpy(&word, bits + first / 8, sizeof word);
    return (word >> first % 8 & mask) == mask;
}
static inline void emu_bits_set(uint8_t *bits, size_t first, size_t count, bool value) {
    if (count > EMU_CHUNK || !value) {
        emu_bits_set_long(bits, first, count, value);
        return;
    }
    uint32_t word;
    memcpy(&word, bits + first / 8, sizeof word);
    word |= ((1u << count) - 1) << first % 8;
    memcpy(bits + first / 8, &word, sizeof word);
}

/* ---- shared memory: shared.c, effects.c ---- */

enum { EMU_READERS = 12, EMU_SHARED_WINDOW = 232448 /* of the kernel's headers; most a block can have on sm_90 */ };
enum { EMU_HAS_EFFECTS = 1, EMU_TOUCHED = 2, EMU_OPAQUE_LOW = 4, EMU_OPAQUE_HIGH = 8 };

/* Asynchronous effects on a chunk: the last write, and reads since then. */
typedef struct emu_links {
    emu_effect *writer, *readers[EMU_READERS];
} emu_links;

typedef struct emu_opaque {
    uint32_t offset, bytes;
    const char *what;
} emu_opaque;

struct emu_shadow {
    struct emu_shadow *next; /* of those not in use */
    uint32_t bytes, generation;
    uint8_t *written; /* bits */
    uint8_t *state;   /* of each chunk: EMU_HAS_EFFECTS.. */
    emu_cell *cells;
    emu_links *links;
    emu_arena arena;
    emu_opaque *opaque;
    uint32_t opaque_count, opaque_capacity;
};

/* NULL, or the opaque object in the range. */
const emu_opaque *emu_shared_opaque_at(const emu_block *block, uint32_t offset, uint32_t bytes);
/* NULL: the block has these bytes; else why not, a static buffer. */
const char *emu_shared_outside(const emu_block *block, uint32_t offset, uint32_t bytes);
/* Checks a generic access to one chunk against its asynchronous effects. whole: all of the chunk. */
void emu_links_check(emu_thread *thread, emu_block *block, uint32_t chunk, int kind, bool whole, uint32_t offset,
                     uint32_t bytes, uintptr_t origin);
void emu_links_drop(emu_links *links);
/* Frees what is kept for the next block; at a launch's end. */
void emu_shared_forget(void);

/* Fills with EMU_POISON, whose halves are equal: from an even address on. */
static inline void emu_poison(void *memory, size_t bytes) {
    static const uint16_t half = EMU_POISON & 0xffff;
    for (size_t i = 0; i + sizeof half <= bytes; i += sizeof half)
        memcpy((unsigned char *)memory + i, &half, sizeof half);
}

/* ---- effects.c ---- */

/* Has the effect ended, and does the view know that? */
enum emu_known emu_effect_known(const emu_effect *effect, const emu_view *view, uint32_t generation,
                                const emu_thread *thread, bool fenced);
/* Ends the launch with what is wrong about an access or effect while `earlier` is under way or not known to be over.
 * how: what emu_effect_known said. thread NULL: `at` is the place. */
_Noreturn void emu_effect_fault(emu_launch *launch, emu_thread *thread, const emu_site *at, const char *doing,
                                const char *where, const emu_effect *earlier, enum emu_known how);

/* ---- trace.c: texts of reports ---- */

/* "shared memory at 0x1410 (byte 16 of the dynamic part)" into text. */
void emu_shared_name(const emu_block *block, uint32_t offset, char *text, size_t capacity);
/* "global memory at 0x7f..., byte 64 of an allocation of 4096 bytes" into text. */
void emu_global_name(uintptr_t address, char *text, size_t capacity);
/* Where an access was made. */
emu_site emu_record_site(const emu_launch *launch, const emu_record *record);
/* A block of the launch becomes resident: its number is kept for reports. emu_trace_end frees. */
void emu_trace_block(const emu_block *block);
void emu_trace_begin(void);
void emu_trace_end(void);
uint32_t emu_trace_base(void); /* the generation of the first cluster of this launch, or a smaller one */
/* The fault of a race: thread does what the actor's kind says, `other` did it before. */
_Noreturn void emu_race_fault(emu_thread *thread, const emu_actor *actor, uintptr_t origin, uint32_t bytes,
                              const emu_record *other, const char *where);
/* The fault of an asynchronous operation issued before a generic access is known (EMU_UNKNOWN) or fenced. */
_Noreturn void emu_order_fault(emu_launch *launch, const emu_effect *effect, const emu_record *other, const char *where,
                               enum emu_known how);

/* ---- global memory: memory.c ---- */

enum { EMU_PAGE = 1024, EMU_PAGE_WORDS = EMU_PAGE / 4, EMU_PAGE_CHUNKS = EMU_PAGE / EMU_CHUNK };

/* An asynchronous effect on bytes first..last of a page. */
typedef struct emu_span {
    emu_effect *effect;
    uint16_t first, last;
} emu_span;

/* Which words the last two launches that touched the page wrote and read. */
typedef struct emu_page {
    uint32_t launch, before;                                           /* numbers; before: of the words in old */
    uint64_t now[2][EMU_PAGE_WORDS / 64], old[2][EMU_PAGE_WORDS / 64]; /* [1]: written, [0]: read */
    emu_span *spans;
    uint32_t span_count, span_capacity;
} emu_page;

typedef struct emu_allocation {
    struct emu_allocation *next; /* of all, also freed ones whose addresses have not been used again */
    uintptr_t start;
    size_t bytes;
    bool freed;
    uint8_t *written; /* bits */
    emu_cell *cells;
    emu_page *pages;
    size_t mapped; /* bytes of written, cells and pages together */
} emu_allocation;

/* NULL: none there (also when freed). */
emu_allocation *emu_allocation_of(uintptr_t address);
/* "; the nearest, of 4096 bytes at 0x..., ends 16 bytes before" for a message. */
void emu_allocation_nearest(uintptr_t address, size_t bytes, char *text, size_t capacity);
/* Is it an address that global memory may have? */
bool emu_memory_is_global(uintptr_t address);
emu_arena *emu_memory_arena(void); /* for children of cells of global memory */
/* The allocation that holds all the bytes, or a fault of a generic access of that kind. */
emu_allocation *emu_allocation_find(emu_thread *thread, uintptr_t address, size_t bytes, int kind, uintptr_t origin);
/* Adds spans for the launch's end to drop. */
void emu_memory_has_spans(emu_page *page);
/* The oldest launch that may still run beside this one, before griddepcontrol.wait. */
uint32_t emu_memory_chain(void);

/* What an allocation's page holds becomes that of this launch. */
void emu_page_turn(emu_page *page, const emu_launch *launch);
/* flags.c: frees thread->order; the flags of a launch. */
void emu_order_free(emu_thread *thread);
void emu_flags_forget(void);

/* The block of the thread's cluster in whose shared memory a pointer lies, and where; NULL: none. (access.c) */
emu_block *emu_shared_of(const emu_thread *thread, uintptr_t address, uint32_t *offset);

/* As emu_global_access; kind of enum above. */
void emu_global_touch(emu_thread *thread, uintptr_t address, size_t bytes, int kind, uintptr_t origin);
/* As emu_shared_access. */
void emu_shared_touch(emu_thread *thread, emu_block *block, uint32_t offset, uint32_t bytes, int kind,
                      uintptr_t origin);

#endif
