/* Memory that runs out at any one allocation of opening, planning and describing: an error with a message, never a
 * crash or a half-made handle; and the next try succeeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>
#include <jansson.h>

#include "mlpbwd.h"
#include "tiny.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MEMORY_CAN_FAIL 1

/* Allocations of this thread until failures begin (-1: none fails), and how many fail then. */
static _Thread_local long allowed = -1, failing;

#pragma GCC visibility push(default) /* the shared libraries must find these, too */

/* The C library's own names for its allocator. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t size);

static bool runs_out(void) {
    if (allowed < 0)
        return false;
    if (allowed > 0) {
        allowed--;
        return false;
    }
    if (failing == 0)
        return false;
    failing--;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size) {
    return runs_out() ? NULL : __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
    return runs_out() ? NULL : __libc_calloc(number, size);
}

void *realloc(void *pointer, size_t size) {
    return runs_out() ? NULL : __libc_realloc(pointer, size);
}

#pragma GCC visibility pop
#endif

static char path[64];
static const mlpbwd_problem small = {.batch_size = 7, .seq_len = 1, .hidden_size = 64, .intermediate_size = 64};

static mlpbwd_status open_and_plan(mlpbwd_library **library, mlpbwd_plan **plan) {
    char text[8192];
    mlpbwd_status status = mlpbwd_open(path, "host", library);
    if (status == MLPBWD_OK)
        status = mlpbwd_plan_create(*library, &small, plan);
    if (status == MLPBWD_OK)
        status = mlpbwd_plan_describe(*plan, text, sizeof text, NULL);
    return status;
}

/* True when nothing failed any more. */
static bool try_with(long before, long count) {
    (void)before; /* under a sanitizer nothing is made to fail */
    (void)count;
    mlpbwd_library *library = (mlpbwd_library *)path;
    mlpbwd_plan *plan = NULL;
#ifdef MEMORY_CAN_FAIL
    allowed = before;
    failing = count;
#endif
    mlpbwd_status status = open_and_plan(&library, &plan);
#ifdef MEMORY_CAN_FAIL
    bool failed = failing < count;
    allowed = -1;
#else
    (void)before, (void)count;
    bool failed = false;
#endif
    if (status != MLPBWD_OK) {
        assert_true(failed);
        assert_string_not_equal(mlpbwd_last_error(), "");
        assert_null(plan);
        if (library)
            assert_int_equal(mlpbwd_plan_create(library, &small, &plan), MLPBWD_OK); /* it was no lasting harm */
    }
    mlpbwd_plan_destroy(plan);
    mlpbwd_close(library);
    return !failed;
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
#ifndef MEMORY_CAN_FAIL
    skip();
#endif
    mlp_message why = {0};
    const dev_image *image = NULL;
    if (!tiny_compile(&image, &why))
        skip();
    snprintf(path, sizeof path, "/tmp/mlpbwd-memory-%ld.sqlite", (long)getpid());
    unlink(path);
#ifdef MEMORY_CAN_FAIL
    /* Not jansson's: where its lexer cannot keep a character it goes on, and reads and writes past its buffers. */
    json_set_alloc_funcs(__libc_malloc, free);
#endif
    tiny_default_database(path, true, true);
    long steps = 0;
    while (!try_with(steps, 1)) /* one allocation */
        steps++;
    for (long n = 0; n < steps; n += 7) /* all from one on */
        assert_false(try_with(n, 1000000));
    print_message("%ld allocations\n", steps);
    assert_true(steps > 100);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
