#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db.h"

/* The library may sit in a program with raised rights: there the environment must not choose code to run. */
static const char *setting(const char *name) {
    const char *value = secure_getenv(name);
    return value && *value ? value : NULL;
}

mlpbwd_status db_default_user_path(char *path, size_t capacity, bool *from_environment, mlp_message *why) {
    if (!path || capacity == 0)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "db_default_user_path: there is no room for a path");
    *path = 0;
    if (from_environment)
        *from_environment = false;
    const char *base = setting("MLPBWD_DATABASE");
    const char *rest = "";
    if (base) {
        if (from_environment)
            *from_environment = true;
    } else if ((base = setting("XDG_DATA_HOME")) && *base == '/') {
        rest = "/mlpbwd/tuning.sqlite";
    } else if ((base = setting("HOME")) && *base == '/') {
        rest = "/.local/share/mlpbwd/tuning.sqlite";
    } else {
        return mlp_fail(why, MLPBWD_OK,
                        "no database of the user: MLPBWD_DATABASE is not set, and neither XDG_DATA_HOME nor HOME holds "
                        "an absolute path");
    }
    int length = snprintf(path, capacity, "%s%s", base, rest);
    if (length < 0 || (size_t)length >= capacity) {
        *path = 0;
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "the path of the user's database has more than %zu bytes: %.64s...", capacity - 1, base);
    }
    return MLPBWD_OK;
}
