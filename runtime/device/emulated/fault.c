/* Reports: where something happened, in the kernel's own lines, and what every thread of a deadlock waits for. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

emu_site emu_site_of(const emu_thread *thread, uintptr_t origin) {
    emu_site site = {.origin = origin};
    memcpy(site.block, thread->block->index, sizeof site.block);
    memcpy(site.thread, thread->index, sizeof site.thread);
    return site;
}

/* ---- lines ---- */

/* One frame of addr2line's answer: a function's line and a place's line. Frames come innermost first. */
typedef struct frame {
    char function[128], place[256];
} frame;

static bool read_line(FILE *file, char *text, size_t capacity) {
    if (!fgets(text, (int)capacity, file))
        return false;
    size_t length = strcspn(text, "\n");
    if (text[length] == 0) /* longer than wanted: the rest is not needed */
        for (int c = fgetc(file); c != EOF && c != '\n';)
            c = fgetc(file);
    text[length] = 0;
    char *discriminator = strstr(text, " (discriminator");
    if (discriminator)
        *discriminator = 0;
    return true;
}

enum { FRAMES = 16 };

/* The call before the return address `origin`, with what it was inlined into. 0: no line is known. */
static size_t find_frames(const emu_code *code, uintptr_t origin, frame frames[FRAMES]) {
    char command[4608];
    if (!code->path || origin <= code->first || origin > code->end || strchr(code->path, '\''))
        return 0;
    int length = snprintf(command, sizeof command, "addr2line -f -i -s -C -e '%s' 0x%llx 2>/dev/null", code->path,
                          (unsigned long long)(origin - code->first - 1));
    if (length < 0 || (size_t)length >= sizeof command)
        return 0;
    FILE *answer = popen(command, "re");
    if (!answer)
        return 0;
    size_t count = 0;
    while (count < FRAMES && read_line(answer, frames[count].function, sizeof frames[count].function) &&
           read_line(answer, frames[count].place, sizeof frames[count].place))
        count++;
    pclose(answer);
    return count > 0 && frames[0].place[0] != '?' ? count : 0;
}

static bool is_ours(const frame *at) { /* the header texts that stand in for CUDA and PTX */
    return strstr(at->place, ".hpp:") != NULL;
}

/* "wgmma_gemm.cu:212 (mbarrier_wait), called from wgmma_gemm.cu:300" */
static void place_text(const emu_code *code, uintptr_t origin, char *text, size_t capacity) {
    frame frames[FRAMES];
    size_t count = find_frames(code, origin, frames), first = 0;
    while (first < count && is_ours(&frames[first]))
        first++;
    if (first == count) {
        snprintf(text, capacity, "an unknown line");
        return;
    }
    size_t used = (size_t)snprintf(text, capacity, "%s", frames[first].place);
    if (first > 0 && used < capacity) {
        frames[first - 1].function[strcspn(frames[first - 1].function, "<(")] = 0;
        used += (size_t)snprintf(text + used, capacity - used, " (%s)", frames[first - 1].function);
    }
    for (size_t i = first + 1; i < count && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, ", called from %s", frames[i].place);
}

void emu_site_text(const emu_launch *launch, const emu_site *site, char *text, size_t capacity) {
    char place[768] = "the end of the kernel";
    if (site->origin)
        place_text(launch->code, site->origin, place, sizeof place);
    snprintf(text, capacity, "%s, block (%u,%u,%u), thread (%u,%u,%u)", place, site->block[0], site->block[1],
             site->block[2], site->thread[0], site->thread[1], site->thread[2]);
}

const char *emu_place(const emu_launch *launch, const emu_site *site) {
    static char texts[4][1024];
    static unsigned turn;
    char *text = texts[turn++ % 4];
    emu_site_text(launch, site, text, sizeof texts[0]);
    return text;
}

/* ---- faults ---- */

