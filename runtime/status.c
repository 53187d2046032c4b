/* Texts of the public interface: status names, the version and this thread's last error. */
#include "status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_OF(number) #number
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

/* A failed mlpbwd_execute must not allocate either, also as a new thread's first call into a library that came by
 * dlopen: a thread-local of the usual kind would be allocated by the dynamic linker just then. So the short texts that
 * execute gives lie in the little space that the C library sets aside for such libraries (initial-exec), and only a
 * longer one, a compiler's log say, is allocated, once a thread. */
enum { SHORT_CAPACITY = 240 };
#define SMALL_THREAD_LOCAL static _Thread_local __attribute__((tls_model("initial-exec")))
SMALL_THREAD_LOCAL char short_text[SHORT_CAPACITY];
SMALL_THREAD_LOCAL char *long_text; /* MLP_MESSAGE_CAPACITY bytes, or NULL */
SMALL_THREAD_LOCAL const char *last_error;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* frees long_text when its thread ends */
static bool key_exists;

static void free_text(void *text) {
    free(text);
    long_text = NULL; /* another destructor of the thread may still call the library */
    last_error = NULL;
}

static void create_key(void) {
    key_exists = pthread_key_create(&key, free_text) == 0;
}

/* When the library is unloaded no later thread may run its destructor. */
__attribute__((destructor)) static void delete_key(void) {
    if (key_exists)
        pthread_key_delete(key);
    free(long_text);
    long_text = NULL;
}

static char *room_for(size_t length) {
    if (length < SHORT_CAPACITY)
        return short_text;
    if (long_text)
        return long_text;
    if (pthread_once(&once, create_key) != 0 || !key_exists)
        return NULL;
    char *room = malloc(MLP_MESSAGE_CAPACITY);
    if (room && pthread_setspecific(key, room) == 0)
        return long_text = room;
    free(room);
    return NULL;
}

mlpbwd_status status_report(mlpbwd_status status, const mlp_message *why) {
    last_error = NULL;
    if (status == MLPBWD_OK)
        return status;
    size_t length = strnlen(why->text, MLP_MESSAGE_CAPACITY - 1);
    char *room = room_for(length);
    if (!room) {
        room = short_text;
        length = SHORT_CAPACITY - 1;
    }
    memcpy(room, why->text, length);
    room[length] = '\0';
    last_error = room;
    return status;
}

const char *mlpbwd_last_error(void) {
    return last_error ? last_error : "";
}

const char *mlpbwd_status_string(mlpbwd_status status) {
    static const char *const names[] = {
        [MLPBWD_OK] = "ok",
        [MLPBWD_INVALID_ARGUMENT] = "invalid argument",
        [MLPBWD_UNSUPPORTED] = "unsupported",
        [MLPBWD_NO_DEVICE] = "no such device",
        [MLPBWD_DATABASE_ERROR] = "database error",
        [MLPBWD_COMPILE_ERROR] = "compile error",
        [MLPBWD_DEVICE_ERROR] = "device error",
        [MLPBWD_OUT_OF_MEMORY] = "out of memory",
        [MLPBWD_WORKSPACE_TOO_SMALL] = "workspace too small",
    };
    size_t index = (size_t)(int)status;
    return index < sizeof names / sizeof *names ? names[index] : "unknown status";
}

const char *mlpbwd_version(void) {
    return VERSION_TEXT(MLPBWD_VERSION_MAJOR, MLPBWD_VERSION_MINOR, MLPBWD_VERSION_PATCH);
}
