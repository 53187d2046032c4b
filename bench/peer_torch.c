/* PyTorch as a child process a peer, so that one that hangs, crashes or cannot compile costs only itself. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "peers.h"

/* Names as bench/peers_torch.py knows them. */
const char *const torch_peer_names[] = {"composition_fp16", "compile_fp16", "compile_tf32",
                                        "eager_tf32",       "eager_fp32",   NULL};
const char *const torch_peer_docs[] = {
    "cuBLAS fp16 GEMMs with fp32 output, Inductor-fused dGELU, two streams, one CUDA graph",
    "torch.compile with fp16 casts", "torch.compile, TF32", "eager, TF32", "eager, fp32"};

enum { LINE_CAPACITY = 1 << 16, MAX_ARGUMENTS = 32 };

static double now(void) {
    struct timespec time;
    return clock_gettime(CLOCK_MONOTONIC, &time) == 0 ? (double)time.tv_sec + (double)time.tv_nsec * 1e-9 : 0.0;
}

typedef struct arguments {
    char text[MAX_ARGUMENTS][32];
    char tokens[4096];
    char *list[MAX_ARGUMENTS + 1];
} arguments;

static void make_arguments(const torch_request *request, const char *name, arguments *out) {
    size_t count = 0;
    size_t used = 0;
    const struct {
        const char *option;
        long long value;
    } numbers[] = {{"--hidden-size", request->hidden_size},
                   {"--intermediate-size", request->intermediate_size},
                   {"--device", request->ordinal},
                   {"--repetitions", request->repetitions},
                   {"--warmup", request->warmup}};
    for (size_t i = 0; i < request->token_count && used < sizeof out->tokens; i++) {
        used += (size_t)snprintf(out->tokens + used, sizeof out->tokens - used, "%s%lld", i > 0 ? "," : "",
                                 (long long)request->tokens[i]);
    }
    const char *words[] = {request->python, request->script, "--peer",       name,
                           "--mode",        request->mode,   "--activation", request->activation ? "erf" : "tanh",
                           "--tokens",      out->tokens};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        out->list[count++] = (char *)words[i];
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        out->list[count++] = (char *)numbers[i].option;
        (void)snprintf(out->text[i], sizeof out->text[i], "%lld", numbers[i].value);
        out->list[count++] = out->text[i];
    }
    out->list[count] = NULL;
}

/* Its own process group: torch.compile starts workers, which end with it. */
static pid_t start(const torch_request *request, const char *name, int *output) {
    int ends[2];
    arguments words = {0};
    make_arguments(request, name, &words);
    if (pipe(ends) != 0) {
        return -1;
    }
    (void)fflush(NULL);
    pid_t process = fork();
    if (process == 0) {
        (void)setpgid(0, 0);
        (void)close(ends[0]);
        if (dup2(ends[1], STDOUT_FILENO) >= 0) {
            (void)close(ends[1]);
            (void)execvp(words.list[0], words.list);
        }
        _exit(127);
    }
    (void)close(ends[1]);
    if (process < 0) {
        (void)close(ends[0]);
        return -1;
    }
    (void)setpgid(process, process);
    *output = ends[0];
    return process;
}

/* One line of the child: {"versions":..}, {"tokens":T,"median_us":..} or {"error":..}. */
static void take_line(json_t *result, const char *line) {
    json_t *value = json_loads(line, 0, NULL);
    const json_t *error = json_object_get(value, "error");
    const json_t *tokens = json_object_get(value, "tokens");
    if (error != NULL && json_object_get(result, "error") == NULL) {
        (void)json_object_set_new(result, "error",
                                  tokens != NULL ? json_sprintf("T = %lld: %s", (long long)json_integer_value(tokens),
                                                                json_string_value(error))
                                                 : json_copy((json_t *)error));
    } else if (tokens != NULL && json_object_get(value, "median_us") != NULL) {
        char key[24];
        (void)snprintf(key, sizeof key, "%lld", (long long)json_integer_value(tokens));
        (void)json_object_set(json_object_get(result, "times"), key, value);
    } else if (json_object_get(value, "versions") != NULL) {
        (void)json_object_set(result, "versions", json_object_get(value, "versions"));
    }
    json_decref(value);
}

static void take_lines(json_t *result, char *buffer, size_t *used) {
    char *begin = buffer;
    char *end = NULL;
    while ((end = memchr(begin, '\n', *used - (size_t)(begin - buffer))) != NULL) {
        *end = '\0';
        take_line(result, begin);
        begin = end + 1;
    }
    *used -= (size_t)(begin - buffer);
    memmove(buffer, begin, *used);
    if (*used == LINE_CAPACITY) {
        *used = 0; /* no line of ours is that long */
    }
}

/* Reads until the child closes its output; returns NULL, or why it was given up. */
static const char *listen_to(const torch_request *request, int output, json_t *result) {
    char *buffer = malloc(LINE_CAPACITY);
    size_t used = 0;
    double deadline = now() + request->limit_seconds;
    const char *given_up = buffer == NULL ? "out of memory" : NULL;
    while (given_up == NULL) {
        struct pollfd ready = {.fd = output, .events = POLLIN};
        int events = poll(&ready, 1, 200);
        if (request->interrupted != NULL && *request->interrupted != 0) {
            given_up = "interrupted";
        } else if (now() > deadline) {
            given_up = "took longer than --peer-limit; what it had measured is kept";
        } else if (events > 0) {
            ssize_t got = read(output, buffer + used, LINE_CAPACITY - used);
            if (got == 0 || (got < 0 && errno != EINTR)) {
                break;
            }
            used += got > 0 ? (size_t)got : 0;
            take_lines(result, buffer, &used);
        }
    }
    free(buffer);
    return given_up;
}

json_t *torch_peer_run(const torch_request *request, const char *name) {
    json_t *result = json_pack("{s:{}}", "times");
    int output = -1;
    pid_t process = start(request, name, &output);
    if (process < 0) {
        (void)json_object_set_new(result, "error", json_sprintf("no child process: %s", strerror(errno)));
        return result;
    }
    const char *given_up = listen_to(request, output, result);
    (void)close(output);
    if (given_up != NULL) {
        (void)kill(-process, SIGKILL);
    }
    int ended = 0;
    while (waitpid(process, &ended, 0) < 0 && errno == EINTR) {
    }
    if (given_up != NULL) {
        (void)json_object_set_new(result, "error", json_string(given_up));
    } else if (json_object_get(result, "error") == NULL && WIFEXITED(ended) && WEXITSTATUS(ended) == 127) {
        (void)json_object_set_new(result, "error", json_sprintf("%s could not be started", request->python));
    } else if (json_object_get(result, "error") == NULL && (!WIFEXITED(ended) || WEXITSTATUS(ended) != 0)) {
        (void)json_object_set_new(result, "error",
                                  json_sprintf("%s ended on %s %d", request->python,
                                               WIFEXITED(ended) ? "exit code" : "signal",
                                               WIFEXITED(ended) ? WEXITSTATUS(ended) : WTERMSIG(ended)));
    }
    return result;
}
