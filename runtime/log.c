#include "log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "mlpbwd.h"

/* Recursive, so that a receiver may itself call into the library or set another receiver. Held during the call, so
 * that nothing arrives at a receiver after mlpbwd_set_log has replaced it. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static void (*receiver)(void *user, const char *message);
static void *receiver_user;

void mlpbwd_set_log(void (*fn)(void *user, const char *message), void *user) {
    pthread_mutex_lock(&lock);
    receiver = fn;
    receiver_user = user;
    pthread_mutex_unlock(&lock);
}

void log_message(const char *format, ...) {
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    for (char *c = text; *c; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' '; /* one message, one line */
    pthread_mutex_lock(&lock);
    if (receiver)
        receiver(receiver_user, text);
    pthread_mutex_unlock(&lock);
}
