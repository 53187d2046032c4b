#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "build_set.h"
#include "compile_pool.h"
#include "device/device.h"

typedef struct entry {
    char source_hash[DB_HASH_CAPACITY], code_hash[DB_HASH_CAPACITY];
    char compiler[16], target[32], version[64], format[16], name[64]; /* name: a slot that has it, for diagnostics */
    json_t *source;                                                   /* string */
    void *code;                                                       /* NULL: none (yet) */
    size_t code_size;
    char *reason; /* why there is no code */
    bool tried;
} entry;

struct build_set {
    entry *entries;
    size_t count, capacity;
    build_counts counts;
};

/* The entries that one call of compile_all compiles. */
typedef struct batch {
    build_set *set;
    size_t *indices;
} batch;

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
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "module %zu of the plan names a source that is missing",
                            index);
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
        (void)snprintf(one->name, sizeof one->name, "%s", text(module, "slot"));
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

static mlpbwd_status take_result(void *user, size_t index, const compile_result *result, mlp_message *why) {
    const batch *work = user;
    entry *one = &work->set->entries[work->indices[index]];
    if (result->bytes == NULL || strcmp(result->outcome, "compiled") != 0) {
        refuse(work->set, one, result->reason != NULL && result->reason[0] != '\0' ? result->reason : result->outcome);
        return MLPBWD_OK;
    }
    one->code = malloc(result->size + 1);
    if (one->code == NULL) {
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    }
    memcpy(one->code, result->bytes, result->size);
    one->code_size = result->size;
    (void)snprintf(one->format, sizeof one->format, "%s", result->format);
    db_hash(one->code, one->code_size, one->code_hash);
    one->tried = true;
    work->set->counts.compiled++;
    return MLPBWD_OK;
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

/* Everything still to be compiled with the compiler and for the target of entries[first]. */
static mlpbwd_status compile_like(build_set *set, size_t first, compile_settings *settings, mlp_message *why) {
    compile_source *sources = calloc(set->count, sizeof *sources);
    batch work = {set, calloc(set->count, sizeof *work.indices)};
    size_t count = 0;
    mlpbwd_status status = MLPBWD_OK;
    if (sources == NULL || work.indices == NULL) {
        status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    } else {
        settings->compiler = set->entries[first].compiler;
        settings->target = set->entries[first].target;
        for (size_t i = first; i < set->count; i++) {
            const entry *one = &set->entries[i];
            if (!one->tried && strcmp(one->compiler, settings->compiler) == 0 &&
                strcmp(one->target, settings->target) == 0) {
                sources[count] = (compile_source){one->name, json_string_value(one->source)};
                work.indices[count++] = i;
            }
        }
        compile_callbacks callbacks = {.done = take_result, .user = &work};
        status = compile_all(settings, sources, count, &callbacks, why);
    }
    free(sources);
    free(work.indices);
    return status;
}

mlpbwd_status build_set_compile(build_set *set, int jobs, double limit_seconds, db *cache,
                                const volatile int *interrupted, mlp_message *why) {
    compile_settings settings = {.jobs = jobs > 0 ? jobs : processors(),
                                 .limit_seconds = limit_seconds > 0 ? limit_seconds : 120.0,
                                 .memory_bytes = (size_t)8 << 30,
                                 .interrupted = interrupted};
    mlpbwd_status status = prepare(set, cache, why);
    for (size_t i = 0; status == MLPBWD_OK && i < set->count && (interrupted == NULL || *interrupted == 0); i++) {
        if (!set->entries[i].tried) {
            status = compile_like(set, i, &settings, why);
        }
    }
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
        status =
            db_put_blob(database, "source", json_string_value(one->source), json_string_length(one->source), hash, why);
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
