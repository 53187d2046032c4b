#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db.h"

enum { MAX_FILE = 4 << 20, MAX_FILES = 4096, MAX_DEPTH = 8, MAX_PATH = 4096 };

static int by_path(const void *a, const void *b) {
    return strcmp(((const template_file *)a)->path, ((const template_file *)b)->path);
}

const template_file *files_find(const template_files *files, const char *path) {
    template_file key = {.path = (char *)path};
    return files->count ? bsearch(&key, files->items, files->count, sizeof key, by_path) : NULL;
}

void files_free(template_files *files) {
    for (size_t i = 0; i < files->count; i++) {
        free(files->items[i].path);
        free(files->items[i].bytes);
    }
    free(files->items);
    *files = (template_files){0};
}

/* A byte order mark and CRLF line ends come from editors, not from authors: the emitted text must not change with them.
 */
static size_t normalise(char *bytes, size_t size) {
    size_t from = size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    size_t to = 0;
    for (; from < size; from++) {
        if (bytes[from] == '\r' && from + 1 < size && bytes[from + 1] == '\n') {
            continue;
        }
        bytes[to++] = bytes[from];
    }
    bytes[to] = '\0';
    return to;
}

static mlpbwd_status read_bytes(const char *full, template_file *file, mlp_message *why) {
    int fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: cannot be read: %s", full, strerror(errno));
    }
    mlpbwd_status status = MLPBWD_OK;
    struct stat info;
    char *bytes = NULL;
    size_t size = 0;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > MAX_FILE) {
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: not a regular file of at most %d bytes", full, MAX_FILE);
    } else if (!(bytes = malloc((size_t)info.st_size + 1))) {
        status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "%s: out of memory", full);
    }
    while (status == MLPBWD_OK && size < (size_t)info.st_size) {
        ssize_t got = read(fd, bytes + size, (size_t)info.st_size - size);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: cannot be read: %s", full, strerror(errno));
        }
        if (got <= 0) {
            break;
        }
        size += (size_t)got;
    }
    close(fd);
    if (status == MLPBWD_OK && bytes && memchr(bytes, '\0', size)) {
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: has a zero byte; templates are text", full);
    }
    if (status != MLPBWD_OK || !bytes) {
        free(bytes);
        return status;
    }
    file->size = normalise(bytes, size);
    file->bytes = bytes;
    return MLPBWD_OK;
}

/* count of the items that earlier folders gave; they are sorted and hide their namesakes. */
static mlpbwd_status add_file(template_files *files, size_t earlier, const char *full, const char *path,
                              mlp_message *why) {
    template_files hiding = {files->items, earlier, ""};
    if (files_find(&hiding, path)) {
        return MLPBWD_OK;
    }
    if (files->count >= MAX_FILES) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: more than %d template files", full, MAX_FILES);
    }
    template_file *items = realloc(files->items, (files->count + 1) * sizeof *items);
    if (!items) {
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "%s: out of memory", full);
    }
    files->items = items;
    template_file file = {.path = strdup(path)};
    if (!file.path) {
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "%s: out of memory", full);
    }
    mlpbwd_status status = read_bytes(full, &file, why);
    if (status != MLPBWD_OK) {
        free(file.path);
        return status;
    }
    files->items[files->count++] = file;
    return MLPBWD_OK;
}

static mlpbwd_status add_folder(template_files *files, size_t earlier, const char *root, const char *path, int depth,
                                mlp_message *why) {
    char full[MAX_PATH];
    if (snprintf(full, sizeof full, "%s/%s", root, path) >= (int)sizeof full) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s/%s: the path is too long", root, path);
    }
    DIR *folder = opendir(full);
    if (!folder) {
        return errno == ENOENT
                   ? MLPBWD_OK
                   : mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: cannot be read: %s", full, strerror(errno));
    }
    mlpbwd_status status = MLPBWD_OK;
    struct dirent *entry;
    while (status == MLPBWD_OK && (entry = readdir(folder))) {
        size_t length = strlen(entry->d_name);
        if (entry->d_name[0] == '.' || entry->d_name[length - 1] == '~') {
            continue;
        }
        char child[MAX_PATH], child_full[MAX_PATH];
        struct stat info;
        if (snprintf(child, sizeof child, "%s/%s", path, entry->d_name) >= (int)sizeof child ||
            snprintf(child_full, sizeof child_full, "%s/%s", root, child) >= (int)sizeof child_full) {
            status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s/%s: the path is too long", full, entry->d_name);
        } else if (stat(child_full, &info) != 0) {
            status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: cannot be read: %s", child_full, strerror(errno));
        } else if (S_ISDIR(info.st_mode)) {
            status = depth < MAX_DEPTH ? add_folder(files, earlier, root, child, depth + 1, why)
                                       : mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: more than %d folders deep",
                                                  child_full, MAX_DEPTH);
        } else {
            status = add_file(files, earlier, child_full, child, why);
        }
    }
    closedir(folder);
    return status;
}

static mlpbwd_status hash_files(template_files *files, mlp_message *why) {
    char *list = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&list, &size);
    if (!stream) {
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory for the hash of the templates");
    }
    for (size_t i = 0; i < files->count; i++) {
        char hash[DB_HASH_CAPACITY];
        db_hash(files->items[i].bytes, files->items[i].size, hash);
        fprintf(stream, "%s %s\n", hash, files->items[i].path);
    }
    bool written = !ferror(stream);
    if (fclose(stream) != 0 || !written) {
        free(list);
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory for the hash of the templates");
    }
    db_hash(list, size, files->hash);
    free(list);
    return MLPBWD_OK;
}

mlpbwd_status files_read(const char *const *folders, size_t count, template_files *files, mlp_message *why) {
    static const char *const parts[] = {"arch", "kernels", "pipelines", "lib"};
    *files = (template_files){0};
    mlpbwd_status status = MLPBWD_OK;
    for (size_t i = 0; i < count && status == MLPBWD_OK; i++) {
        struct stat info;
        if (stat(folders[i], &info) != 0 || !S_ISDIR(info.st_mode)) {
            status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "templates folder %s: no such folder", folders[i]);
        }
        size_t earlier = files->count;
        for (size_t part = 0; part < sizeof parts / sizeof *parts && status == MLPBWD_OK; part++) {
            status = add_folder(files, earlier, folders[i], parts[part], 1, why);
        }
        if (status == MLPBWD_OK && files->count == earlier && earlier == 0 && i + 1 == count) {
            status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                              "templates folder %s: has no file in arch/, kernels/, pipelines/ or lib/", folders[i]);
        }
        if (files->count) {
            qsort(files->items, files->count, sizeof *files->items, by_path);
        }
    }
    if (status == MLPBWD_OK) {
        status = hash_files(files, why);
    }
    if (status != MLPBWD_OK) {
        files_free(files);
    }
    return status;
}
