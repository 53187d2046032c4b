/* mlpbwd_execute allocates nothing and takes no lock, also as the first call of a new thread into a library that came
 * by dlopen (where a large thread-local would be allocated on first use). Allocation and locking are counted by
 * functions of this program that stand before the C library's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "mlpbwd.h"
#include "tiny.h"

static atomic_bool counting;
static atomic_int allocations, locks;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 1

#pragma GCC visibility push(default) /* the library must find these, too */

/* The C library's own names for its allocator. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static void count(atomic_int *what) {
    if (atomic_load_explicit(&counting, memory_order_relaxed))
        atomic_fetch_add(what, 1);
}

void *malloc(size_t size) {
    count(&allocations);
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
    count(&allocations);
    return __libc_calloc(number, size);
}

void *realloc(void *pointer, size_t size) {
    count(&allocations);
    return __libc_realloc(pointer, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    count(&allocations);
    return __libc_memalign(alignment, size);
}

int pthread_mutex_lock(pthread_mutex_t *mutex) {
    static int (*_Atomic real)(pthread_mutex_t *);
    int (*function)(pthread_mutex_t *) = atomic_load(&real);
    if (!function) {
        void *address = dlsym(RTLD_NEXT, "pthread_mutex_lock");
        memcpy(&function, &address, sizeof address);
        atomic_store(&real, function);
    }
    count(&locks);
    return function(mutex);
}

#pragma GCC visibility pop
#endif

static const mlpbwd_problem small = {.batch_size = 7, .seq_len = 1, .hidden_size = 64, .intermediate_size = 64};

/* The library as a program meets it that loads it at run time. */
typedef struct api {
    void *handle;
    mlpbwd_status (*open)(const char *, const char *, mlpbwd_library **);
    void (*close)(mlpbwd_library *);
    mlpbwd_status (*plan_create)(mlpbwd_library *, const mlpbwd_problem *, mlpbwd_plan **);
    void (*plan_destroy)(mlpbwd_plan *);
    size_t (*workspace_size)(const mlpbwd_plan *);
    mlpbwd_status (*execute)(const mlpbwd_plan *, const mlpbwd_tensors *, void *, size_t, void *);
    const char *(*last_error)(void);
} api;

static void symbol(const api *a, const char *name, void *function) {
    void *address = dlsym(a->handle, name);
    if (!address)
        fail_msg("%s", dlerror());
    memcpy(function, &address, sizeof address);
}

static void load(api *a) {
    a->handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!a->handle)
        fail_msg("%s", dlerror());
    symbol(a, "mlpbwd_open", &a->open);
    symbol(a, "mlpbwd_close", &a->close);
    symbol(a, "mlpbwd_plan_create", &a->plan_create);
    symbol(a, "mlpbwd_plan_destroy", &a->plan_destroy);
    symbol(a, "mlpbwd_plan_workspace_size", &a->workspace_size);
    symbol(a, "mlpbwd_execute", &a->execute);
    symbol(a, "mlpbwd_last_error", &a->last_error);
}

typedef struct job {
    const api *a;
    mlpbwd_plan *plan;
    const tiny_case *c;
    void *workspace;
    size_t size;
    int failures;
} job;

static void *execute_in_thread(void *argument) {
    job *self = argument;
    atomic_store(&counting, true);
    self->failures += self->a->execute(self->plan, &self->c->tensors, self->workspace, self->size, NULL) != MLPBWD_OK;
    self->failures += self->a->last_error()[0] != '\0';
    atomic_store(&counting, false);
    return NULL;
}

static void expect_nothing_counted(void) {
    if (atomic_load(&allocations) || atomic_load(&locks))
        fail_msg("%d allocations and %d locks", atomic_load(&allocations), atomic_load(&locks));
}

static void test_execute_allocates_and_locks_nothing(void **state) {
    (void)state;
#ifndef COUNTS_ALLOCATIONS
    skip();
#endif
    char path[64];
    mlp_message why = {0};
    const dev_image *image = NULL;
    if (!tiny_compile(&image, &why))
        skip();
    snprintf(path, sizeof path, "/tmp/mlpbwd-hot-%ld.sqlite", (long)getpid());
    unlink(path);
    tiny_default_database(path, true, true);
    api a;
    mlpbwd_library *library = NULL;
    mlpbwd_plan *plan = NULL;
    load(&a);
    assert_int_equal(a.open(path, "host", &library), MLPBWD_OK);
    atomic_store(&counting, true); /* does the counting work? */
    assert_int_equal(a.plan_create(library, &small, &plan), MLPBWD_OK);
    atomic_store(&counting, false);
    assert_true(atomic_load(&allocations) > 0);
    assert_true(atomic_load(&locks) > 0);
    tiny_case c;
    tiny_case_make(&c, &small);
    job first = {.a = &a, .plan = plan, .c = &c, .size = a.workspace_size(plan)};
    first.workspace = tiny_aligned(first.size);
    atomic_store(&allocations, 0);
    atomic_store(&locks, 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, execute_in_thread, &first), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(first.failures, 0);
    expect_nothing_counted();
    for (int i = 0; i < 100; i++)
        execute_in_thread(&first);
    assert_int_equal(first.failures, 0);
    expect_nothing_counted();
    assert_true(tiny_case_error(&c, 0, 0) < 1e-6);
    tiny_case_free(&c);
    free(first.workspace);
    a.plan_destroy(plan);
    a.close(library);
    assert_int_equal(dlclose(a.handle), 0);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_execute_allocates_and_locks_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
