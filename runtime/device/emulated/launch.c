/* Running a grid: clusters become resident as room allows, each block in an OS thread of its own (worker.c), one of
 * which runs at a time; asynchronous operations run when their time has come; when nothing can go on, it is a deadlock.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core.h"
#include "emulator.h"
#include "worker.h"

enum { IDLE_ROUNDS = 2000 }; /* of polling threads before that is called a deadlock: a back-off may count that far */

static pthread_mutex_t one_launch = PTHREAD_MUTEX_INITIALIZER;
static emu_launch *current;
static uint32_t launches, generations;
static jmp_buf main_context; /* of the launching thread: where faults outside of fibers go */

uint32_t emu_draw(emu_launch *launch, uint32_t below) {
    if (launch->options.seed == 0 || below < 2)
        return 0;
    /* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators" */
    launch->random ^= launch->random >> 12;
    launch->random ^= launch->random << 25;
    launch->random ^= launch->random >> 27;
    return (uint32_t)((launch->random * 0x2545f4914f6cdd1dULL >> 32) % below);
}

_Noreturn void emu_abandon(emu_launch *launch) {
    emu_thread *self = emu_self();
    launch->abandoned = true;
    if (self)
        emu_worker_leave(self); /* does not return */
    _longjmp(main_context, 1);
}

_Noreturn void emu_out_of_memory(void) {
    snprintf(current->fault, sizeof current->fault, "no memory left for the emulation");
    emu_abandon(current);
}

void emu_progress(emu_launch *launch) {
    launch->activity++;
}

/* ---- asynchronous operations ---- */

void *emu_async_new(emu_thread *thread, size_t bytes, const char *what, uintptr_t origin) {
    emu_async *operation = calloc(1, bytes);
    if (!operation)
        emu_out_of_memory();
    operation->block = thread->block;
    operation->what = what;
    operation->site = emu_site_of(thread, origin);
    emu_view_of(thread, &operation->view);
    thread->block->launch->making = operation;
    return operation;
}

static void async_free(emu_async *operation) {
    if (operation->dispose)
        operation->dispose(operation);
    emu_view_clear(&operation->view);
    free(operation);
}

/* Takes it off the list and runs it. A fault in it leaves it to nobody, so it is kept where the launch's end finds it.
 */
static void async_run(emu_launch *launch, emu_async **link) {
    emu_async *operation = *link;
    *link = operation->next;
    if (!*link)
        launch->async_end = link;
    launch->running = operation;
    operation->run(operation);
    launch->running = NULL;
    async_free(operation);
    launch->activity++;
}

/* Is it the first of its queue? */
static bool async_eligible(const emu_launch *launch, const emu_async *operation) {
    for (const emu_async *other = launch->async; operation->queue && other != operation; other = other->next)
        if (other->queue == operation->queue)
            return false;
    return true;
}

void emu_async_post(emu_async *operation) {
    emu_launch *launch = operation->block->launch;
    launch->making = NULL;
    operation->next = NULL;
    *launch->async_end = operation;
    launch->async_end = &operation->next;
    bool now = launch->options.timing == EMU_EARLY || (launch->options.timing == EMU_MIXED && emu_draw(launch, 2));
    if (now && async_eligible(launch, operation)) {
        emu_async **link = &launch->async;
        while (*link != operation)
            link = &(*link)->next;
        async_run(launch, link);
    }
}

void emu_async_flush(emu_launch *launch, const void *queue) {
    emu_async **link = &launch->async;
    while (*link) {
        if ((*link)->queue == queue)
            async_run(launch, link);
        else
            link = &(*link)->next;
    }
}

/* Runs one pending operation, the oldest or a drawn one. */
static bool async_step(emu_launch *launch) {
    uint32_t count = 0;
    for (emu_async *operation = launch->async; operation; operation = operation->next)
        count++;
    if (count == 0)
        return false;
    uint32_t chosen = emu_draw(launch, count);
    emu_async **link = &launch->async;
    for (uint32_t i = 0; i < chosen; i++)
        link = &(*link)->next;
    if (!async_eligible(launch, *link)) { /* then the first of its queue comes before it */
        const void *queue = (*link)->queue;
        for (link = &launch->async; (*link)->queue != queue;)
            link = &(*link)->next;
    }
    async_run(launch, link);
    return true;
}

/* ---- clusters ---- */

static void index_of(uint32_t number, const uint32_t size[3], uint32_t index[3]) {
    index[0] = number % size[0];
    index[1] = number / size[0] % size[1];
    index[2] = number / size[0] / size[1];
}

