/* Threads, fork and lifetimes through the public interface, on the host device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "mlpbwd.h"
#include "status.h"
#include "tiny.h"

enum { THREADS = 4, EXECUTES = 250, ROUNDS = 60 };

static char path[64];
static const mlpbwd_problem small = {.batch_size = 7, .seq_len = 1, .hidden_size = 64, .intermediate_size = 64};

static int make_database(void **state) {
    (void)state;
    snprintf(path, sizeof path, "/tmp/mlpbwd-threads-%ld.sqlite", (long)getpid());
    unlink(path);
    tiny_default_database(path, true, true);
    return 0;
}

static int remove_database(void **state) {
    (void)state;
    return unlink(path);
}

static mlpbwd_library *open_library(void) {
    mlpbwd_library *library = NULL;
    if (mlpbwd_open(path, "host", &library) != MLPBWD_OK)
        fail_msg("%s", mlpbwd_last_error());
    return library;
}

typedef struct job {
    pthread_t thread;
    mlpbwd_library *library;
    mlpbwd_plan *plan;
    const tiny_case *wanted;
    int number, failures;
} job;

static void start_all(job *jobs, void *(*work)(void *), const job *like) {
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = *like;
        jobs[i].number = i;
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, work, &jobs[i]), 0);
    }
}

static void join_all(job *jobs) {
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(jobs[i].thread, NULL), 0);
        assert_int_equal(jobs[i].failures, 0);
    }
}

/* cmocka's assertions are for the main thread: workers count. */
static bool same_outputs(const tiny_case *a, const tiny_case *b) {
    bool same = true;
    for (int k = 0; k < 5; k++)
        same = same && memcmp(tiny_output(a, k), tiny_output(b, k), a->counts[8 + k] * sizeof(float)) == 0;
    return same;
}

static void *execute_often(void *argument) {
    job *self = argument;
    size_t size = mlpbwd_plan_workspace_size(self->plan);
    void *workspace = tiny_aligned(size);
    tiny_case c;
    tiny_case_make(&c, &small);
    for (int i = 0; i < EXECUTES; i++) {
        tiny_case_fill(&c, (float)i);
        memset(workspace, i, size);
        self->failures += mlpbwd_execute(self->plan, &c.tensors, workspace, size, NULL) != MLPBWD_OK;
        self->failures += !same_outputs(&c, self->wanted);
    }
    tiny_case_free(&c);
    free(workspace);
    return NULL;
}

static void test_threads_share_a_plan(void **state) {
    (void)state;
    mlpbwd_library *library = open_library();
    mlpbwd_plan *plan = NULL;
    assert_int_equal(mlpbwd_plan_create(library, &small, &plan), MLPBWD_OK);
    size_t size = mlpbwd_plan_workspace_size(plan);
    void *workspace = tiny_aligned(size);
    tiny_case wanted;
    tiny_case_make(&wanted, &small);
    assert_int_equal(mlpbwd_execute(plan, &wanted.tensors, workspace, size, NULL), MLPBWD_OK);
    job jobs[THREADS];
    start_all(jobs, execute_often, &(job){.plan = plan, .wanted = &wanted});
    join_all(jobs);
    tiny_case_free(&wanted);
    free(workspace);
    mlpbwd_plan_destroy(plan);
    mlpbwd_close(library);
}

/* Plans are made, used and destroyed, and handles of the library dropped, all at once. */
static void *make_and_drop(void *argument) {
    job *self = argument;
    for (int i = 0; i < ROUNDS; i++) {
        mlpbwd_problem problem = small;
        mlpbwd_library *own = NULL;
        mlpbwd_plan *plan = NULL, *other = NULL;
        char text[8192];
        problem.batch_size = 1 + (self->number + i) % 3;
        self->failures += mlpbwd_plan_create(self->library, &problem, &plan) != MLPBWD_OK;
        self->failures += mlpbwd_plan_describe(plan, text, sizeof text, NULL) != MLPBWD_OK;
        self->failures += mlpbwd_plan_workspace_size(plan) == 0;
        self->failures += mlpbwd_plan_create(self->library, &(mlpbwd_problem){0}, &other) != MLPBWD_INVALID_ARGUMENT;
        self->failures += strstr(mlpbwd_last_error(), "hidden_size") == NULL;
        mlpbwd_plan_destroy(plan);
        if (i % 20 == 0) {
            self->failures += mlpbwd_open(path, "host", &own) != MLPBWD_OK;
            self->failures += mlpbwd_plan_create(own, &problem, &plan) != MLPBWD_OK;
            mlpbwd_close(own);
            mlpbwd_plan_destroy(plan);
        }
    }
    return NULL;
}

static void ignore_message(void *user, const char *message) {
    (void)user;
    (void)message;
}

static void test_threads_make_plans(void **state) {
    (void)state;
    mlpbwd_library *library = open_library();
    job jobs[THREADS];
    start_all(jobs, make_and_drop, &(job){.library = library});
    for (int i = 0; i < ROUNDS; i++)
        mlpbwd_set_log(i % 2 ? ignore_message : NULL, NULL);
    join_all(jobs);
    mlpbwd_set_log(NULL, NULL);
    mlpbwd_close(library);
}

