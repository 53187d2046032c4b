/* Which databases are asked, and where they are. */
#include "lookup.h"

#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"

/* Paths from the folder of the library or program that holds this code to the shipped database, best first: installed
 * library, installed tool, a build's libraries and tests, a build's tool, a copy beside the library. */
static const char *const relative_paths[] = {MLPBWD_DATA_FROM_LIBDIR "/mlpbwd.sqlite",
                                             MLPBWD_DATA_FROM_BINDIR "/mlpbwd.sqlite", "../share/mlpbwd/mlpbwd.sqlite",
                                             "share/mlpbwd/mlpbwd.sqlite", "mlpbwd.sqlite"};

typedef struct module_search {
    uintptr_t address;
    char path[PATH_MAX];
} module_search;

static int match_module(struct dl_phdr_info *info, size_t size, void *user) {
    module_search *search = user;
    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = (uintptr_t)info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD || search->address < start || search->address - start >= segment->p_memsz)
            continue;
        /* The program itself has no name here (and dladdr's, argv[0], need not be a path). */
        const char *name = info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe";
        if (!realpath(name, search->path))
            search->path[0] = '\0';
        return 1;
    }
    return 0;
}

void lookup_shipped_path(char *path, size_t capacity) {
    const char *chosen = secure_getenv("MLPBWD_SHIPPED_DATABASE");
    int length = 0;
    if (chosen) {
        length = snprintf(path, capacity, "%s", chosen);
        if (length < 0 || (size_t)length >= capacity)
            path[0] = '\0';
        return;
    }
    path[0] = '\0';
    module_search search = {.address = (uintptr_t)relative_paths};
    dl_iterate_phdr(match_module, &search);
    char *slash = strrchr(search.path, '/');
    if (!slash)
        return;
    *slash = '\0';
    for (size_t i = 0; i < sizeof relative_paths / sizeof *relative_paths; i++) {
        char joined[PATH_MAX * 2], resolved[PATH_MAX];
        length = snprintf(joined, sizeof joined, "%s%s%s", relative_paths[i][0] == '/' ? "" : search.path,
                          relative_paths[i][0] == '/' ? "" : "/", relative_paths[i]);
        if (length < 0 || (size_t)length >= sizeof joined || !realpath(joined, resolved) ||
            strlen(resolved) >= capacity)
            continue;
        snprintf(path, capacity, "%s", resolved);
        return;
    }
}

unsigned lookup_found_by_default(const char *explicit_path, size_t count) {
    const char *named = secure_getenv("MLPBWD_DATABASE");
    if (explicit_path)
        return 0;
    return ((1U << count) - 1) & ~(named && named[0] ? 1U : 0U); /* the user's is the first */
}

bool lookup_forgive(const lookup_request *request, const db *database, mlpbwd_status status, const mlp_message *why) {
    if (status != MLPBWD_DATABASE_ERROR)
        return false;
    for (size_t i = 0; i < request->database_count; i++)
        if (request->databases[i] == database && (request->by_default >> i & 1)) {
            log_message("left out: %s", why->text);
            return true;
        }
    return false;
}

static mlpbwd_status add_user(db *databases[2], size_t *count, mlp_message *why) {
    char path[PATH_MAX];
    bool from_environment = false;
    mlpbwd_status status = db_default_user_path(path, sizeof path, &from_environment, why);
    if (status != MLPBWD_OK || !path[0] || (!from_environment && access(path, F_OK) != 0))
        return status;
    mlp_message reason = {0};
    status = db_open(path, DB_READ_ONLY, &databases[*count], &reason);
    if (status == MLPBWD_OK) {
        (*count)++;
    } else if (from_environment) {
        if (why)
            *why = reason;
        mlp_prefix(why, "MLPBWD_DATABASE");
    } else {
        log_message("the user's database is left out: %s", reason.text);
        status = MLPBWD_OK;
    }
    return status;
}

static void add_shipped(db *databases[2], size_t *count) {
    char path[PATH_MAX];
    mlp_message reason = {0};
    lookup_shipped_path(path, sizeof path);
    if (!path[0])
        return;
    if (db_open(path, DB_READ_ONLY, &databases[*count], &reason) == MLPBWD_OK)
        (*count)++;
    else
        log_message("the shipped database is left out: %s", reason.text);
}

mlpbwd_status lookup_open_databases(const char *explicit_path, db *databases[2], size_t *count, mlp_message *why) {
    databases[0] = databases[1] = NULL;
    *count = 0;
    if (explicit_path) {
        mlpbwd_status status = db_open(explicit_path, DB_READ_ONLY, &databases[0], why);
        *count = status == MLPBWD_OK;
        /* Whatever is wrong with it ("" is no path at all), it is a path that cannot be opened. */
        return status == MLPBWD_INVALID_ARGUMENT ? MLPBWD_DATABASE_ERROR : status;
    }
    mlpbwd_status status = add_user(databases, count, why);
    if (status == MLPBWD_OK)
        add_shipped(databases, count);
    return status;
}
