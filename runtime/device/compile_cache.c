#include "compile_cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend.h"
#include "cc_run.h"
#include "db.h"

#define FIRST_WORDS "mlpbwd compiled 2"

static bool is_ours(const struct stat *info) {
    return info->st_uid == geteuid() && (info->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static bool folder_is_ours(const char *folder) {
    struct stat info;
    (void)mkdir(folder, 0700);
    return stat(folder, &info) == 0 && S_ISDIR(info.st_mode) && is_ours(&info);
}

static bool write_command(FILE *to, const cc_command *command) {
    struct stat info;
    if (stat(command->program, &info) != 0)
        return false;
    for (size_t i = 0; i < command->count; i++)
        fprintf(to, "%s%c", command->words[i], 0);
    fprintf(to, "%lld %lld.%09ld%c", (long long)info.st_size, (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec, 0);
    return true;
}

static bool write_compiler(FILE *to, const char *name) {
    cc_command command;
    char version[64];
    if (strcmp(name, "cc") == 0)
        return cc_find(&command, NULL) == MLPBWD_OK && write_command(to, &command);
    if (strcmp(name, "emulated") == 0)
        return cc_find_cxx(&command, NULL) == MLPBWD_OK && write_command(to, &command);
    if (dev_compiler_version(name, version, sizeof version, NULL) != MLPBWD_OK)
        return false;
    fprintf(to, "%s%c", version, 0);
    return true;
}

/* MLPBWD_COMPILERS: hash of the files that say how compilers are called, and with which headers. */
static char *key_text(const dev_compile_request *request, size_t *size) {
    char *text = NULL;
    FILE *to = open_memstream(&text, size);
    if (!to)
        return NULL;
    /* NVRTC's code does not have the name in it, the others' does: emulated devices' reports name lines */
    bool named = request->name && strcmp(request->compiler, "nvrtc") != 0;
    fprintf(to, MLPBWD_COMPILERS "%c%s%c%s%c%s%c", 0, request->compiler, 0, request->target, 0,
            named ? request->name : "", 0);
    bool good = write_compiler(to, request->compiler);
    fputs(request->source, to);
    if (fclose(to) == 0 && good)
        return text;
    free(text);
    return NULL;
}

bool compile_cache_path(const dev_compile_request *request, char path[PATH_MAX]) {
    const char *folder = secure_getenv("MLPBWD_COMPILE_CACHE");
    if (!folder || folder[0] != '/' || !request->target || !request->source || !folder_is_ours(folder))
        return false;
    size_t size;
    char *text = key_text(request, &size), hash[DB_HASH_CAPACITY];
    if (!text)
        return false;
    db_hash(text, size, hash);
    free(text);
    return snprintf(path, PATH_MAX, "%s/%s", folder, hash) < PATH_MAX - 8;
}

/* A file: one line with what it is, the sizes of log and machine code, and the hash of the rest, which is all of it. */
typedef struct content {
    char *all; /* the image's format, padded; the log; the machine code */
    size_t size;
} content;
enum { FORMAT_SIZE = sizeof((dev_image *)NULL)->format };

static bool read_content(FILE *file, size_t log_size, size_t code_size, const char *expected, content *c) {
    char hash[DB_HASH_CAPACITY];
    c->size = FORMAT_SIZE + log_size + code_size;
    c->all = malloc(c->size);
    if (!c->all || fread(c->all, 1, c->size, file) != c->size)
        return false;
    db_hash(c->all, c->size, hash);
    return strcmp(hash, expected) == 0 && memchr(c->all, 0, FORMAT_SIZE);
}

static bool read_file(FILE *file, dev_image *image) {
    char expected[DB_HASH_CAPACITY], end;
    size_t log_size, code_size;
    content c = {NULL, 0};
    bool good = fscanf(file, FIRST_WORDS " %zu %zu %64s%c", &log_size, &code_size, expected, &end) == 4 &&
                end == '\n' && log_size <= INT_MAX && code_size <= INT_MAX &&
                read_content(file, log_size, code_size, expected, &c);
    if (good) {
        image->bytes = malloc(code_size + 1);
        image->log = strndup(c.all + FORMAT_SIZE, log_size);
        good = image->bytes && image->log;
    }
    if (good) {
        memcpy(image->format, c.all, FORMAT_SIZE);
        memcpy(image->bytes, c.all + FORMAT_SIZE + log_size, code_size);
        image->size = code_size;
    } else {
        dev_image_free(image);
    }
    free(c.all);
    return good;
}

bool compile_cache_get(const char *path, dev_image *image) {
    struct stat info;
    int number = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); /* a pipe would wait for a writer */
    if (number < 0)
        return false;
    FILE *file = fstat(number, &info) == 0 && S_ISREG(info.st_mode) && is_ours(&info) ? fdopen(number, "r") : NULL;
    if (!file) {
        (void)close(number);
        return false;
    }
    bool good = read_file(file, image);
    (void)fclose(file);
    return good;
}

void compile_cache_put(const char *path, const dev_image *image) {
    char draft[PATH_MAX], head[160], hash[DB_HASH_CAPACITY];
    const size_t log_size = strlen(image->log);
    content c = {.size = FORMAT_SIZE + log_size + image->size};
    c.all = malloc(c.size);
    if (!c.all)
        return;
    memcpy(c.all, image->format, FORMAT_SIZE);
    memcpy(c.all + FORMAT_SIZE, image->log, log_size);
    memcpy(c.all + FORMAT_SIZE + log_size, image->bytes, image->size);
    db_hash(c.all, c.size, hash);
    int length = snprintf(head, sizeof head, FIRST_WORDS " %zu %zu %s\n", log_size, image->size, hash);
    snprintf(draft, sizeof draft, "%.*s.XXXXXX", PATH_MAX - 8, path);
    int file = mkostemp(draft, O_CLOEXEC);
    if (file >= 0) {
        bool good = file_write_all(file, head, (size_t)length) && file_write_all(file, c.all, c.size);
        good = close(file) == 0 && good;
        if (!good || rename(draft, path) != 0)
            (void)unlink(draft);
    }
    free(c.all);
}
