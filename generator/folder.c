#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "generator.h"

static bool is_templates_folder(const char *path) {
    char arch[4096];
    struct stat info;
    return snprintf(arch, sizeof arch, "%s/arch", path) < (int)sizeof arch && stat(arch, &info) == 0 &&
           S_ISDIR(info.st_mode);
}

/* The templates that were installed beside this tool, seen from its own folder. */
static bool installed_folder(char *path, size_t capacity) {
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) {
        return false;
    }
    self[length] = '\0';
    char *slash = strrchr(self, '/');
    if (!slash) {
        return false;
    }
    *slash = '\0';
    const char *data = MLPBWD_DATA_FROM_BINDIR;
    int size = data[0] == '/' ? snprintf(path, capacity, "%s/templates", data)
                              : snprintf(path, capacity, "%s/%s/templates", self, data);
    return size >= 0 && (size_t)size < capacity && is_templates_folder(path);
}

mlpbwd_status gen_default_folder(char *path, size_t capacity, mlp_message *why) {
    const char *named = getenv("MLPBWD_TEMPLATES");
    if (named && named[0]) {
        if (!is_templates_folder(named)) {
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "MLPBWD_TEMPLATES=%s: no folder with arch/ in it", named);
        }
        return snprintf(path, capacity, "%s", named) < (int)capacity
                   ? MLPBWD_OK
                   : mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "MLPBWD_TEMPLATES=%s: the path is too long", named);
    }
    if (installed_folder(path, capacity)) {
        return MLPBWD_OK;
    }
    if (snprintf(path, capacity, "%s", MLPBWD_SOURCE_TEMPLATES) < (int)capacity && is_templates_folder(path)) {
        return MLPBWD_OK;
    }
    return mlp_fail(
        why, MLPBWD_INVALID_ARGUMENT,
        "the templates were found neither beside this tool nor in %s; name their folder with --templates or "
        "MLPBWD_TEMPLATES",
        MLPBWD_SOURCE_TEMPLATES);
}
