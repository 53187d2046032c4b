/* Fibers: makecontext gives each its stack once; from then on _setjmp and _longjmp switch, which take no system call.
 */
#undef _FORTIFY_SOURCE /* its longjmp refuses to go to another stack */
#define _FORTIFY_SOURCE 0
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "core.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

struct emu_fiber {
    jmp_buf context;
    emu_fibers *owner;
    void (*work)(void *argument);
    void *argument;
    unsigned char *stack;
    bool busy;
};

struct emu_fibers {
    emu_fibers *next; /* while kept */
    jmp_buf resumer;  /* of the OS thread's own stack */
    uint32_t count;
    unsigned char *stacks;
    size_t stacks_bytes, stride;
    const void *resumer_stack; /* for the address sanitizer */
    size_t resumer_bytes;
    ucontext_t start, back;
    emu_fiber fibers[];
};

/* The address sanitizer keeps one range per OS thread that it takes for the stack. */
static void leave(void **keep, const void *stack, size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(keep, stack, bytes);
#else
    (void)keep, (void)stack, (void)bytes;
#endif
}

static void arrived(void *keep, const void **stack, size_t *bytes) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(keep, stack, bytes);
#else
    (void)keep, (void)stack, (void)bytes;
#endif
}

static void to_resumer(emu_fibers *fibers, emu_fiber *fiber) {
    void *keep = NULL;
    if (_setjmp(fiber->context) == 0) {
        leave(&keep, fibers->resumer_stack, fibers->resumer_bytes);
        _longjmp(fibers->resumer, 1);
    }
    arrived(keep, &fibers->resumer_stack, &fibers->resumer_bytes);
}

/* makecontext passes ints only. */
static void body(unsigned high, unsigned low) {
    emu_fiber *fiber = (void *)((uintptr_t)high << 32 | low);
    emu_fibers *fibers = fiber->owner;
    void *keep = NULL;
    arrived(NULL, &fibers->resumer_stack, &fibers->resumer_bytes);
    if (_setjmp(fiber->context) == 0) {
        leave(&keep, fibers->resumer_stack, fibers->resumer_bytes);
        swapcontext(&fibers->start, &fibers->back);
    }
    arrived(keep, &fibers->resumer_stack, &fibers->resumer_bytes);
    for (;;) {
        fiber->work(fiber->argument);
        fiber->busy = false;
        to_resumer(fibers, fiber);
    }
}

static bool fiber_make(emu_fibers *fibers, uint32_t number) {
    emu_fiber *fiber = &fibers->fibers[number];
    size_t page = fibers->stride - EMU_STACK_BYTES;
    unsigned char *first = fibers->stacks + number * fibers->stride;
    *fiber = (emu_fiber){.owner = fibers, .stack = first + page};
    if (mprotect(first, page, PROT_NONE) != 0 || getcontext(&fibers->start) != 0)
        return false;
    fibers->start.uc_stack.ss_sp = fiber->stack;
    fibers->start.uc_stack.ss_size = EMU_STACK_BYTES;
    fibers->start.uc_link = NULL;
    makecontext(&fibers->start, (void (*)(void))body, 2, (unsigned)((uintptr_t)fiber >> 32),
                (unsigned)(uintptr_t)fiber);
    void *keep = NULL;
    leave(&keep, fiber->stack, EMU_STACK_BYTES);
    bool done = swapcontext(&fibers->back, &fibers->start) == 0;
    arrived(keep, NULL, NULL);
    return done;
}

/* Idle sets, kept from launch to launch: making one takes thousands of system calls. Launches come one at a time. */
enum { MOST_KEPT = 24 };
static emu_fibers *kept;
static uint32_t kept_count;

static emu_fibers *take_kept(uint32_t count) {
    for (emu_fibers **link = &kept; *link; link = &(*link)->next) {
        emu_fibers *fibers = *link;
        if (fibers->count != count)
            continue;
        *link = fibers->next;
        kept_count--;
        return fibers;
    }
    return NULL;
}

static bool idle(const emu_fibers *fibers) {
    for (uint32_t i = 0; i < fibers->count; i++)
        if (fibers->fibers[i].busy || !fibers->fibers[i].owner)
            return false;
    return true;
}

emu_fibers *emu_fibers_new(uint32_t count) {
    emu_fibers *again = take_kept(count);
    if (again)
        return again;
    emu_fibers *fibers = calloc(1, sizeof *fibers + count * sizeof fibers->fibers[0]);
    if (!fibers)
        return NULL;
    fibers->count = count;
    fibers->stride = EMU_STACK_BYTES + (size_t)sysconf(_SC_PAGESIZE);
    fibers->stacks_bytes = count * fibers->stride;
    fibers->stacks = mmap(NULL, fibers->stacks_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (fibers->stacks == MAP_FAILED) {
        free(fibers);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!fiber_make(fibers, i)) {
            emu_fibers_free(fibers);
            return NULL;
        }
    }
    return fibers;
}

void emu_fibers_free(emu_fibers *fibers) {
    if (!fibers)
        return;
    if (kept_count < MOST_KEPT && idle(fibers)) {
        fibers->next = kept;
        kept = fibers;
        kept_count++;
        return;
    }
    munmap(fibers->stacks, fibers->stacks_bytes);
    free(fibers);
}

emu_fiber *emu_fiber_at(emu_fibers *fibers, uint32_t number, unsigned char **stack) {
    *stack = fibers->fibers[number].stack;
    return &fibers->fibers[number];
}

void emu_fiber_resume(emu_fibers *fibers, emu_fiber *fiber, void (*work)(void *argument), void *argument) {
    if (!fiber->busy) {
        fiber->busy = true;
        fiber->work = work;
        fiber->argument = argument;
    }
    void *keep = NULL;
    if (_setjmp(fibers->resumer) == 0) {
        leave(&keep, fiber->stack, EMU_STACK_BYTES);
        _longjmp(fiber->context, 1);
    }
    arrived(keep, NULL, NULL);
}

void emu_fiber_pause(emu_fibers *fibers, emu_fiber *fiber) {
    to_resumer(fibers, fiber);
}
