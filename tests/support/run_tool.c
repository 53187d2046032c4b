#include "run_tool.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void give_up(const char *what) {
    (void)fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(99);
}

static void settle(const run_surroundings *around, int output, int errors) {
    for (size_t i = 0; around->environment != NULL && around->environment[i] != NULL; i++) {
        const char *equals = strchr(around->environment[i], '=');
        char *name = equals != NULL ? strndup(around->environment[i], (size_t)(equals - around->environment[i]))
                                    : strdup(around->environment[i]);
        if (name == NULL || (equals != NULL ? setenv(name, equals + 1, 1) : unsetenv(name)) != 0) {
            _exit(99);
        }
        free(name);
    }
    int target = around->output_path != NULL ? open(around->output_path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : output;
    int input = open("/dev/null", O_RDONLY);
    if (target < 0 || input < 0 || dup2(input, 0) < 0 || dup2(target, 1) < 0 || dup2(errors, 2) < 0) {
        _exit(99);
    }
    if (around->folder != NULL && chdir(around->folder) != 0) {
        _exit(99);
    }
    if (around->user != 0 && (setgroups(0, NULL) != 0 || setgid(around->user) != 0 || setuid(around->user) != 0)) {
        _exit(99);
    }
}

static char *read_back(FILE *file) {
    long size = 0;
    if (fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) != 0) {
        give_up("temporary file");
    }
    char *text = malloc((size_t)size + 1);
    if (text == NULL) {
        give_up("memory");
        return NULL;
    }
    text[fread(text, 1, (size_t)size, file)] = '\0';
    (void)fclose(file);
    return text;
}

static int wait_for(pid_t process, const run_surroundings *around) {
    unsigned limit = (around->limit_seconds != 0 ? around->limit_seconds : 60) * 1000;
    for (unsigned elapsed = 0;; elapsed += 5) {
        int status = 0;
        pid_t ended = waitpid(process, &status, WNOHANG);
        if (ended == process) {
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        if (around->interrupt_after_ms != 0 && elapsed / 5 == around->interrupt_after_ms / 5) {
            (void)kill(process, SIGINT);
        }
        if (elapsed > limit) {
            (void)kill(process, SIGKILL);
            (void)waitpid(process, &status, 0);
            return -1;
        }
        struct timespec pause = {.tv_nsec = 5000000};
        (void)nanosleep(&pause, NULL);
    }
}

run_result run_program(const char *const *arguments, const run_surroundings *surroundings) {
    static const run_surroundings ordinary;
    const run_surroundings *around = surroundings != NULL ? surroundings : &ordinary;
    FILE *output = tmpfile();
    FILE *errors = tmpfile();
    if (output == NULL || errors == NULL) {
        give_up("temporary file");
    }
    (void)fflush(NULL);
    pid_t process = fork();
    if (process < 0) {
        give_up("fork");
    }
    if (process == 0) {
        settle(around, fileno(output), fileno(errors));
        (void)execv(arguments[0], (char *const *)arguments);
        _exit(99);
    }
    run_result result = {.code = wait_for(process, around)};
    result.output = read_back(output);
    result.errors = read_back(errors);
    return result;
}

void run_result_free(run_result *result) {
    free(result->output);
    free(result->errors);
    *result = (run_result){0};
}

void make_folder(char *path, size_t capacity) {
    const char *base = getenv("TMPDIR");
    (void)snprintf(path, capacity, "%s/mlpbwd-test-XXXXXX", base != NULL && base[0] != '\0' ? base : "/tmp");
    if (mkdtemp(path) == NULL || chmod(path, 0755) != 0) {
        give_up(path);
    }
}

static int remove_entry(const char *path, const struct stat *facts, int kind, struct FTW *position) {
    (void)facts;
    (void)kind;
    (void)position;
    return remove(path);
}

void remove_folder(const char *path) {
    (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *path_in(const char *folder, const char *name) {
    static char buffers[8][4096];
    static unsigned next;
    char *buffer = buffers[next++ % 8];
    (void)snprintf(buffer, sizeof buffers[0], "%s/%s", folder, name);
    return buffer;
}
