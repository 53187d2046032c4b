#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Root passes every access() test, so a folder that somebody has made read-only must be seen by its bits. */
static bool can_write(const char *path, const struct stat *info) {
    struct statvfs filesystem;
    if (!(info->st_mode & 0222))
        return false;
    if (statvfs(path, &filesystem) == 0 && (filesystem.f_flag & ST_RDONLY))
        return false;
    return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
}

static mlpbwd_status judge_owner(const char *path, const struct stat *info, mlp_message *why) {
    if (!S_ISREG(info->st_mode))
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s: %s; a database is a regular file", path,
                        S_ISDIR(info->st_mode) ? "this is a folder" : "this is a special file");
    if (info->st_uid != geteuid() && info->st_uid != 0)
        return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                        "%s: refused, because it is owned by user %ld and this process runs as user %ld: it carries "
                        "code that would be executed. If you trust it, use a copy of your own, or `chown %ld` it",
                        path, (long)info->st_uid, (long)geteuid(), (long)geteuid());
    if (info->st_mode & 022)
        return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                        "%s: refused, because others can write it (mode %04o): it carries code that would be executed. "
                        "If you trust it: chmod go-w '%s'",
                        path, (unsigned)(info->st_mode & 07777), path);
    return MLPBWD_OK;
}

/* SQLite writes into the database what a journal beside it says, so a stranger's journal is as bad as a stranger's
 * database. An empty one says nothing. */
static mlpbwd_status find_side_file(const char *real, const char *suffix, bool *present, mlp_message *why) {
    char *name = NULL;
    if (asprintf(&name, "%s%s", real, suffix) < 0)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "%s: out of memory", real);
    struct stat info;
    mlpbwd_status status = MLPBWD_OK;
    if (lstat(name, &info) == 0 && (info.st_size > 0 || !S_ISREG(info.st_mode))) {
        *present = true;
        status = judge_owner(name, &info, why);
    }
    free(name);
    return status;
}

mlpbwd_status place_find(const char *path, place *out, mlp_message *why) {
    *out = (place){0};
    char *real = realpath(path, NULL);
    if (!real)
        return mlp_fail(why, errno == ENOMEM ? MLPBWD_OUT_OF_MEMORY : MLPBWD_DATABASE_ERROR, "%s: cannot be opened: %s",
                        path, strerror(errno));
    struct stat info;
    if (stat(real, &info) != 0) {
        int error = errno;
        free(real);
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s: cannot be opened: %s", path, strerror(error));
    }
    mlpbwd_status status = judge_owner(path, &info, why);
    if (status != MLPBWD_OK) {
        free(real);
        return status;
    }
    out->real = real;
    out->device = info.st_dev;
    out->inode = info.st_ino;
    out->writable = can_write(real, &info);
    char *slash = strrchr(real, '/'); /* realpath: there always is one */
    char saved = slash[1];
    slash[1] = 0;
    struct stat folder;
    if (stat(real, &folder) != 0 || !can_write(real, &folder))
        out->writable = false;
    slash[1] = saved;
    status = find_side_file(real, "-journal", &out->journal, why);
    if (status == MLPBWD_OK)
        status = find_side_file(real, "-wal", &out->wal, why);
    if (status != MLPBWD_OK)
        place_free(out);
    return status;
}

void place_free(place *where) {
    free(where->real);
    where->real = NULL;
}

static mlpbwd_status create_parents(const char *path, mlp_message *why) {
    char *copy = strdup(path);
    if (!copy)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "%s: out of memory", path);
    mlpbwd_status status = MLPBWD_OK;
    for (char *slash = strchr(copy + 1, '/'); slash && status == MLPBWD_OK; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        /* A folder that is there may lie under one that refuses mkdir with another error than EEXIST. */
        struct stat info;
        if (mkdir(copy, 0700) != 0 && errno != EEXIST) {
            int error = errno;
            if (stat(copy, &info) != 0 || !S_ISDIR(info.st_mode))
                status = mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s: the folder %s cannot be created: %s", path, copy,
                                  strerror(error));
        }
        *slash = '/';
    }
    free(copy);
    return status;
}

mlpbwd_status place_create(const char *path, mlp_message *why) {
    struct stat info;
    if (stat(path, &info) == 0)
        return MLPBWD_OK;
    mlpbwd_status status = create_parents(path, why);
    if (status != MLPBWD_OK)
        return status;
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file < 0) {
        if (errno == EEXIST) /* another process was faster; place_find judges what it finds */
            return MLPBWD_OK;
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s: cannot be created: %s", path, strerror(errno));
    }
    if (close(file) != 0)
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s: cannot be created: %s", path, strerror(errno));
    return MLPBWD_OK;
}

bool place_unchanged(const place *where) {
    struct stat info;
    return stat(where->real, &info) == 0 && info.st_dev == where->device && info.st_ino == where->inode;
}

char *place_uri(const place *where, const char *query) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-~";
    static const char digits[] = "0123456789ABCDEF";
    const char *start = "file://"; /* with an empty authority: a path that begins with // stays a path */
    char *uri = malloc(strlen(start) + 3 * strlen(where->real) + strlen(query) + 1);
    if (!uri)
        return NULL;
    char *end = stpcpy(uri, start);
    for (const unsigned char *byte = (const unsigned char *)where->real; *byte; ++byte) {
        if (strchr(plain, *byte)) {
            *end++ = (char)*byte;
        } else {
            *end++ = '%';
            *end++ = digits[*byte >> 4];
            *end++ = digits[*byte & 15];
        }
    }
    stpcpy(end, query);
    return uri;
}
