/* After planning, mlpbwd_execute opens no file, starts no process and (on the host) maps no code: a child installs a
 * seccomp filter that kills the process if it does, and executes 100 times. On "cuda:0" the same with the shipped or
 * default database; the driver may use its own files that are open already. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mlpbwd.h"
#include "tiny.h"

enum { EXECUTES = 100, SKIPPED = 77, FAILED = 1 };

static char path[64];

/* Every thread of the process, those of the device included, dies on the calls named here. */
static bool forbid(bool also_code) {
    const int calls[] = {
#ifdef SYS_open
        SYS_open,
#endif
#ifdef SYS_creat
        SYS_creat,
#endif
#ifdef SYS_fork
        SYS_fork,
#endif
#ifdef SYS_vfork
        SYS_vfork,
#endif
        SYS_openat, SYS_openat2, SYS_execve, SYS_execveat, SYS_memfd_create};
    struct sock_filter filter[64];
    unsigned short length = 0;
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
        filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    if (also_code) {
        const int mappings[] = {SYS_mmap, SYS_mprotect}; /* the third argument is the protection */
        for (size_t i = 0; i < 2; i++) {
            filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)mappings[i], 0, 4);
            filter[length++] =
                (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2]));
            filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1);
            filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
            filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        }
    }
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {.len = length, .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

/* Memory of the device for thirteen tensors and the workspace. */
static bool allocate(dev_context *context, const mlpbwd_problem *problem, size_t workspace_size, void *pointers[14]) {
    const size_t t = (size_t)(problem->batch_size * problem->seq_len) * 4, h = (size_t)problem->hidden_size;
    const size_t i = (size_t)problem->intermediate_size, w = h * i * 4;
    const size_t sizes[14] = {t * h, t * h, w, i * 4, w, h * 4, t * i,
                              t * i, t * h, w, i * 4, w, h * 4, workspace_size};
    for (size_t k = 0; k < 14; k++)
        if (dev_alloc(context, sizes[k], &pointers[k], NULL) != MLPBWD_OK)
            return false;
    return true;
}

static int report(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    return FAILED;
}

/* In the child: plans, locks itself in, executes, leaves without tidying up. */
static int execute_locked_in(const char *device_name, const char *database, const mlpbwd_problem *problem) {
    mlp_message why = {0};
    dev *device = NULL;
    dev_context *context = NULL;
    mlpbwd_library *library = NULL;
    mlpbwd_plan *plan = NULL;
    void *pointers[14];
    mlpbwd_tensors tensors;
    if (dev_open(device_name, &device, &why) != MLPBWD_OK || dev_context_get(device, &context, &why) != MLPBWD_OK)
        return SKIPPED;
    mlpbwd_status status = mlpbwd_open(database, device_name, &library);
    if (status == MLPBWD_OK)
        status = mlpbwd_plan_create(library, problem, &plan);
    if (status != MLPBWD_OK) {
        fprintf(stderr, "%s: %s\n", device_name, mlpbwd_last_error());
        return database || status != MLPBWD_UNSUPPORTED ? FAILED : SKIPPED;
    }
    size_t size = mlpbwd_plan_workspace_size(plan);
    if (!allocate(context, problem, size, pointers))
        return report(device_name, "no memory");
    memcpy(&tensors, pointers, sizeof tensors);
    if (!forbid(strcmp(device_name, "host") == 0))
        return errno == EINVAL || errno == ENOSYS || errno == EPERM ? SKIPPED : report("seccomp", strerror(errno));
    for (int i = 0; i < EXECUTES; i++)
        if (mlpbwd_execute(plan, &tensors, pointers[13], size, NULL) != MLPBWD_OK)
            return report("mlpbwd_execute", mlpbwd_last_error());
    if (dev_synchronize(context, &why) != MLPBWD_OK)
        return report("synchronize", why.text);
    return 0;
}

static int open_after_locking_in(void) {
    if (!forbid(true))
        return SKIPPED;
    return open("/dev/null", O_RDONLY) >= 0 ? FAILED : 0;
}

static int map_code_after_locking_in(void) {
    if (!forbid(true))
        return SKIPPED;
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? 0 : FAILED;
}

/* The exit status of a child, or 128 + its signal. */
static int wait_for(pid_t child) {
    int status = 0;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void expect_clean(const char *device, const char *database, const mlpbwd_problem *problem) {
    pid_t child = fork();
    if (child == 0)
        _exit(execute_locked_in(device, database, problem));
    int result = wait_for(child);
    if (result == SKIPPED)
        skip();
    if (result != 0)
        fail_msg("%s: the child ended with %d (%d: it was killed for a forbidden call)", device, result, 128 + SIGSYS);
}

static void test_filter_kills(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0)
        _exit(open_after_locking_in());
    int result = wait_for(child);
    if (result == SKIPPED)
        skip();
    assert_int_equal(result, 128 + SIGSYS);
    child = fork();
    if (child == 0)
        _exit(map_code_after_locking_in());
    assert_int_equal(wait_for(child), 128 + SIGSYS);
}

static void test_host(void **state) {
    (void)state;
    const mlpbwd_problem problem = {.batch_size = 1, .seq_len = 7, .hidden_size = 64, .intermediate_size = 128};
    mlp_message why = {0};
    const dev_image *image = NULL;
    if (!tiny_compile(&image, &why))
        skip();
    snprintf(path, sizeof path, "/tmp/mlpbwd-no-open-%ld.sqlite", (long)getpid());
    unlink(path);
    tiny_default_database(path, true, true);
    expect_clean("host", path, &problem);
    unlink(path);
}

static void test_shipped(void **state) {
    (void)state;
    const mlpbwd_problem problem = {.batch_size = 1, .seq_len = 65, .hidden_size = 256, .intermediate_size = 512};
    expect_clean("host", NULL, &problem);
}

static void test_cuda(void **state) {
    (void)state;
    for (int accuracy = 0; accuracy < 3; accuracy++) {
        const mlpbwd_problem problem = {
            .batch_size = 2, .seq_len = 128, .hidden_size = 2048, .intermediate_size = 8192, .accuracy = accuracy};
        expect_clean("cuda:0", NULL, &problem);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_filter_kills), cmocka_unit_test(test_host),
                                       cmocka_unit_test(test_shipped), cmocka_unit_test(test_cuda)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
