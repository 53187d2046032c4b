#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "imports.h"

/* The plan of a row that has parameters only. */
static mlpbwd_status rebuild(const imports *work, const db_plan_row *row, json_t **plan, json_t **sources,
                             mlp_message *why) {
    json_error_t error;
    json_t *selection = json_loads(row->parameters, 0, &error);
    if (selection == NULL) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "the parameters are not JSON: %s", error.text);
    }
    gen_target target = {row->arch, row->accuracy};
    mlpbwd_status status = gen_build_plan(work->generator, row->pipeline, &target, selection, plan, sources, why);
    json_decref(selection);
    return status;
}

static mlpbwd_status dump_plan(const json_t *plan, char **text, mlp_message *why) {
    *text = json_dumps(plan, JSON_COMPACT | JSON_SORT_KEYS);
    return *text != NULL ? MLPBWD_OK : mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
}

/* Makes a row's plan again. First pass (collect): its sources are noted, to be compiled; nothing but sources is stored,
 * so that the row is valid in the throw-away database. Second pass: its machine code is named and stored. */
static mlpbwd_status complete_row(imports *work, bool collect, db *database, const db_plan_row *row, char **text,
                                  mlp_message *why) {
    json_t *plan = NULL;
    json_t *sources = NULL;
    mlpbwd_status status = rebuild(work, row, &plan, &sources, why);
    if (status == MLPBWD_OK && collect) {
        status = build_set_add(work->set, plan, sources, why);
    } else if (status == MLPBWD_OK) {
        work->incomplete += build_set_apply(work->set, plan) > 0 ? 1 : 0;
    }
    if (status == MLPBWD_OK) {
        status = build_set_store(work->set, plan, database, why);
    }
    if (status == MLPBWD_OK) {
        status = dump_plan(plan, text, why);
    }
    json_decref(plan);
    json_decref(sources);
    return status;
}

static mlpbwd_status collect_row(void *user, db *database, const db_plan_row *row, char **text, mlp_message *why) {
    return complete_row(user, true, database, row, text, why);
}

static mlpbwd_status store_row(void *user, db *database, const db_plan_row *row, char **text, mlp_message *why) {
    return complete_row(user, false, database, row, text, why);
}

static mlpbwd_status import_each(const char *const *files, size_t count, db *into, db_complete complete, imports *work,
                                 db_report *report, mlp_message *why) {
    for (size_t i = 0; i < count; i++) {
        mlpbwd_status status = db_import(into, files[i], complete, work, report, why);
        if (status != MLPBWD_OK) {
            if (strstr(why->text, files[i]) == NULL) {
                mlp_prefix(why, "%s", files[i]);
            }
            return status;
        }
    }
    return MLPBWD_OK;
}

mlpbwd_status imports_collect(imports *work, const char *const *files, size_t count, mlp_message *why) {
    const char *base = getenv("TMPDIR");
    char folder[PATH_MAX];
    char path[PATH_MAX + 16];
    int length = snprintf(folder, sizeof folder, "%s/mlpbwd-XXXXXX", base != NULL && base[0] != '\0' ? base : "/tmp");
    if (length < 0 || (size_t)length >= sizeof folder || mkdtemp(folder) == NULL) {
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "no temporary folder %s: %s", folder, strerror(errno));
    }
    (void)snprintf(path, sizeof path, "%s/try.sqlite", folder);
    db *scratch = NULL;
    mlpbwd_status status = db_open(path, DB_READ_WRITE, &scratch, why);
    if (status == MLPBWD_OK) {
        status = import_each(files, count, scratch, collect_row, work, NULL, why);
    }
    db_close(scratch);
    (void)unlink(path);
    (void)rmdir(folder);
    return status;
}

mlpbwd_status imports_store(imports *work, const char *const *files, size_t count, db *into, db_report *report,
                            mlp_message *why) {
    return import_each(files, count, into, store_row, work, report, why);
}
