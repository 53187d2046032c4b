/* Results and messages: nothing counts as written until it is flushed, and a file appears under its name only whole. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

void cli_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("mlpbwd: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
}

void cli_note(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
}

int cli_failed(mlpbwd_status status, const mlp_message *why) {
    cli_error("%s", why->text[0] != '\0' ? why->text : mlpbwd_status_string(status));
    return status == MLPBWD_NO_DEVICE ? EXIT_NO_DEVICE : EXIT_FAILED;
}

static int write_failed(const char *path, int error) {
    cli_error("%s cannot be written: %s", path != NULL ? path : "standard output", strerror(error));
    return EXIT_FAILED;
}

int cli_file_open(cli_file *file, const char *path) {
    *file = (cli_file){.stream = stdout, .path = path};
    if (path == NULL) {
        return EXIT_DONE;
    }
    struct stat existing;
    if (stat(path, &existing) == 0 && !S_ISREG(existing.st_mode)) {
        file->stream = fopen(path, "we");
        return file->stream != NULL ? EXIT_DONE : write_failed(path, errno);
    }
    if (asprintf(&file->temporary, "%s.XXXXXX", path) < 0) {
        file->temporary = NULL;
        return write_failed(path, ENOMEM);
    }
    int descriptor = mkstemp(file->temporary);
    int error = errno;
    if (descriptor >= 0) {
        /* mkstemp makes the file private; a result gets the mode that any new file gets. */
        mode_t mask = umask(0);
        (void)umask(mask);
        file->stream = fchmod(descriptor, 0666 & ~mask) == 0 ? fdopen(descriptor, "w") : NULL;
        if (file->stream != NULL) {
            return EXIT_DONE;
        }
        error = errno;
        (void)close(descriptor);
        (void)unlink(file->temporary);
    }
    free(file->temporary);
    file->temporary = NULL;
    return write_failed(path, error);
}

int cli_file_close(cli_file *file, bool keep) {
    int error = 0;
    if (fflush(file->stream) != 0) {
        error = errno;
    } else if (ferror(file->stream)) {
        error = EIO;
    }
    if (file->path == NULL) {
        return error == 0 ? EXIT_DONE : write_failed(NULL, error);
    }
    if (error == 0 && keep && file->temporary != NULL && fsync(fileno(file->stream)) != 0) {
        error = errno;
    }
    if (fclose(file->stream) != 0 && error == 0) {
        error = errno;
    }
    if (file->temporary != NULL) {
        if (error == 0 && keep && rename(file->temporary, file->path) != 0) {
            error = errno;
        }
        if (error != 0 || !keep) {
            (void)unlink(file->temporary);
        }
        free(file->temporary);
        file->temporary = NULL;
    }
    return error == 0 ? EXIT_DONE : write_failed(file->path, error);
}

int cli_save(const json_t *result, const char *path) {
    cli_file file;
    if (cli_file_open(&file, path) != EXIT_DONE) {
        return EXIT_FAILED;
    }
    bool written = json_dumpf(result, file.stream, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) == 0 &&
                   fputc('\n', file.stream) != EOF;
    int error = errno;
    int code = cli_file_close(&file, written);
    return code == EXIT_DONE && !written ? write_failed(path, error) : code;
}

int cli_result(const cli_options *options, json_t *result, void (*table)(FILE *out, const json_t *result)) {
    int code = EXIT_DONE;
    if (options->output != NULL) {
        code = cli_save(result, options->output);
    }
    if (options->json) {
        int printed = cli_save(result, NULL);
        code = code == EXIT_DONE ? printed : code;
    } else {
        table(stdout, result);
    }
    json_decref(result);
    return cli_finish(code);
}

int cli_finish(int code) {
    if (fflush(stdout) != 0 || ferror(stdout)) {
        int error = errno;
        clearerr(stdout);
        int failed = write_failed(NULL, error);
        return code == EXIT_DONE ? failed : code;
    }
    return code;
}