static void thread_begin(emu_block *block, uint32_t number) {
    emu_thread *thread = &block->threads[number];
    *thread = (emu_thread){.block = block,
                           .number = number,
                           .lane = number % EMU_WARP,
                           .warp = number / EMU_WARP,
                           .clock = 1,
                           .state = EMU_RUNNABLE};
    index_of(number, block->launch->dims.block, thread->index);
    if (number == 0)
        emu_view_init(&thread->view, block->cluster->size * block->cluster->slots_of_block);
    else
        emu_view_copy(&thread->view, &block->threads[0].view);
}

#define BEGIN_PART(name) emu_##name##_begin(block);
#define END_PART(name) emu_##name##_end(block);
#define DISPOSE_PART(name) emu_##name##_dispose(block);

/* The cluster of that number into a free place. */
static void cluster_begin(emu_launch *launch, emu_cluster *cluster, uint32_t number) {
    const emu_dims *dims = &launch->dims;
    uint32_t clusters[3], index[3];
    for (int i = 0; i < 3; i++)
        clusters[i] = dims->grid[i] / dims->cluster[i];
    index_of(number, clusters, index);
    cluster->number = number;
    cluster->generation = ++generations;
    cluster->running = true;
    for (uint32_t rank = 0; rank < cluster->size; rank++) {
        emu_block *block = &cluster->blocks[rank];
        uint32_t within[3];
        index_of(rank, dims->cluster, within);
        emu_worker *worker = block->worker;
        emu_thread *threads = block->threads;
        *block = (emu_block){.launch = launch,
                             .cluster = cluster,
                             .worker = worker,
                             .rank = rank,
                             .threads = threads,
                             .live = launch->threads,
                             .dynamic_bytes = dims->shared_bytes};
        for (int i = 0; i < 3; i++)
            block->index[i] = index[i] * dims->cluster[i] + within[i];
        block->number = block->index[0] + dims->grid[0] * (block->index[1] + dims->grid[1] * block->index[2]);
        for (uint32_t i = 0; i < launch->threads; i++)
            thread_begin(block, i);
        emu_worker_prepare(worker, block);
    }
    for (uint32_t rank = 0; rank < cluster->size; rank++) {
        emu_block *block = &cluster->blocks[rank];
        EMU_BLOCK_PARTS(BEGIN_PART)
    }
    launch->activity++;
}

static void cluster_dispose(emu_cluster *cluster) {
    for (uint32_t rank = 0; cluster->running && rank < cluster->size; rank++) {
        emu_block *block = &cluster->blocks[rank];
        EMU_BLOCK_PARTS(DISPOSE_PART)
        for (uint32_t i = 0; i < block->launch->threads; i++)
            emu_view_clear(&block->threads[i].view);
    }
    cluster->running = false;
}

static bool cluster_over(const emu_cluster *cluster) {
    for (uint32_t rank = 0; rank < cluster->size; rank++)
        if (cluster->blocks[rank].live > 0)
            return false;
    return true;
}

static void cluster_end(emu_cluster *cluster) {
    for (uint32_t rank = 0; rank < cluster->size; rank++) {
        emu_block *block = &cluster->blocks[rank];
        EMU_BLOCK_PARTS(END_PART)
    }
    cluster_dispose(cluster);
    cluster->launch->activity++;
}

/* ---- the launch ---- */

/* One round over the resident blocks. False: a block left with a fault. */
static bool run_blocks(emu_launch *launch) {
    uint32_t blocks = launch->places * launch->dims.cluster[0] * launch->dims.cluster[1] * launch->dims.cluster[2];
    uint32_t size = blocks / launch->places, first = emu_draw(launch, blocks);
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t at = (first + i) % blocks;
        emu_cluster *cluster = &launch->resident[at / size];
        if (!cluster->running || !emu_worker_can_run(&cluster->blocks[at % size]))
            continue;
        emu_worker_run(cluster->blocks[at % size].worker);
        if (launch->abandoned)
            return false;
    }
    return true;
}

static bool fill_places(emu_launch *launch) {
    bool any = false;
    for (uint32_t i = 0; i < launch->places; i++) {
        emu_cluster *cluster = &launch->resident[i];
        if (cluster->running && cluster_over(cluster))
            cluster_end(cluster);
        if (!cluster->running && launch->next_cluster < launch->clusters)
            cluster_begin(launch, cluster, launch->next_cluster++);
        any |= cluster->running;
    }
    return any;
}

