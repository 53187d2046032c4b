#include "channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

double monotonic_seconds(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        return 0;
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool send_all(int fd, const void *bytes, size_t size) {
    const char *from = bytes;
    while (size > 0) {
        ssize_t sent = send(fd, from, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        from += sent;
        size -= (size_t)sent;
    }
    return true;
}

bool channel_send(channel *c, json_t *json, const void *bytes, size_t size) {
    bool sent = false;
    if (bytes && json)
        json_object_set_new(json, "bytes", json_integer((json_int_t)size));
    char *line = json ? json_dumps(json, JSON_COMPACT) : NULL;
    if (line && c->fd >= 0)
        sent =
            send_all(c->fd, line, strlen(line)) && send_all(c->fd, "\n", 1) && (!bytes || send_all(c->fd, bytes, size));
    free(line);
    json_decref(json);
    return sent;
}

/* Appends what has arrived; false at the end of the stream. */
static bool fill_buffer(channel *c) {
    if (c->capacity - c->used < 65536) {
        size_t capacity = c->capacity < 65536 ? 262144 : 2 * c->capacity;
        char *larger = realloc(c->buffer, capacity);
        if (!larger)
            return false;
        c->buffer = larger;
        c->capacity = capacity;
    }
    ssize_t got = recv(c->fd, c->buffer + c->used, c->capacity - c->used, 0);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    c->used += (size_t)got;
    return got > 0;
}

/* CHANNEL_MESSAGE when the buffer held a whole message, CHANNEL_LATE when more must arrive. */
static enum channel_result take_message(channel *c, channel_message *message) {
    char *end = c->used > 0 ? memchr(c->buffer, '\n', c->used) : NULL;
    if (!end)
        return CHANNEL_LATE;
    json_error_t error;
    size_t line = (size_t)(end - c->buffer);
    json_t *json = json_loadb(c->buffer, line, 0, &error);
    if (!json_is_object(json)) {
        json_decref(json);
        return CHANNEL_CLOSED;
    }
    json_t *bytes = json_object_get(json, "bytes");
    size_t size = json_is_integer(bytes) ? (size_t)json_integer_value(bytes) : 0;
    if (c->used - line - 1 < size) {
        json_decref(json);
        return CHANNEL_LATE;
    }
    *message = (channel_message){.json = json};
    if (bytes) {
        char *copy = malloc(size + 1);
        if (!copy) {
            channel_message_free(message);
            return CHANNEL_CLOSED;
        }
        memcpy(copy, end + 1, size);
        copy[size] = '\0';
        message->bytes = copy;
        message->size = size;
    }
    size_t taken = line + 1 + size;
    memmove(c->buffer, c->buffer + taken, c->used - taken);
    c->used -= taken;
    return CHANNEL_MESSAGE;
}

enum channel_result channel_receive(channel *c, double seconds, const volatile int *interrupted,
                                    channel_message *message) {
    *message = (channel_message){.json = NULL};
    double deadline = monotonic_seconds() + seconds;
    for (;;) {
        enum channel_result result = take_message(c, message);
        if (result != CHANNEL_LATE)
            return result;
        if (interrupted && *interrupted)
            return CHANNEL_INTERRUPTED;
        double left = seconds < 0 ? 3600 : deadline - monotonic_seconds();
        if (left <= 0)
            return CHANNEL_LATE;
        if (interrupted && left > 0.1)
            left = 0.1;
        struct pollfd waiting = {c->fd, POLLIN, 0};
        int ready = poll(&waiting, 1, (int)(left * 1000) + 1);
        if (ready < 0 && errno != EINTR)
            return CHANNEL_CLOSED;
        if (ready > 0 && !fill_buffer(c))
            return CHANNEL_CLOSED;
    }
}

void channel_message_free(channel_message *message) {
    json_decref(message->json);
    free(message->bytes);
    *message = (channel_message){.json = NULL};
}

void channel_close(channel *c) {
    if (c->fd >= 0)
        close(c->fd);
    free(c->buffer);
    *c = (channel){.fd = -1};
}

bool channel_from_parent(channel *c) {
    *c = (channel){.fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)};
    if (c->fd < 0)
        return false;
    int type = 0;
    socklen_t length = sizeof type;
    if (getsockopt(c->fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0) {
        fputs("mlpbwd: this command is started by `mlpbwd tune` and `mlpbwd compile`, not by hand\n", stderr);
        channel_close(c);
        return false;
    }
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool moved = nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0;
    if (nothing > STDERR_FILENO)
        close(nothing);
    if (!moved)
        channel_close(c);
    return moved;
}

json_t *json_text(const char *text) {
    json_t *string = json_string(text);
    if (string)
        return string;
    char *plain = strdup(text);
    if (!plain)
        return NULL;
    for (char *p = plain; *p; p++)
        if ((unsigned char)*p >= 0x80)
            *p = '?';
    string = json_string(plain);
    free(plain);
    return string;
}
