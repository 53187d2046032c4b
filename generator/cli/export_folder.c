#include "export_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL ? value : "";
}

/* "folder/name", malloc'ed; NULL: no memory. */
static char *path_in(const char *folder, const char *name) {
    char *path = NULL;
    return asprintf(&path, "%s/%s", folder, name) >= 0 ? path : NULL;
}

static mlpbwd_status look_into(const char *folder, bool *empty, mlp_message *why) {
    DIR *listing = opendir(folder);
    if (listing == NULL) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s cannot be used: %s", folder, strerror(errno));
    }
    *empty = true;
    errno = 0;
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            *empty = false;
        }
    }
    int error = errno;
    (void)closedir(listing);
    return error == 0 ? MLPBWD_OK
                      : mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s cannot be read: %s", folder, strerror(error));
}

static mlpbwd_status remove_file(const char *folder, const char *name, mlp_message *why) {
    char *path = path_in(folder, name);
    if (path == NULL) {
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    }
    mlpbwd_status status = MLPBWD_OK;
    if (unlink(path) != 0 && errno != ENOENT) {
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s cannot be removed: %s", path, strerror(errno));
    }
    free(path);
    return status;
}

/* The list may be anybody's: only plain names beside it are taken from it. */
static mlpbwd_status remove_earlier(const char *folder, mlp_message *why) {
    char *path = path_in(folder, "solution.json");
    json_t *earlier = path != NULL ? json_load_file(path, 0, NULL) : NULL;
    free(path);
    mlpbwd_status status = MLPBWD_OK;
    size_t index = 0;
    json_t *file = NULL;
    json_array_foreach(json_object_get(earlier, "sources"), index, file) {
        const char *name = text(file, "path");
        if (status == MLPBWD_OK && name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL) {
            status = remove_file(folder, name, why);
        }
    }
    json_decref(earlier);
    return status == MLPBWD_OK ? remove_file(folder, "solution.json", why) : status;
}

mlpbwd_status export_folder_prepare(const char *folder, bool force, mlp_message *why) {
    if (mkdir(folder, 0777) == 0) {
        return MLPBWD_OK;
    }
    if (errno != EEXIST) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "the folder %s cannot be made: %s", folder, strerror(errno));
    }
    bool empty = true;
    mlpbwd_status status = look_into(folder, &empty, why);
    if (status != MLPBWD_OK || empty) {
        return status;
    }
    if (!force) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "the folder %s is not empty; a new or empty one would be right, or --force, which replaces an "
                        "earlier export there and leaves other files alone",
                        folder);
    }
    return remove_earlier(folder, why);
}

static int write_file(const char *folder, const char *name, const char *content) {
    char *path = path_in(folder, name);
    cli_file file;
    int code = path != NULL ? cli_file_open(&file, path) : EXIT_FAILED;
    if (path == NULL) {
        cli_error("out of memory");
    }
    if (code == EXIT_DONE) {
        bool written = fputs(content, file.stream) != EOF;
        code = cli_file_close(&file, written);
        code = written ? code : EXIT_FAILED; /* why is the stream's error, which closing told */
    }
    free(path);
    return code;
}

int export_folder_write(const char *folder, const json_t *solution) {
    int code = EXIT_DONE;
    size_t index = 0;
    json_t *file = NULL;
    json_array_foreach(json_object_get(solution, "sources"), index, file) {
        if (code == EXIT_DONE) {
            code = write_file(folder, text(file, "path"), text(file, "content"));
        }
    }
    char *path = path_in(folder, "solution.json");
    if (path == NULL) {
        cli_error("out of memory");
        return EXIT_FAILED;
    }
    if (code == EXIT_DONE) {
        code = cli_save(solution, path);
    }
    free(path);
    return code;
}