static void run_grid(emu_launch *launch) {
    int idle = 0;
    while (fill_places(launch)) {
        uint64_t before = launch->activity;
        if (!run_blocks(launch))
            return;
        if (launch->options.timing == EMU_MIXED && emu_draw(launch, 2))
            async_step(launch);
        if (launch->activity != before) {
            idle = 0;
        } else if (!async_step(launch)) {
            bool polling = false;
            for (uint32_t i = 0; i < launch->places; i++)
                for (uint32_t rank = 0; launch->resident[i].running && rank < launch->resident[i].size; rank++)
                    polling |= emu_worker_polls(&launch->resident[i].blocks[rank]);
            if (!polling || ++idle > IDLE_ROUNDS) {
                emu_deadlock(launch);
                return;
            }
        }
    }
    while (async_step(launch)) /* stores whose source has been read may outlive their block */
        continue;
}

static bool make_places(emu_launch *launch, uint32_t size) {
    launch->resident = calloc(launch->places, sizeof *launch->resident);
    if (!launch->resident)
        return false;
    for (uint32_t i = 0; i < launch->places; i++) {
        emu_cluster *cluster = &launch->resident[i];
        cluster->launch = launch;
        cluster->size = size;
        cluster->slots_of_block = launch->threads + EMU_MBARRIERS + EMU_PRODUCT_QUEUES;
        cluster->blocks = calloc(size, sizeof *cluster->blocks);
        if (!cluster->blocks)
            return false;
        for (uint32_t rank = 0; rank < size; rank++) {
            cluster->blocks[rank].threads = calloc(launch->threads, sizeof(emu_thread));
            cluster->blocks[rank].worker = emu_worker_new(launch);
            if (!cluster->blocks[rank].threads || !cluster->blocks[rank].worker)
                return false;
        }
    }
    return true;
}

static void free_places(emu_launch *launch) {
    for (uint32_t i = 0; launch->resident && i < launch->places; i++) {
        emu_cluster *cluster = &launch->resident[i];
        if (!cluster->blocks)
            continue;
        cluster_dispose(cluster);
        for (uint32_t rank = 0; rank < cluster->size; rank++) {
            emu_worker_free(cluster->blocks[rank].worker);
            free(cluster->blocks[rank].threads);
        }
        free(cluster->blocks);
    }
    free(launch->resident);
    while (launch->async) {
        emu_async *operation = launch->async;
        launch->async = operation->next;
        async_free(operation);
    }
    if (launch->running)
        async_free(launch->running);
    if (launch->making)
        async_free(launch->making);
}

static emu_totals totals;

emu_totals emu_totals_so_far(void) {
    pthread_mutex_lock(&one_launch);
    emu_totals result = totals;
    pthread_mutex_unlock(&one_launch);
    return result;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

bool emu_launch_run(const emu_code *code, const emu_dims *dims, const emu_options *options, void **arguments,
                    char *fault, size_t capacity) {
    uint32_t size = dims->cluster[0] * dims->cluster[1] * dims->cluster[2];
    static emu_launch launch; /* large, and longjmp leaves it alone */
    pthread_mutex_lock(&one_launch);
    double start = seconds();
    memset(&launch, 0, sizeof launch);
    launch = (emu_launch){.code = code,
                          .dims = *dims,
                          .options = *options,
                          .arguments = arguments,
                          .number = ++launches,
                          .threads = dims->block[0] * dims->block[1] * dims->block[2],
                          .blocks = dims->grid[0] * dims->grid[1] * dims->grid[2],
                          .random = options->seed};
    launch.clusters = launch.blocks / size;
    launch.places = options->units / size ? options->units / size : 1;
    if (launch.places > launch.clusters)
        launch.places = launch.clusters;
    launch.async_end = &launch.async;
    current = &launch;
    emu_memory_begin(&launch);
    if (!make_places(&launch, size))
        snprintf(launch.fault, sizeof launch.fault, "no memory left for the emulation of %u blocks of %u threads",
                 launch.places * size, launch.threads);
    else if (_setjmp(main_context) == 0)
        run_grid(&launch);
    free_places(&launch);
    emu_memory_end(&launch);
    emu_clock_forget();
    snprintf(fault, capacity, "%s", launch.fault);
    totals.launches++;
    totals.multiplies += launch.multiplies;
    totals.seconds += seconds() - start;
    bool fine = launch.fault[0] == 0;
    current = NULL;
    pthread_mutex_unlock(&one_launch);
    return fine;
}
