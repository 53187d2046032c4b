/* Messages between the tuner and its child processes: one line of compact JSON, followed by raw bytes when its member
 * "bytes" says how many. Over a stream socket, so that writing to a dead child is an error and no signal. */
#ifndef MLP_CHANNEL_H
#define MLP_CHANNEL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "message.h"

typedef struct channel {
    int fd; /* -1: closed */
    char *buffer;
    size_t used, capacity;
} channel;

typedef struct channel_message {
    json_t *json;
    void *bytes; /* malloc'ed, NUL-terminated behind size; NULL without "bytes" */
    size_t size;
} channel_message;

enum channel_result { CHANNEL_MESSAGE, CHANNEL_LATE, CHANNEL_CLOSED, CHANNEL_INTERRUPTED };

/* Takes over the reference to json and adds "bytes" to it. False: the other end is gone or takes no data for 30 s. */
bool channel_send(channel *c, json_t *json, const void *bytes, size_t size);
/* Waits at most `seconds` (negative: for ever) for a whole message. interrupted: looked at ten times a second; may be
 * NULL. Garbage counts as CHANNEL_CLOSED. */
enum channel_result channel_receive(channel *c, double seconds, const volatile int *interrupted,
                                    channel_message *message);
void channel_message_free(channel_message *message);
void channel_close(channel *c);
/* In a child: the channel on standard input; standard input and output are then /dev/null and standard error, so that
 * a printing candidate does not disturb the messages. */
bool channel_from_parent(channel *c);

/* A child process running this program's hidden command (`/proc/self/exe command`), in its own process group, killed
 * with its parent. */
typedef struct child {
    pid_t pid; /* 0: none */
    channel channel;
} child;

/* memory_bytes: RLIMIT_AS, 0: none. */
mlpbwd_status child_start(child *c, const char *command, size_t memory_bytes, mlp_message *why);
/* Ends the child and what it started, and waits for it. text (may be NULL): how it had ended by itself, as in "was
 * killed by SIGSEGV (Segmentation fault)" or "exited with status 3"; "" when it was still running. */
void child_end(child *c, char *text, size_t capacity);

/* Seconds since some moment that no change of the clock moves. */
double monotonic_seconds(void);

/* A JSON string of any bytes: what is not UTF-8 (a compiler's output cut in the middle, say) becomes '?'. */
json_t *json_text(const char *text);

#endif