static void report(emu_launch *launch, const emu_site *site, const char *format, va_list arguments) {
    if (launch->fault[0])
        return; /* the first one counts */
    size_t used = (size_t)vsnprintf(launch->fault, sizeof launch->fault, format, arguments);
    if (used + 5 >= sizeof launch->fault)
        return;
    used += (size_t)snprintf(launch->fault + used, sizeof launch->fault - used, "; at ");
    emu_site_text(launch, site, launch->fault + used, sizeof launch->fault - used);
}

_Noreturn void emu_fault(emu_thread *thread, uintptr_t origin, const char *format, ...) {
    emu_launch *launch = thread->block->launch;
    emu_site site = emu_site_of(thread, origin);
    va_list arguments;
    va_start(arguments, format);
    report(launch, &site, format, arguments);
    va_end(arguments);
    emu_abandon(launch);
}

_Noreturn void emu_fault_at(emu_launch *launch, const emu_site *site, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    report(launch, site, format, arguments);
    va_end(arguments);
    emu_abandon(launch);
}

/* ---- deadlocks ---- */

/* Threads of one block that wait in one place for one thing. */
typedef struct group {
    const emu_thread *first;
    uint32_t count, last;
    char what[256];
} group;
enum { GROUPS = 12 };

static void describe(const emu_thread *thread, char *text, size_t capacity) {
    snprintf(text, capacity, "something unnamed");
    if (thread->describe)
        thread->describe(thread, thread->wait_object, text, capacity);
}

static size_t add_to_groups(group groups[GROUPS], size_t count, const emu_thread *thread, bool *left_out) {
    char what[sizeof groups[0].what];
    describe(thread, what, sizeof what);
    for (size_t i = 0; i < count; i++) {
        if (groups[i].first->block == thread->block && groups[i].first->wait_origin == thread->wait_origin &&
            strcmp(groups[i].what, what) == 0) {
            groups[i].count++;
            groups[i].last = thread->number;
            return count;
        }
    }
    if (count == GROUPS) {
        *left_out = true;
        return count;
    }
    groups[count] = (group){.first = thread, .count = 1, .last = thread->number};
    memcpy(groups[count].what, what, sizeof what);
    return count + 1;
}

static void append(emu_launch *launch, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(emu_launch *launch, const char *format, ...) {
    size_t used = strlen(launch->fault);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(launch->fault + used, sizeof launch->fault - used, format, arguments);
    va_end(arguments);
}

void emu_deadlock(emu_launch *launch) {
    static group groups[GROUPS];
    size_t count = 0;
    bool left_out = false;
    for (uint32_t i = 0; i < launch->places; i++)
        for (uint32_t rank = 0; launch->resident[i].running && rank < launch->resident[i].size; rank++)
            for (uint32_t t = 0; t < launch->threads; t++)
                if (launch->resident[i].blocks[rank].threads[t].state != EMU_EXITED)
                    count = add_to_groups(groups, count, &launch->resident[i].blocks[rank].threads[t], &left_out);
    append(launch, "deadlock: no thread can go on and no operation is in flight");
    if (launch->next_cluster < launch->clusters)
        append(launch, "; %u of %u blocks have not started, the first of them number %u: only %u are resident at once",
               (launch->clusters - launch->next_cluster) * launch->resident[0].size, launch->blocks,
               launch->next_cluster * launch->resident[0].size, launch->places * launch->resident[0].size);
    for (size_t i = 0; i < count; i++) {
        const emu_thread *first = groups[i].first;
        char place[768] = "an unknown line";
        place_text(launch->code, first->wait_origin, place, sizeof place);
        append(launch, "\n  block (%u,%u,%u): %u thread%s (%u to %u) at %s: waiting for %s", first->block->index[0],
               first->block->index[1], first->block->index[2], groups[i].count, groups[i].count == 1 ? "" : "s",
               first->number, groups[i].last, place, groups[i].what);
    }
    if (left_out)
        append(launch, "\n  and others");
    launch->abandoned = true;
}