/* ---- each thread has its own last error ---- */

static void *fail_elsewhere(void *argument) {
    job *self = argument;
    self->failures += mlpbwd_last_error()[0] != '\0';
    self->failures += mlpbwd_open(NULL, "no such device", &self->library) != MLPBWD_NO_DEVICE;
    self->failures += strstr(mlpbwd_last_error(), "no such device") == NULL;
    return NULL;
}

static void test_last_error_is_per_thread(void **state) {
    (void)state;
    mlpbwd_library *library = open_library();
    mlpbwd_plan *plan = NULL;
    job jobs[THREADS];
    assert_int_equal(mlpbwd_plan_create(library, &(mlpbwd_problem){.seq_len = -3}, &plan), MLPBWD_INVALID_ARGUMENT);
    start_all(jobs, fail_elsewhere, &(job){0});
    join_all(jobs);
    assert_non_null(strstr(mlpbwd_last_error(), "seq_len"));
    mlpbwd_close(library);
}

static void *fail_at_length(void *argument) {
    job *self = argument;
    mlp_message why;
    for (int round = 0; round < 50; round++)
        for (size_t length = 0; length < sizeof why.text; length += 101) {
            memset(why.text, 'a' + self->number, length);
            why.text[length] = '\0';
            self->failures += status_report(MLPBWD_COMPILE_ERROR, &why) != MLPBWD_COMPILE_ERROR;
            self->failures += strcmp(mlpbwd_last_error(), why.text) != 0;
            self->failures += status_report(MLPBWD_OK, NULL) != MLPBWD_OK || mlpbwd_last_error()[0] != '\0';
        }
    return NULL;
}

static void test_last_error_of_any_length(void **state) {
    (void)state;
    job jobs[THREADS];
    start_all(jobs, fail_at_length, &(job){0});
    join_all(jobs);
    job own = {0};
    fail_at_length(&own);
    assert_int_equal(own.failures, 0);
}

/* ---- fork ---- */

/* In the child; returns the number of what went wrong. */
static int use_in_child(mlpbwd_library *library, mlpbwd_plan *plan, const tiny_case *c, void *workspace, size_t size) {
    mlpbwd_plan *another = NULL;
    mlpbwd_library *own = NULL;
    char text[8192];
    if (mlpbwd_execute(plan, &c->tensors, workspace, size, NULL) != MLPBWD_DEVICE_ERROR)
        return 1;
    if (!strstr(mlpbwd_last_error(), "fork"))
        return 2;
    if (mlpbwd_plan_create(library, &small, &another) != MLPBWD_DEVICE_ERROR || another)
        return 3;
    if (mlpbwd_plan_describe(plan, text, sizeof text, NULL) != MLPBWD_DEVICE_ERROR)
        return 4;
    mlpbwd_plan_destroy(plan);
    mlpbwd_close(library);
#ifdef __SANITIZE_THREAD__ /* which lets no child of a process with threads start one */
    return 0;
#endif
    /* A library of its own works. */
    if (mlpbwd_open(path, "host", &own) != MLPBWD_OK || mlpbwd_plan_create(own, &small, &another) != MLPBWD_OK)
        return 5;
    if (mlpbwd_execute(another, &c->tensors, workspace, size, NULL) != MLPBWD_OK || tiny_case_error(c, 0, 0) > 1e-6)
        return 6;
    mlpbwd_plan_destroy(another);
    mlpbwd_close(own);
    return 0;
}

static void test_fork(void **state) {
    (void)state;
    mlpbwd_library *library = open_library();
    mlpbwd_plan *plan = NULL;
    assert_int_equal(mlpbwd_plan_create(library, &small, &plan), MLPBWD_OK);
    size_t size = mlpbwd_plan_workspace_size(plan);
    void *workspace = tiny_aligned(size);
    tiny_case c;
    tiny_case_make(&c, &small);
    assert_int_equal(mlpbwd_execute(plan, &c.tensors, workspace, size, NULL), MLPBWD_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(use_in_child(library, plan, &c, workspace, size));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(mlpbwd_execute(plan, &c.tensors, workspace, size, NULL), MLPBWD_OK);
    tiny_case_free(&c);
    free(workspace);
    mlpbwd_plan_destroy(plan);
    mlpbwd_close(library);
}

static void test_nothing_without_a_compiler(void **state) {
    (void)state;
    skip();
}

int main(void) {
    mlp_message why = {0};
    const dev_image *image = NULL;
    const struct CMUnitTest none[] = {cmocka_unit_test(test_nothing_without_a_compiler)};
    if (!tiny_compile(&image, &why)) {
        print_message("%s\n", why.text);
        return cmocka_run_group_tests(none, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads_share_a_plan),
                                       cmocka_unit_test(test_threads_make_plans),
                                       cmocka_unit_test(test_last_error_is_per_thread),
                                       cmocka_unit_test(test_last_error_of_any_length), cmocka_unit_test(test_fork)};
    return cmocka_run_group_tests(tests, make_database, remove_database);
}
