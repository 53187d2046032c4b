/* Kernels that are C functions of a test program, run by the emulator without a compiler: tests of its core. A kernel
 * makes its accesses known with load, store and touch, as the compiler's thread sanitizer would. */
#ifndef C_KERNEL_H
#define C_KERNEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/emulated/emulator.h"

extern const char __executable_start[], end[];

/* ---- a kernel's side ---- */

enum { DYNAMIC = 4096 };
static __thread _Alignas(1024) unsigned char shared[DYNAMIC];

static inline void shared_range(unsigned char **first, size_t *bytes, unsigned char **dynamic, size_t *dynamic_bytes) {
    *first = *dynamic = shared;
    *bytes = *dynamic_bytes = sizeof shared;
}

#define KERNEL __attribute__((noinline))
#define INLINED static inline __attribute__((always_inline))

static KERNEL void hook(uintptr_t address, uint32_t bytes, bool write) {
    union {
        uintptr_t number;
        void *any;
    } place = {.number = address};
    emu_api_access(place.any, bytes, write, __builtin_return_address(0));
}

/* As the compiler's thread sanitizer does it. The empty statement keeps the call from becoming a jump, which would have
 * the caller's return address. */
INLINED void touch(const void *address, uint32_t bytes, bool write) {
    hook((uintptr_t)address, bytes, write);
    __asm__ volatile("");
}
INLINED uint32_t load(const uint32_t *address) {
    touch(address, sizeof *address, false);
    return *address;
}
INLINED void store(uint32_t *address, uint32_t value) {
    touch(address, sizeof *address, true);
    *address = value;
}

static inline uint32_t thread_index(void) {
    return emu_api_builtin(EMU_THREAD_INDEX);
}
static inline uint32_t block_index(void) {
    return emu_api_builtin(EMU_BLOCK_INDEX);
}
/* Of shared memory. The compiler must not keep the address from thread to thread, so it is asked for. */
static inline uint32_t *words(void) {
    return (uint32_t *)(void *)emu_self()->block->shared;
}
static inline uint32_t *argument(void **arguments) {
    return *(uint32_t **)arguments[0];
}

/* ---- the host's side ---- */

typedef struct setting {
    uint32_t blocks, threads, cluster, seed;
    bool programmatic;
} setting;

static char fault[2048], program[4096];

static inline bool launch(void (*entry)(void **arguments), uint32_t *memory, setting how) {
    const emu_code code = {.entry = entry,
                           .shared_range = shared_range,
                           .path = program,
                           .first = (uintptr_t)__executable_start,
                           .end = (uintptr_t)end};
    const emu_dims dims = {.grid = {how.blocks ? how.blocks : 1, 1, 1},
                           .block = {how.threads ? how.threads : 1, 1, 1},
                           .cluster = {how.cluster ? how.cluster : 1, 1, 1},
                           .shared_bytes = 2048,
                           .programmatic = how.programmatic};
    const emu_options options = {.seed = how.seed, .timing = EMU_LATE, .units = 4};
    void *arguments[] = {&memory};
    return emu_launch_run(&code, &dims, &options, arguments, fault, sizeof fault);
}

static inline void passes(void (*entry)(void **arguments), uint32_t *memory, setting how) {
    if (!launch(entry, memory, how))
        fail_msg("a correct kernel has failed: %s", fault);
}

/* Three parts of the report, "" for none. */
static inline void faults(void (*entry)(void **arguments), uint32_t *memory, setting how, const char *a, const char *b,
                          const char *c) {
    if (launch(entry, memory, how))
        fail_msg("no fault has been found; \"%s\" was expected", a);
    const char *parts[] = {a, b, c, "test_emulated_", "thread ("};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!strstr(fault, parts[i]))
            fail_msg("\"%s\" is not in the report: %s", parts[i], fault);
}

static inline uint32_t *fresh(size_t bytes, bool written) {
    uint32_t *memory = emu_global_allocate(bytes);
    assert_non_null(memory);
    if (written) {
        memset(memory, 0, bytes);
        emu_global_host_wrote(memory, bytes);
    }
    return memory;
}

/* For main. */
static inline bool find_program(void) {
    return readlink("/proc/self/exe", program, sizeof program - 1) > 0;
}

#endif
