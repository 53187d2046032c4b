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

#define FIRST_WORDS "mlpbwd compiled 1"

static bool folder_is_ours(const char *folder) {
    struct stat info;
    (void)mkdir(folder, 0700);
    return stat(folder, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
           (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
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

/* A file: one line with what it is, sizes and the hash of the rest; the log; the machine code. */
static bool read_file(FILE *file, dev_image *image) {
    char format[sizeof image->format], expected[DB_HASH_CAPACITY], hash[DB_HASH_CAPACITY], end;
    size_t log_size, size;
    if (fscanf(file, FIRST_WORDS " %15s %zu %zu %64s%c", format, &log_size, &size, expected, &end) != 5 ||
        end != '\n' || size > INT_MAX || log_size > INT_MAX)
        return false;
    char *all = malloc(log_size + size + 1);
    bool good = all && fread(all, 1, log_size + size, file) == log_size + size;
    if (good) {
        db_hash(all, log_size + size, hash);
        image->bytes = strcmp(hash, expected) == 0 ? malloc(size + 1) : NULL;
        image->log = strndup(all, log_size);
        good = image->bytes && image->log;
    }
    if (good) {
        memcpy(image->bytes, all + log_size, size);
        image->size = size;
        memcpy(image->format, format, sizeof format);
    } else {
        dev_image_free(image);
    }
    free(all);
    return good;
}

bool compile_cache_get(const char *path, dev_image *image) {
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool good = read_file(file, image);
    fclose(file);
    return good;
}

void compile_cache_put(const char *path, const dev_image *image) {
    char draft[PATH_MAX], head[160], hash[DB_HASH_CAPACITY];
    size_t log_size = strlen(image->log);
    char *all = malloc(log_size + image->size + 1);
    if (!all)
        return;
    memcpy(all, image->log, log_size);
    memcpy(all + log_size, image->bytes, image->size);
    db_hash(all, log_size + image->size, hash);
    int length =
        snprintf(head, sizeof head, FIRST_WORDS " %s %zu %zu %s\n", image->format, log_size, image->size, hash);
    snprintf(draft, sizeof draft, "%.*s.XXXXXX", PATH_MAX - 8, path);
    int file = mkostemp(draft, O_CLOEXEC);
    if (file >= 0) {
        bool good = file_write_all(file, head, (size_t)length) && file_write_all(file, all, log_size + image->size);
        good = close(file) == 0 && good;
        if (!good || rename(draft, path) != 0)
            unlink(draft);
    }
    free(all);
}
