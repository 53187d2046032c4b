#include "host_pool.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { STACK_BYTES = 8 << 20 }; /* tiles as local arrays fit, whatever the process' default is */

typedef struct grid_job {
    host_entry entry;
    void *const *arguments;
    uint32_t x, y;
    uint64_t points, chunk;
    unsigned helpers;      /* workers that join the caller: the first ones */
    _Atomic uint64_t next; /* first point that nobody has taken */
} grid_job;

typedef struct worker {
    host_pool *pool;
    pthread_t thread;
    sem_t start; /* one post: one job, or the end */
} worker;

struct host_pool {
    pid_t process;
    atomic_flag busy; /* who sets it owns job, running and the workers until clearing it */
    bool stop;
    grid_job job;
    atomic_uint running;
    sem_t done; /* posted by the last worker of a job */
    unsigned count;
    worker workers[];
};

static void wait_for(sem_t *semaphore) {
    while (sem_wait(semaphore) != 0 && errno == EINTR)
        continue;
}

static void take_points(grid_job *job) {
    for (;;) {
        uint64_t first = atomic_fetch_add_explicit(&job->next, job->chunk, memory_order_relaxed);
        if (first >= job->points)
            return;
        uint64_t end = first + job->chunk < job->points ? first + job->chunk : job->points;
        for (uint64_t point = first; point < end; point++) {
            uint64_t row = point / job->x;
            job->entry(job->arguments, (unsigned)(point % job->x), (unsigned)(row % job->y), (unsigned)(row / job->y));
        }
    }
}

/* Wakes two workers, who wake two each: waking costs microseconds, and machines have hundreds of processors. */
static void wake_from(host_pool *pool, unsigned first) {
    for (unsigned i = first; i < first + 2 && i < pool->job.helpers; i++)
        sem_post(&pool->workers[i].start);
}

static void *work(void *argument) {
    worker *self = argument;
    host_pool *pool = self->pool;
    unsigned number = (unsigned)(self - pool->workers);
    for (;;) {
        wait_for(&self->start);
        if (pool->stop)
            return NULL;
        wake_from(pool, 2 * number + 2);
        take_points(&pool->job);
        if (atomic_fetch_sub_explicit(&pool->running, 1, memory_order_acq_rel) == 1)
            sem_post(&pool->done);
    }
}

/* Starts one more worker; false when the system refuses. */
static bool add_worker(host_pool *pool, const pthread_attr_t *attributes) {
    worker *added = &pool->workers[pool->count];
    added->pool = pool;
    if (sem_init(&added->start, 0, 0) != 0)
        return false;
    if (pthread_create(&added->thread, attributes, work, added) != 0) {
        sem_destroy(&added->start);
        return false;
    }
    (void)pthread_setname_np(added->thread, "mlpbwd"); /* only for people who look */
    pool->count++;
    return true;
}

host_pool *host_pool_create(int threads) {
    size_t most = threads > 1 ? (size_t)threads - 1 : 0;
    host_pool *pool = calloc(1, sizeof *pool + most * sizeof(worker));
    if (!pool)
        return NULL;
    pool->process = getpid();
    atomic_flag_clear(&pool->busy);
    if (sem_init(&pool->done, 0, 0) != 0) {
        free(pool);
        return NULL;
    }
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return pool;
    /* The application's signal handlers must not find themselves on these threads. */
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 && pthread_sigmask(SIG_SETMASK, &all, &before) == 0) {
        while (pool->count < most && add_worker(pool, &attributes))
            continue;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attributes);
    return pool;
}

void host_pool_destroy(host_pool *pool) {
    if (!pool || pool->process != getpid())
        return;
    pool->stop = true;
    for (unsigned i = 0; i < pool->count; i++)
        sem_post(&pool->workers[i].start);
    for (unsigned i = 0; i < pool->count; i++) {
        pthread_join(pool->workers[i].thread, NULL);
        sem_destroy(&pool->workers[i].start);
    }
    sem_destroy(&pool->done);
    free(pool);
}

/* How many workers join the caller. */
static unsigned helpers(const host_pool *pool, uint64_t points, unsigned most) {
    uint64_t wanted = points < most ? points : most;
    if (wanted <= 1 || !pool)
        return 0;
    return wanted - 1 < pool->count ? (unsigned)(wanted - 1) : pool->count;
}

void host_pool_run(host_pool *pool, host_entry entry, void *const *arguments, const uint32_t grid[3], uint64_t points,
                   unsigned most) {
    unsigned others = helpers(pool, points, most);
    if (others == 0 || pool->process != getpid() ||
        atomic_flag_test_and_set_explicit(&pool->busy, memory_order_acquire)) {
        grid_job alone = {entry, arguments, grid[0], grid[1], points, points, 0, 0};
        take_points(&alone);
        return;
    }
    grid_job *job = &pool->job;
    job->entry = entry;
    job->arguments = arguments;
    job->x = grid[0];
    job->y = grid[1];
    job->points = points;
    job->helpers = others;
    /* Small enough pieces to even out, large enough that taking one costs little. */
    job->chunk = points / ((uint64_t)(others + 1) * 32);
    if (job->chunk == 0)
        job->chunk = 1;
    atomic_store_explicit(&job->next, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->running, others, memory_order_relaxed);
    wake_from(pool, 0);
    take_points(job);
    wait_for(&pool->done);
    atomic_flag_clear_explicit(&pool->busy, memory_order_release);
}
