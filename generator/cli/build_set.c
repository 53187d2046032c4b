#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build_set.h"
#include "device/device.h"

typedef struct entry {
    char source_hash[DB_HASH_CAPACITY], code_hash[DB_HASH_CAPACITY];
    char compiler[16], target[32], version[64], format[16];
    json_t *source; /* string */
    void *code;     /* NULL: none (yet) */
    size_t code_size;
    char *reason; /* why there is no code */
    bool tried;
} entry;

struct build_set {
    entry *entries;
    size_t count, capacity;
    build_counts counts;
};

build_set *build_set_new(void) {
    return calloc(1, sizeof(build_set));
}

void build_set_free(build_set *set) {
    if (set == NULL) {
        return;
    }
    for (size_t i = 0; i < set->count; i++) {
        json_decref(set->entries[i].source);
        free(set->entries[i].code);
        free(set->entries[i].reason);
    }
    free(set->entries);
    free(set);
}

build_counts build_set_counts(const build_set *set) {
    return set->counts;
}

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL ? value : "";
}

static entry *find(const build_set *set, const json_t *module) {
    for (size_t i = 0; i < set->count; i++) {
        entry *one = &set->entries[i];
        if (strcmp(one->source_hash, text(module, "source")) == 0 && strcmp(one->target, text(module, "target")) == 0 &&
            strcmp(one->compiler, text(module, "compiler")) == 0) {
            return one;
        }
    }
    return NULL;
}

mlpbwd_status build_set_add(build_set *set, const json_t *plan, const json_t *sources, mlp_message *why) {
    size_t index = 0;
    json_t *module = NULL;
    json_array_foreach(json_object_get(plan, "modules"), index, module) {
        json_t *source = json_object_get(sources, text(module, "source"));
        if (!json_is_string(source)) {
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "module %zu of the plan names a source that is missing", index);
        }
        if (find(set, module) != NULL) {
            continue;
        }
        if (set->count == set->capacity) {
            size_t capacity = set->capacity * 2 + 32;
            entry *grown = realloc(set->entries, capacity * sizeof *grown);
            if (grown == NULL) {
                return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
            }
            set->entries = grown;
            set->capacity = capacity;
        }
        entry *one = &set->entries[set->count++];
        *one = (entry){.source = json_incref(source)};
        (void)snprintf(one->source_hash, sizeof one->source_hash, "%s", text(module, "source"));
        (void)snprintf(one->compiler, sizeof one->compiler, "%s", text(module, "compiler"));
        (void)snprintf(one->target, sizeof one->target, "%s", text(module, "target"));
    }
    return MLPBWD_OK;
}

static void refuse(build_set *set, entry *one, const char *reason) {
    one->tried = true;
    one->reason = strdup(reason);
    set->counts.failed++;
}

static mlpbwd_status ask_cache(build_set *set, entry *one, db *cache, mlp_message *why) {
    char hash[DB_HASH_CAPACITY] = "";
    mlpbwd_status status = db_get_compiled(cache, one->source_hash, one->target, one->version, hash, why);
    if (status != MLPBWD_OK || hash[0] == '\0') {
        return status;
    }
    status = db_get_blob(cache, hash, &one->code, &one->code_size, one->format, why);
    if (status == MLPBWD_OK && one->code != NULL) {
        memcpy(one->code_hash, hash, sizeof hash);
        one->tried = true;
        set->counts.cached++;
    }
    return status;
}

/* ---- one child process a compilation ---- */

static bool write_all(int descriptor, const void *bytes, size_t size) {
    const char *at = bytes;
    while (size > 0) {
        ssize_t written = write(descriptor, at, size);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return false;
        }
        at += written;
        size -= (size_t)written;
    }
    return true;
}

