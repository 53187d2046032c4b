#include "cc_run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST_SECONDS = 120 };

extern char **environ;

/* ---- finding ---- */

static bool is_program(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

/* The absolute path of a program name, searched in $PATH if it has no slash; false if there is none. */
static bool find_program(const char *name, char found[PATH_MAX]) {
    if (strchr(name, '/'))
        return is_program(name) && realpath(name, found);
    const char *path = getenv("PATH");
    if (!path)
        path = "/usr/local/bin:/usr/bin:/bin";
    for (;;) {
        size_t length = strcspn(path, ":");
        char candidate[PATH_MAX];
        /* An empty entry means the current folder. */
        int written =
            snprintf(candidate, sizeof candidate, "%.*s/%s", length ? (int)length : 1, length ? path : ".", name);
        if (written > 0 && (size_t)written < sizeof candidate && is_program(candidate)) {
            if (candidate[0] == '/') { /* not resolved: a link's name may tell the program what to be */
                memcpy(found, candidate, (size_t)written + 1);
                return true;
            }
            return realpath(candidate, found) != NULL;
        }
        if (path[length] == 0)
            return false;
        path += length + 1;
    }
}

/* $CC or $CXX may be a path with spaces or a program with arguments; the first reading that names a program wins. */
static bool find_named(const char *text, cc_command *command) {
    command->words[0] = command->program;
    command->count = 1;
    if (find_program(text, command->program))
        return true;
    if (strlen(text) >= sizeof command->text)
        return false;
    memcpy(command->text, text, strlen(text) + 1);
    char *rest = NULL;
    char *word = strtok_r(command->text, " \t", &rest);
    if (!word || !find_program(word, command->program))
        return false;
    while ((word = strtok_r(NULL, " \t", &rest)) != NULL) {
        if (command->count == CC_MAX_WORDS)
            return false;
        command->words[command->count++] = word;
    }
    return true;
}

static mlpbwd_status find_compiler(cc_command *command, const char *variable, const char *const usual[3],
                                   const char *missing, mlp_message *why) {
    const char *named = getenv(variable);
    if (named && named[strspn(named, " \t")]) {
        if (find_named(named, command))
            return MLPBWD_OK;
        return mlp_fail(why, MLPBWD_UNSUPPORTED,
                        "the %s compiler that %s names was not found: \"%.200s\"; unset %s or set it to a program "
                        "(and at most %d arguments)",
                        command->language, variable, named, variable, CC_MAX_WORDS - 1);
    }
    for (size_t i = 0; i < 3; i++)
        if (find_named(usual[i], command))
            return MLPBWD_OK;
    return mlp_fail(why, MLPBWD_UNSUPPORTED, "%s", missing);
}

mlpbwd_status cc_find(cc_command *command, mlp_message *why) {
    static const char *const usual[] = {"cc", "gcc", "clang"};
    command->language = "C";
    return find_compiler(
        command, "CC", usual,
        "no C compiler was found (cc, gcc or clang in PATH): new kernels for device host cannot be compiled; "
        "the Debian packages gcc and libc6-dev bring one",
        why);
}

mlpbwd_status cc_find_cxx(cc_command *command, mlp_message *why) {
    static const char *const usual[] = {"c++", "g++", "clang++"};
    command->language = "C++";
    return find_compiler(command, "CXX", usual,
                         "no C++ compiler was found (c++, g++ or clang++ in PATH): kernels for emulated devices cannot "
                         "be compiled; the Debian package g++ brings one",
                         why);
}

/* ---- the folder ---- */

mlpbwd_status cc_folder_make(char *path, size_t capacity, mlp_message *why) {
    const char *folders[] = {getenv("TMPDIR"), "/tmp"};
    for (size_t i = 0; i < 2; i++) {
        char absolute[PATH_MAX];
        if (!folders[i] || !folders[i][0] || !realpath(folders[i], absolute))
            continue;
        int length = snprintf(path, capacity, "%s/mlpbwd-XXXXXX", absolute);
        if (length > 0 && (size_t)length < capacity && mkdtemp(path))
            return MLPBWD_OK;
    }
    return mlp_fail(why, MLPBWD_DEVICE_ERROR, "no temporary folder could be made in %s%.200s%s/tmp: %s",
                    folders[0] ? "TMPDIR=\"" : "", folders[0] ? folders[0] : "", folders[0] ? "\" or " : "",
                    strerror(errno));
}

void cc_folder_remove(const char *path) {
    DIR *folder = opendir(path);
    if (!folder)
        return;
    struct dirent *entry;
    while ((entry = readdir(folder)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    rmdir(path);
}

static bool path_in(const char *folder, const char *name, char path[PATH_MAX]) {
    int length = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return length > 0 && length < PATH_MAX;
}

mlpbwd_status cc_folder_write(const char *folder, const char *name, const char *text, mlp_message *why) {
    char path[PATH_MAX];
    FILE *file = path_in(folder, name, path) ? fopen(path, "we") : NULL;
    if (!file)
        return mlp_fail(why, MLPBWD_DEVICE_ERROR, "could not create %s in %s: %s", name, folder, strerror(errno));
    bool good = fputs(text, file) >= 0;
    int error = errno;
    if (fclose(file) != 0 && good) {
        good = false;
        error = errno;
    }
    if (!good)
        return mlp_fail(why, MLPBWD_DEVICE_ERROR, "could not write %s in %s: %s", name, folder, strerror(error));
    return MLPBWD_OK;
}

void *cc_folder_read(const char *folder, const char *name, size_t *size) {
    char path[PATH_MAX];
    struct stat status;
    int file = path_in(folder, name, path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return NULL;
    char *bytes = fstat(file, &status) == 0 ? malloc((size_t)status.st_size + 1) : NULL;
    size_t have = 0;
    while (bytes && have < (size_t)status.st_size) {
        ssize_t got = read(file, bytes + have, (size_t)status.st_size - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            free(bytes);
            bytes = NULL;
            break;
        }
        have += (size_t)got;
    }
    close(file);
    if (bytes)
        bytes[have] = 0;
    *size = have;
    return bytes;
}

/* ---- the process ---- */

/* The caller's environment with temporary files in the compiler's folder and messages in plain English; an array whose
 * texts are the caller's or static. NULL: no memory. */
static char **make_environment(void) {
    static char folder[] = "TMPDIR=.", locale[] = "LC_ALL=C";
    size_t count = 0, kept = 0;
    while (environ && environ[count])
        count++;
    char **made = malloc((count + 3) * sizeof *made);
    if (!made)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "TMPDIR=", 7) != 0 && strncmp(environ[i], "LC_ALL=", 7) != 0)
            made[kept++] = environ[i];
    made[kept++] = folder;
    made[kept++] = locale;
    made[kept] = NULL;
    return made;
}

static int prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes, const char *folder,
                   const char *log) {
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGCHLD); /* a compiler driver waits for its own children */
    int error = posix_spawn_file_actions_addchdir_np(actions, folder);
    if (!error)
        error = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!error)
        error = posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (!error)
        error = posix_spawn_file_actions_adddup2(actions, STDOUT_FILENO, STDERR_FILENO);
    if (!error)
        error = posix_spawnattr_setsigmask(attributes, &none);
    if (!error)
        error = posix_spawnattr_setsigdefault(attributes, &usual);
    if (!error)
        error = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    return error;
}

