/* Files with machine code, for the system's loader. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend.h"

bool file_write_all(int file, const void *bytes, size_t size) {
    const char *from = bytes;
    while (size > 0) {
        ssize_t written = write(file, from, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            if (written == 0)
                errno = ENOSPC;
            return false;
        }
        from += written;
        size -= (size_t)written;
    }
    return true;
}

mlpbwd_status shared_object_write(const void *bytes, size_t size, char path[PATH_MAX], mlp_message *why) {
    const char *folder = getenv("TMPDIR");
    int length = snprintf(path, PATH_MAX, "%s/mlpbwd-XXXXXX.so", folder && folder[0] == '/' ? folder : "/tmp");
    if (length < 0 || length >= PATH_MAX)
        return mlp_fail(why, MLPBWD_DEVICE_ERROR, "TMPDIR is too long: \"%.200s...\"", folder);
    int file = mkostemps(path, 3, O_CLOEXEC);
    if (file < 0)
        return mlp_fail(why, MLPBWD_DEVICE_ERROR, "no temporary file %s: %s", path, strerror(errno));
    bool written = file_write_all(file, bytes, size);
    int error = errno;
    if (close(file) != 0 && written) {
        written = false;
        error = errno;
    }
    if (written)
        return MLPBWD_OK;
    unlink(path);
    return mlp_fail(why, MLPBWD_DEVICE_ERROR, "could not write %s: %s", path, strerror(error));
}
