#include "channel.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* A sanitizer reserves terabytes of addresses. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool ADDRESS_LIMIT_WORKS = false;
#else
static const bool ADDRESS_LIMIT_WORKS = true;
#endif

/* Between fork and exec: async-signal-safe calls only. */
static _Noreturn void become(const char *command, int socket, pid_t parent, size_t memory_bytes) {
    sigset_t none;
    sigemptyset(&none);
    bool ready = setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent &&
                 sigprocmask(SIG_SETMASK, &none, NULL) == 0 && dup2(socket, STDIN_FILENO) >= 0 &&
                 dup2(socket, STDOUT_FILENO) >= 0;
    if (ready && memory_bytes > 0 && ADDRESS_LIMIT_WORKS) {
        struct rlimit limit;
        if (getrlimit(RLIMIT_AS, &limit) == 0 && (limit.rlim_max == RLIM_INFINITY || limit.rlim_max > memory_bytes)) {
            limit.rlim_cur = limit.rlim_max = memory_bytes;
            ready = setrlimit(RLIMIT_AS, &limit) == 0;
        }
    }
    struct rlimit no_core = {0, 0}; /* a crashing candidate is expected */
    ready = ready && setrlimit(RLIMIT_CORE, &no_core) == 0;
    if (ready)
        execl("/proc/self/exe", "mlpbwd", command, (char *)NULL);
    _exit(127);
}

mlpbwd_status child_start(child *c, const char *command, size_t memory_bytes, mlp_message *why) {
    *c = (child){.channel = {.fd = -1}};
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return mlp_fail(why, MLPBWD_DEVICE_ERROR, "no socket for a child process (%s): %s", command, strerror(errno));
    struct timeval patience = {30, 0};
    pid_t parent = getpid();
    pid_t pid = setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0 ? fork() : -1;
    if (pid == 0)
        become(command, ends[1], parent, memory_bytes);
    int error = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return mlp_fail(why, MLPBWD_DEVICE_ERROR, "a child process (%s) could not be started: %s", command,
                        strerror(error));
    }
    *c = (child){.pid = pid, .channel = {.fd = ends[0]}};
    return MLPBWD_OK;
}

static void describe(int status, char *text, size_t capacity) {
    if (WIFSIGNALED(status)) {
        const char *name = sigabbrev_np(WTERMSIG(status)), *words = sigdescr_np(WTERMSIG(status));
        snprintf(text, capacity, "was killed by SIG%s (%s)", name ? name : "?", words ? words : "unknown signal");
    } else {
        snprintf(text, capacity, "exited with status %d", WEXITSTATUS(status));
    }
}

void child_end(child *c, char *text, size_t capacity) {
    if (text)
        text[0] = '\0';
    if (c->pid <= 0)
        return;
    int status = 0;
    pid_t ended = 0;
    /* A child whose end of the channel closed is about to be a zombie: give it the time to say how it died. */
    for (int i = 0; text && i < 100 && (ended = waitpid(c->pid, &status, WNOHANG)) == 0; i++)
        usleep(5000);
    if (ended == c->pid && text)
        describe(status, text, capacity);
    kill(-c->pid, SIGKILL); /* the group: also a compiler it started */
    if (ended == 0) {
        kill(c->pid, SIGKILL);
        while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
            continue;
    }
    channel_close(&c->channel);
    c->pid = 0;
}