/* In the child: the result file holds the format (16 bytes) and the code, or a refusal's text behind a zero byte. */
static int compile_into(const entry *one, int descriptor) {
    dev_compile_request request = {
        .compiler = one->compiler, .target = one->target, .source = json_string_value(one->source), .name = "kernel"};
    dev_image image = {0};
    mlp_message why = {""};
    char format[16] = "";
    bool written = false;
    if (dev_compile(&request, &image, &why) == MLPBWD_OK) {
        memcpy(format, image.format, sizeof format);
        written = write_all(descriptor, format, sizeof format) && write_all(descriptor, image.bytes, image.size);
    } else {
        written = write_all(descriptor, format, sizeof format) && write_all(descriptor, why.text, strlen(why.text));
    }
    return written && close(descriptor) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

typedef struct job {
    pid_t process;
    size_t index;
    int descriptor; /* an unlinked temporary file, shared with the child */
} job;

static int temporary_file(void) {
    const char *folder = getenv("TMPDIR");
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/mlpbwd-XXXXXX", folder != NULL && folder[0] != '\0' ? folder : "/tmp");
    if (length < 0 || (size_t)length >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int descriptor = mkostemp(path, O_CLOEXEC);
    if (descriptor >= 0) {
        (void)unlink(path);
    }
    return descriptor;
}

static mlpbwd_status start(const build_set *set, job *one, double limit_seconds, mlp_message *why) {
    one->descriptor = temporary_file();
    if (one->descriptor < 0) {
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no temporary file for a compilation: %s", strerror(errno));
    }
    (void)fflush(NULL);
    one->process = fork();
    if (one->process < 0) {
        int error = errno;
        (void)close(one->descriptor);
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no process for a compilation: %s", strerror(error));
    }
    if (one->process == 0) {
        (void)signal(SIGINT, SIG_DFL);
        (void)signal(SIGTERM, SIG_DFL);
        (void)alarm((unsigned)(limit_seconds + 1.0));
        _exit(compile_into(&set->entries[one->index], one->descriptor));
    }
    return MLPBWD_OK;
}

static char *read_result(int descriptor, size_t *size) {
    struct stat facts;
    if (fstat(descriptor, &facts) != 0 || lseek(descriptor, 0, SEEK_SET) != 0) {
        return NULL;
    }
    char *bytes = malloc((size_t)facts.st_size + 1);
    size_t got = 0;
    while (bytes != NULL && got < (size_t)facts.st_size) {
        ssize_t part = read(descriptor, bytes + got, (size_t)facts.st_size - got);
        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part <= 0) {
            free(bytes);
            return NULL;
        }
        got += (size_t)part;
    }
    if (bytes != NULL) {
        bytes[got] = '\0';
    }
    *size = got;
    return bytes;
}

static void collect(build_set *set, const job *one, int exit_status) {
    entry *target = &set->entries[one->index];
    size_t size = 0;
    char *bytes = read_result(one->descriptor, &size);
    (void)close(one->descriptor);
    char reason[256];
    if (WIFSIGNALED(exit_status) && WTERMSIG(exit_status) == SIGALRM) {
        refuse(set, target, "the compiler took longer than the limit");
    } else if (WIFSIGNALED(exit_status)) {
        (void)snprintf(reason, sizeof reason, "the compiler ended on signal %d", WTERMSIG(exit_status));
        refuse(set, target, reason);
    } else if (!WIFEXITED(exit_status) || WEXITSTATUS(exit_status) != EXIT_SUCCESS || bytes == NULL ||
               size < sizeof target->format) {
        refuse(set, target, "the compiler's result could not be written to a temporary file (is the disk full?)");
    } else if (bytes[0] == '\0') {
        refuse(set, target, bytes + sizeof target->format);
    } else {
        memcpy(target->format, bytes, sizeof target->format);
        target->format[sizeof target->format - 1] = '\0';
        target->code_size = size - sizeof target->format;
        memmove(bytes, bytes + sizeof target->format, target->code_size);
        target->code = bytes;
        db_hash(target->code, target->code_size, target->code_hash);
        target->tried = true;
        set->counts.compiled++;
        return;
    }
    free(bytes);
}

static void wait_for_one(build_set *set, job *jobs, int *running) {
    int exit_status = 0;
    pid_t ended = wait(&exit_status);
    if (ended < 0) {
        return; /* EINTR: the caller looks at its interrupt flag and comes back */
    }
    for (int i = 0; i < *running; i++) {
        if (jobs[i].process == ended) {
            collect(set, &jobs[i], exit_status);
            jobs[i] = jobs[--*running];
            return;
        }
    }
}

/* Asks every compiler once for its version and the cache for what it has; what remains is to be compiled. */
static mlpbwd_status prepare(build_set *set, db *cache, mlp_message *why) {
    for (size_t i = 0; i < set->count; i++) {
        entry *one = &set->entries[i];
        if (one->tried) {
            continue;
        }
        const entry *same = NULL;
        for (size_t k = 0; k < i && same == NULL; k++) {
            same = strcmp(set->entries[k].compiler, one->compiler) == 0 ? &set->entries[k] : NULL;
        }
        mlp_message missing = {""};
        if (same != NULL && same->version[0] != '\0') {
            memcpy(one->version, same->version, sizeof one->version);
        } else if (same != NULL) {
            refuse(set, one, same->reason != NULL ? same->reason : "no compiler");
            continue;
        } else if (dev_compiler_version(one->compiler, one->version, sizeof one->version, &missing) != MLPBWD_OK) {
            one->version[0] = '\0';
            refuse(set, one, missing.text);
            continue;
        }
        mlpbwd_status status = cache != NULL ? ask_cache(set, one, cache, why) : MLPBWD_OK;
        if (status != MLPBWD_OK) {
            return status;
        }
    }
    return MLPBWD_OK;
}

static int processors(void) {
    cpu_set_t allowed;
    int count = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    return count > 0 ? count : 1;
}

mlpbwd_status build_set_compile(build_set *set, int jobs, double limit_seconds, db *cache,
                                const volatile int *interrupted, mlp_message *why) {
    mlpbwd_status status = prepare(set, cache, why);
    if (status != MLPBWD_OK) {
        return status;
    }
    int limit = jobs > 0 ? jobs : processors();
    job *running = calloc((size_t)limit, sizeof *running);
    if (running == NULL) {
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    }
    int count = 0;
    size_t next = 0;
    while (status == MLPBWD_OK && next < set->count && (interrupted == NULL || *interrupted == 0)) {
        if (set->entries[next].tried) {
            next++;
        } else if (count == limit) {
            wait_for_one(set, running, &count);
        } else {
            running[count].index = next++;
            status = start(set, &running[count], limit_seconds > 0 ? limit_seconds : 120.0, why);
            count += status == MLPBWD_OK ? 1 : 0;
        }
    }
    while (count > 0) {
        if (status != MLPBWD_OK || (interrupted != NULL && *interrupted != 0)) {
            for (int i = 0; i < count; i++) {
                (void)kill(running[i].process, SIGKILL);
            }
        }
        wait_for_one(set, running, &count);
    }
    free(running);
    return status;
}

void build_set_each_failure(const build_set *set,
                            void (*visit)(void *user, const char *compiler, const char *target, const char *reason,
                                          size_t count),
                            void *user) {
    for (size_t i = 0; i < set->count; i++) {
        const entry *one = &set->entries[i];
        size_t count = 0;
        bool first = true;
        for (size_t k = 0; one->reason != NULL && k < set->count; k++) {
            const entry *other = &set->entries[k];
            if (other->reason != NULL && strcmp(other->reason, one->reason) == 0 &&
                strcmp(other->target, one->target) == 0) {
                first = first && k >= i;
                count++;
            }
        }
        if (count > 0 && first) {
            visit(user, one->compiler, one->target, one->reason, count);
        }
    }
}

size_t build_set_apply(const build_set *set, json_t *plan) {
    size_t missing = 0;
    size_t index = 0;
    json_t *module = NULL;
    json_array_foreach(json_object_get(plan, "modules"), index, module) {
        const entry *one = find(set, module);
        if (one != NULL && one->code != NULL) {
            (void)json_object_set_new(module, "code", json_string(one->code_hash));
            (void)json_object_set_new(module, "code_format", json_string(one->format));
        } else {
            missing++;
        }
    }
    return missing;
}

mlpbwd_status build_set_store(const build_set *set, const json_t *plan, db *database, mlp_message *why) {
    size_t index = 0;
    json_t *module = NULL;
    mlpbwd_status status = MLPBWD_OK;
    json_array_foreach(json_object_get(plan, "modules"), index, module) {
        const entry *one = find(set, module);
        char hash[DB_HASH_CAPACITY];
        if (one == NULL) {
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "module %zu of the plan was never added", index);
        }
        status = db_put_blob(database, "source", json_string_value(one->source), json_string_length(one->source), hash,
                             why);
        if (status == MLPBWD_OK && one->code != NULL) {
            status = db_put_blob(database, one->format, one->code, one->code_size, hash, why);
        }
        if (status == MLPBWD_OK && one->code != NULL) {
            status = db_put_compiled(database, one->source_hash, one->target, one->version, one->code_hash, "", why);
        }
        if (status != MLPBWD_OK) {
            return status;
        }
    }
    return status;
}

mlpbwd_status build_set_blob(void *user, const char *hash, void **bytes, size_t *size, mlp_message *why) {
    const build_set *set = user;
    *bytes = NULL;
    *size = 0;
    for (size_t i = 0; i < set->count; i++) {
        const entry *one = &set->entries[i];
        bool source = strcmp(one->source_hash, hash) == 0;
        if (!source && (one->code == NULL || strcmp(one->code_hash, hash) != 0)) {
            continue;
        }
        *size = source ? json_string_length(one->source) : one->code_size;
        char *copy = malloc(*size + 1);
        if (copy == NULL) {
            return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
        }
        memcpy(copy, source ? (const void *)json_string_value(one->source) : one->code, *size);
        copy[*size] = '\0';
        *bytes = copy;
        return MLPBWD_OK;
    }
    return MLPBWD_OK;
}