static int spawn(pid_t *child, const char *program, char *const *words, const char *folder, const char *log) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char **environment = make_environment();
    if (!environment)
        return ENOMEM;
    int error = posix_spawn_file_actions_init(&actions);
    if (!error) {
        error = posix_spawnattr_init(&attributes);
        if (!error) {
            error = prepare(&actions, &attributes, folder, log);
            if (!error)
                error = posix_spawn(child, program, &actions, &attributes, words, environment);
            posix_spawnattr_destroy(&attributes);
        }
        posix_spawn_file_actions_destroy(&actions);
    }
    free(environment);
    return error;
}

static int64_t monotonic_ms(void) {
    struct timespec now;
    return clock_gettime(CLOCK_MONOTONIC, &now) == 0 ? now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000 : 0;
}

/* Waits for the child's end without reaping it. Where the kernel has no pidfd the wait is the caller's waitpid. */
static bool ended_in_time(pid_t child) {
    int handle = pidfd_open(child, 0);
    if (handle < 0)
        return true;
    struct pollfd waiting = {.fd = handle, .events = POLLIN};
    int64_t deadline = monotonic_ms() + LONGEST_SECONDS * INT64_C(1000), left = LONGEST_SECONDS * INT64_C(1000);
    int ready;
    do {
        ready = poll(&waiting, 1, (int)left);
        left = deadline - monotonic_ms();
    } while (ready < 0 && errno == EINTR && left > 0);
    (void)close(handle);
    return ready != 0;
}

mlpbwd_status cc_run(const cc_command *command, const char *const *arguments, const char *folder, const char *log,
                     int *exit_status, mlp_message *why) {
    char *words[64];
    size_t count = 0;
    for (size_t i = 0; i < command->count; i++)
        words[count++] = command->words[i];
    for (size_t i = 0; arguments[i] && count + 1 < sizeof words / sizeof words[0]; i++)
        words[count++] = (char *)arguments[i];
    words[count] = NULL;
    pid_t child;
    int error = spawn(&child, command->program, words, folder, log);
    if (error)
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "the %s compiler %s could not be started: %s", command->language,
                        command->program, strerror(error));
    bool late = !ended_in_time(child);
    if (late)
        (void)kill(child, SIGKILL);
    int status;
    pid_t waited;
    do
        waited = waitpid(child, &status, 0);
    while (waited < 0 && errno == EINTR);
    if (late)
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "the %s compiler %s did not end within %d s and was killed",
                        command->language, command->program, LONGEST_SECONDS);
    if (waited < 0)
        *exit_status = -1; /* the application ignores SIGCHLD or waits for everything */
    else
        *exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return MLPBWD_OK;
}
