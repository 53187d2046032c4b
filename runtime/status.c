/* Texts of the public interface: status names, the version and this thread's last error. */
#include "status.h"

#include <stdbool.h>
#include <string.h>

#define TEXT_OF(number) #number
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

/* The text is touched only by a failure: a thread's first use of a large thread-local of a library loaded with dlopen
 * makes the dynamic linker allocate, and a successful mlpbwd_execute must not. The flag is small enough for the space
 * that the C library sets aside for such libraries (initial-exec). */
static _Thread_local char last_error[MLP_MESSAGE_CAPACITY];
static _Thread_local bool failed __attribute__((tls_model("initial-exec")));

mlpbwd_status status_report(mlpbwd_status status, const mlp_message *why) {
    failed = status != MLPBWD_OK;
    if (failed) {
        size_t length = strnlen(why->text, sizeof last_error - 1);
        memcpy(last_error, why->text, length);
        last_error[length] = '\0';
    }
    return status;
}

const char *mlpbwd_last_error(void) {
    return failed ? last_error : "";
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
