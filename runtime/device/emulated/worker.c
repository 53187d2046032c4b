/* A block's OS thread and the scheduler of its fibers. */
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "worker.h"

struct emu_worker {
    pthread_t thread;
    sem_t go, done; /* the baton */
    bool quit, started;
    emu_launch *launch;
    emu_block *block;
    emu_fibers *fibers;
    unsigned char *shared, *dynamic; /* this OS thread's copy of the module's thread_local memory */
    size_t shared_bytes, dynamic_bytes;
    uint32_t *ready; /* numbers of threads that can run, oldest first */
    uint32_t ready_count;
    uint32_t *polling; /* numbers of those that yielded */
    uint32_t polling_count;
};

static __thread emu_thread *self;

emu_thread *emu_self(void) {
    return self;
}

/* ---- a thread's life ---- */

#define EXIT_PART(name) emu_##name##_exit(thread, 0);

static void thread_work(void *argument) {
    emu_thread *thread = argument;
    emu_launch *launch = thread->block->launch;
    launch->code->entry(launch->arguments);
    EMU_BLOCK_PARTS(EXIT_PART)
    thread->state = EMU_EXITED;
    thread->block->live--;
    launch->activity++;
}

static void pause_fiber(emu_thread *thread) {
    emu_fiber_pause(thread->block->worker->fibers, thread->fiber);
}

_Noreturn void emu_worker_leave(emu_thread *thread) {
    for (;;) /* the launch is over: nobody resumes this fiber */
        pause_fiber(thread);
}

static void make_ready(emu_thread *thread) {
    emu_worker *worker = thread->block->worker;
    thread->state = EMU_RUNNABLE;
    worker->ready[worker->ready_count++] = thread->number;
}

void emu_wake(emu_thread *thread) {
    if (thread->state != EMU_WAITING)
        return;
    make_ready(thread);
    thread->block->launch->activity++;
}

static void wait_here(emu_thread *thread, bool (*ready)(emu_thread *thread, void *object), void *object,
                      void (*describe)(const emu_thread *thread, void *object, char *text, size_t capacity),
                      uintptr_t origin) {
    thread->wait_origin = origin;
    thread->ready = ready;
    thread->wait_object = object;
    thread->describe = describe;
    thread->state = EMU_WAITING;
    pause_fiber(thread);
    thread->describe = NULL;
    thread->ready = NULL;
}

void emu_sleep(emu_thread *thread, void *object,
               void (*describe)(const emu_thread *thread, void *object, char *text, size_t capacity),
               uintptr_t origin) {
    wait_here(thread, NULL, object, describe, origin);
}

void emu_wait(emu_thread *thread, bool (*ready)(emu_thread *thread, void *object), void *object,
              void (*describe)(const emu_thread *thread, void *object, char *text, size_t capacity), uintptr_t origin) {
    while (!ready(thread, object))
        wait_here(thread, ready, object, describe, origin);
}

static void describe_polling(const emu_thread *thread, void *what, char *text, size_t capacity) {
    (void)thread;
    size_t length = strnlen(what, capacity - 1);
    memcpy(text, what, length);
    text[length] = 0;
}

void emu_yield(emu_thread *thread, const char *what, uintptr_t origin) {
    emu_worker *worker = thread->block->worker;
    union {
        const char *constant;
        void *object;
    } name = {.constant = what};
    thread->wait_origin = origin;
    thread->describe = describe_polling;
    thread->wait_object = name.object;
    worker->polling[worker->polling_count++] = thread->number;
    pause_fiber(thread);
    thread->describe = NULL;
}

/* ---- the scheduler, in the worker's OS thread ---- */

static void poll_waiting(emu_block *block) {
    for (uint32_t i = 0; i < block->launch->threads; i++) {
        emu_thread *thread = &block->threads[i];
        if (thread->state == EMU_WAITING && thread->ready && thread->ready(thread, thread->wait_object)) {
            make_ready(thread);
            block->launch->activity++;
        }
    }
}

