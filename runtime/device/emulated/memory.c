/* Global memory of the emulated device: allocations in an address range of their own, each followed by memory that
 * nobody may touch; what every byte of them is known about. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core.h"
#include "shadow.h"

/* Allocations start at multiples of a granule. An address is not given again before the range has been gone through, so
 * that the use of freed memory is told. */
#define RANGE_BYTES ((size_t)1 << 37)
enum { GRANULE = 1 << 16, RED_ZONE = 4096, SYSTEM_PAGE = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below, but for look-ups while a kernel runs */
static uintptr_t range;                                  /* 0: not reserved yet */
static emu_allocation **at_granule;                      /* of every granule; NULL: never used */
static emu_allocation *all;
static size_t next_granule;
static uint32_t chain;        /* the oldest launch that a programmatic one may overlap */
static bool settled = true;   /* the host has waited for all launches so far */
static emu_arena arena;       /* children of cells of all allocations; of one launch */
static emu_page **with_spans; /* pages whose spans the launch's end drops */
static size_t span_pages, span_pages_capacity;

emu_arena *emu_memory_arena(void) {
    return &arena;
}

uint32_t emu_memory_chain(void) {
    return chain;
}

bool emu_memory_is_global(uintptr_t address) {
    return range && address - range < RANGE_BYTES;
}

emu_allocation *emu_allocation_of(uintptr_t address) {
    if (!range || address - range >= RANGE_BYTES)
        return NULL;
    emu_allocation *allocation = at_granule[(address - range) / GRANULE];
    return allocation && !allocation->freed && address - allocation->start < allocation->bytes ? allocation : NULL;
}

/* ---- allocating ---- */

static bool reserve(void) {
    if (range)
        return true;
    void *memory = mmap(NULL, RANGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *table = mmap(NULL, RANGE_BYTES / GRANULE * sizeof(emu_allocation *), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || table == MAP_FAILED) {
        if (memory != MAP_FAILED)
            munmap(memory, RANGE_BYTES);
        if (table != MAP_FAILED)
            munmap(table, RANGE_BYTES / GRANULE * sizeof(emu_allocation *));
        return false;
    }
    at_granule = table;
    range = (uintptr_t)memory;
    return true;
}

/* The first of `count` granules in a row that nobody has; freed ones count as free. SIZE_MAX: no room. */
static size_t find_granules(size_t count) {
    size_t total = RANGE_BYTES / GRANULE, run = 0, at = next_granule;
    for (size_t looked = 0; looked < total + count; looked++, at++) {
        if (at == total) {
            at = 0;
            run = 0;
        }
        run = at_granule[at] && !at_granule[at]->freed ? 0 : run + 1;
        if (run == count)
            return at + 1 - count;
    }
    return SIZE_MAX;
}

/* Forgets freed allocations whose addresses are taken again. */
static void forget(size_t first, size_t count) {
    for (emu_allocation **link = &all; *link;) {
        emu_allocation *old = *link;
        size_t from = (old->start - range) / GRANULE, to = from + (old->bytes + RED_ZONE + GRANULE - 1) / GRANULE;
        if (from >= first + count || to <= first) {
            link = &old->next;
            continue;
        }
        *link = old->next;
        for (size_t i = from; i < to; i++)
            at_granule[i] = NULL;
        free(old);
    }
}

/* Bits, cells and pages of the allocation, in memory that costs nothing until it is touched. */
static bool make_shadow(emu_allocation *allocation) {
    size_t chunks = allocation->bytes / EMU_CHUNK + 1, pages = allocation->bytes / EMU_PAGE + 1;
    size_t cells = chunks * sizeof(emu_cell), written = allocation->bytes / 8 + EMU_BITS_PAD;
    size_t pages_bytes = pages * sizeof(emu_page);
    allocation->mapped = cells + pages_bytes + written;
    unsigned char *memory =
        mmap(NULL, allocation->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    allocation->cells = (emu_cell *)(void *)memory;
    allocation->pages = (emu_page *)(void *)(memory + cells);
    allocation->written = memory + cells + pages_bytes;
    return true;
}

static void *allocate(size_t bytes) {
    size_t count = (bytes + RED_ZONE + GRANULE - 1) / GRANULE;
    if (bytes > RANGE_BYTES / 2 || !reserve())
        return NULL;
    size_t first = find_granules(count);
    emu_allocation *allocation = first == SIZE_MAX ? NULL : calloc(1, sizeof *allocation);
    if (!allocation)
        return NULL;
    forget(first, count);
    allocation->start = range + first * GRANULE;
    allocation->bytes = bytes;
    size_t usable = (bytes + SYSTEM_PAGE - 1) / SYSTEM_PAGE * SYSTEM_PAGE;
    void *memory = (unsigned char *)range + first * GRANULE;
    if (!make_shadow(allocation) || mprotect(memory, usable, PROT_READ | PROT_WRITE) != 0) {
        if (allocation->cells)
            munmap(allocation->cells, allocation->mapped);
        free(allocation);
        return NULL;
    }
    emu_poison(memory, usable);
    for (size_t i = 0; i < count; i++)
        at_granule[first + i] = allocation;
    allocation->next = all;
    all = allocation;
    next_granule = (first + count) % (RANGE_BYTES / GRANULE);
    return memory;
}

void *emu_global_allocate(size_t bytes) {
    pthread_mutex_lock(&lock);
    void *memory = allocate(bytes);
    pthread_mutex_unlock(&lock);
    return memory;
}

bool emu_global_free(void *memory) {
    pthread_mutex_lock(&lock);
    emu_allocation *allocation = emu_allocation_of((uintptr_t)memory);
    bool there = allocation && allocation->start == (uintptr_t)memory;
    if (there) {
        size_t usable = (allocation->bytes + SYSTEM_PAGE - 1) / SYSTEM_PAGE * SYSTEM_PAGE;
        /* fresh memory that nobody may touch in the place of the old */
        void *fresh = mmap(memory, usable, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        munmap(allocation->cells, allocation->mapped);
        allocation->freed = true;
        there = fresh != MAP_FAILED;
    }
    pthread_mutex_unlock(&lock);
    return there;
}

/* ---- the host ---- */

bool emu_global_contains(const void *memory, size_t bytes) {
    pthread_mutex_lock(&lock);
    const emu_allocation *allocation = emu_allocation_of((uintptr_t)memory);
    bool inside = allocation && bytes <= allocation->bytes - ((uintptr_t)memory - allocation->start);
    pthread_mutex_unlock(&lock);
    return inside;
}

void emu_global_host_wrote(void *memory, size_t bytes) {
    pthread_mutex_lock(&lock);
    emu_allocation *allocation = emu_allocation_of((uintptr_t)memory);
    if (allocation && bytes <= allocation->bytes - ((uintptr_t)memory - allocation->start))
        emu_bits_set(allocation->written, (uintptr_t)memory - allocation->start, bytes, true);
    settled = true;
    pthread_mutex_unlock(&lock);
}

void emu_global_settle(void) {
    pthread_mutex_lock(&lock);
    settled = true;
    pthread_mutex_unlock(&lock);
}

/* ---- launches ---- */

void emu_memory_begin(emu_launch *launch) {
    pthread_mutex_lock(&lock);
    if (!launch->dims.programmatic || settled)
        chain = launch->number;
    settled = false;
    pthread_mutex_unlock(&lock);
    emu_arena_reset(&arena);
    arena.random = (uint32_t)(launch->options.seed * 2654435761u);
    emu_trace_begin();
}

void emu_memory_has_spans(emu_page *page) {
    if (span_pages == span_pages_capacity) {
        size_t capacity = span_pages_capacity ? span_pages_capacity * 2 : 64;
        emu_page **grown = realloc(with_spans, capacity * sizeof(emu_page *));
        if (!grown)
            emu_out_of_memory();
        with_spans = grown;
        span_pages_capacity = capacity;
    }
    with_spans[span_pages++] = page;
}

void emu_memory_end(emu_launch *launch) {
    (void)launch;
    for (size_t i = 0; i < span_pages; i++) {
        emu_page *page = with_spans[i];
        for (uint32_t k = 0; k < page->span_count; k++)
            emu_effect_drop(page->spans[k].effect);
        free(page->spans);
        page->spans = NULL;
        page->span_count = page->span_capacity = 0;
    }
    free(with_spans);
    with_spans = NULL;
    span_pages = span_pages_capacity = 0;
    emu_arena_free(&arena);
    emu_flags_forget();
    emu_shared_forget();
    emu_trace_end();
}

/* ---- messages ---- */

static void describe_nearest(const emu_allocation *nearest, uintptr_t address, size_t bytes, char *text,
                             size_t capacity) {
    uintptr_t end = nearest->start + nearest->bytes;
    size_t used = (size_t)snprintf(text, capacity, "the nearest, of %zu bytes at 0x%llx, ", nearest->bytes,
                                   (unsigned long long)nearest->start);
    if (used >= capacity)
        return;
    text += used;
    capacity -= used;
    if (address < nearest->start)
        snprintf(text, capacity, "starts %llu bytes behind it", (unsigned long long)(nearest->start - address));
    else if (address < end)
        snprintf(text, capacity, "ends %llu bytes before the end of this access",
                 (unsigned long long)(address + bytes - end));
    else
        snprintf(text, capacity, "ends %llu bytes before it", (unsigned long long)(address - end));
}

void emu_allocation_nearest(uintptr_t address, size_t bytes, char *text, size_t capacity) {
    pthread_mutex_lock(&lock);
    const emu_allocation *nearest = NULL;
    uintptr_t distance = UINTPTR_MAX;
    for (const emu_allocation *at = all; at; at = at->next) {
        uintptr_t end = at->start + at->bytes;
        uintptr_t d = address < at->start ? at->start - address : address >= end ? address - end : 0;
        if (at->freed && d == 0) {
            nearest = at;
            break;
        }
        if (!at->freed && d < distance) {
            distance = d;
            nearest = at;
        }
    }
    if (!nearest)
        snprintf(text, capacity, "there is none");
    else if (nearest->freed)
        snprintf(text, capacity, "it was byte %llu of one of %zu bytes that has been freed",
                 (unsigned long long)(address - nearest->start), nearest->bytes);
    else
        describe_nearest(nearest, address, bytes, text, capacity);
    pthread_mutex_unlock(&lock);
}
