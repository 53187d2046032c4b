#include "parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { MAX_THREADS = 64 };

typedef struct loop {
    atomic_llong next;
    int64_t count;
    void (*body)(void *user, int64_t index);
    void *user;
} loop;

int parallel_threads(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int count = CPU_COUNT(&set);
    return count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : count;
}

static void *run(void *argument) {
    loop *l = argument;
    for (;;) {
        int64_t index = atomic_fetch_add(&l->next, 1);
        if (index >= l->count)
            return NULL;
        l->body(l->user, index);
    }
}

void parallel_for(int64_t count, void (*body)(void *user, int64_t index), void *user) {
    loop l = {.count = count, .body = body, .user = user};
    atomic_init(&l.next, 0);
    pthread_t threads[MAX_THREADS];
    int wanted = parallel_threads() - 1, started = 0;
    while (started < wanted && started + 1 < count && pthread_create(&threads[started], NULL, run, &l) == 0)
        started++;
    run(&l);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}