bool emu_worker_can_run(emu_block *block) {
    emu_worker *worker = block->worker;
    if (block->live == 0)
        return false;
    if (worker->ready_count == 0)
        poll_waiting(block);
    return worker->ready_count + worker->polling_count > 0;
}

bool emu_worker_polls(const emu_block *block) {
    return block->live > 0 && block->worker->polling_count > 0;
}

static uint32_t take(uint32_t *list, uint32_t *count, uint32_t at) {
    uint32_t number = list[at];
    memmove(list + at, list + at + 1, (--*count - at) * sizeof *list);
    return number;
}

static void run_block(emu_worker *worker) {
    emu_block *block = worker->block;
    emu_launch *launch = block->launch;
    /* who polled last time looks again, once */
    for (uint32_t i = 0; i < worker->polling_count; i++)
        worker->ready[worker->ready_count++] = worker->polling[i];
    worker->polling_count = 0;
    while (!launch->abandoned) {
        if (worker->ready_count == 0)
            poll_waiting(block);
        if (worker->ready_count == 0)
            return;
        /* The number stays listed until the thread has run: a batch is taken from the front. */
        uint32_t number = take(worker->ready, &worker->ready_count, emu_draw(launch, worker->ready_count));
        self = &block->threads[number];
        emu_fiber_resume(worker->fibers, self->fiber, thread_work, self);
        self = NULL;
    }
}

static void *worker_main(void *argument) {
    emu_worker *worker = argument;
    worker->fibers = emu_fibers_new(worker->launch->threads);
    worker->launch->code->shared_range(&worker->shared, &worker->shared_bytes, &worker->dynamic,
                                       &worker->dynamic_bytes);
    sem_post(&worker->done);
    for (;;) {
        while (sem_wait(&worker->go) != 0)
            continue;
        if (worker->quit)
            break;
        run_block(worker);
        sem_post(&worker->done);
    }
    emu_fibers_free(worker->fibers);
    return NULL;
}

void emu_worker_run(emu_worker *worker) {
    sem_post(&worker->go);
    while (sem_wait(&worker->done) != 0)
        continue;
}

emu_worker *emu_worker_new(emu_launch *launch) {
    emu_worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return NULL;
    worker->launch = launch;
    worker->ready = calloc(launch->threads * 2, sizeof *worker->ready);
    worker->polling = calloc(launch->threads, sizeof *worker->polling);
    if (worker->ready && worker->polling && sem_init(&worker->go, 0, 0) == 0 && sem_init(&worker->done, 0, 0) == 0 &&
        pthread_create(&worker->thread, NULL, worker_main, worker) == 0) {
        worker->started = true;
        while (sem_wait(&worker->done) != 0)
            continue;
        if (worker->fibers)
            return worker;
    }
    emu_worker_free(worker);
    return NULL;
}

void emu_worker_free(emu_worker *worker) {
    if (!worker)
        return;
    if (worker->started) {
        worker->quit = true;
        sem_post(&worker->go);
        pthread_join(worker->thread, NULL);
    }
    free(worker->ready);
    free(worker->polling);
    free(worker);
}

void emu_worker_prepare(emu_worker *worker, emu_block *block) {
    worker->block = block;
    block->shared = worker->shared;
    block->shared_bytes = (uint32_t)worker->shared_bytes;
    block->dynamic_start = (uint32_t)(worker->dynamic - worker->shared);
    static const uint32_t poison = EMU_POISON;
    for (size_t i = 0; i + sizeof poison <= worker->shared_bytes; i += sizeof poison)
        memcpy(worker->shared + i, &poison, sizeof poison);
    worker->ready_count = worker->polling_count = 0;
    for (uint32_t i = 0; i < block->launch->threads; i++) {
        emu_thread *thread = &block->threads[i];
        thread->fiber = emu_fiber_at(worker->fibers, i, &thread->stack);
        worker->ready[worker->ready_count++] = i;
    }
}
