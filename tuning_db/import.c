#include "import.h"

#include <stdlib.h>

typedef struct importing {
    db *database;
    const import_file *file;
    bool store; /* else only look whether the blobs are at hand */
} importing;

static mlpbwd_status take_blob(void *user, const char *hash, mlp_message *why) {
    const importing *i = user;
    const import_blob *blob = import_find_blob(i->file, hash);
    if (blob) {
        char stored[DB_HASH_CAPACITY];
        return i->store ? db_put_blob(i->database, blob->format, blob->bytes, blob->size, stored, why) : MLPBWD_OK;
    }
    void *bytes;
    mlpbwd_status status = db_get_blob(i->database, hash, &bytes, NULL, NULL, why);
    if (status == MLPBWD_OK && !bytes)
        status = mlp_fail(why, MLPBWD_DATABASE_ERROR,
                          "field \"plan\" names blob %s, which is neither in the file nor in the database", hash);
    free(bytes);
    return status;
}

static mlpbwd_status no_plan(mlp_message *why) {
    return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                    "field \"plan\" is missing; `mlpbwd db export --with-code` writes files with plans");
}

static mlpbwd_status complete_row(importing *i, db_plan_row *row, char **plan, db_complete complete, void *user,
                                  mlp_message *why) {
    if (!complete)
        return no_plan(why);
    mlpbwd_status status = complete(user, i->database, row, plan, why);
    if (status == MLPBWD_OK && !*plan)
        status = mlp_fail(why, MLPBWD_UNSUPPORTED, "no plan could be made from its parameters");
    row->plan = *plan;
    return status;
}

static mlpbwd_status import_one(importing *i, const import_row *in, db_complete complete, void *user, db_report *report,
                                mlp_message *why) {
    db_plan_row row = in->row;
    row_rank rank;
    mlpbwd_status status = plan_rank(i->database, &row, &rank, why);
    if (status != MLPBWD_OK)
        return status;
    char name[ROW_NAME_CAPACITY];
    plan_row_name(&row, name);
    if (!rank_beaten(&rank, row.median_us, row.date)) {
        report_line(report, "kept the row that is there: %s", name);
        report->kept += 1;
        return MLPBWD_OK;
    }
    char *plan = NULL;
    if (row.plan)
        status = plan_each_blob(in->plan_json, take_blob, i, why);
    else
        status = complete_row(i, &row, &plan, complete, user, why);
    if (status == MLPBWD_OK)
        status = db_put_plan(i->database, &row, why);
    free(plan);
    if (status != MLPBWD_OK)
        return status;
    if (rank.present)
        report_line(report, "replaced: %s", name);
    *(rank.present ? &report->replaced : &report->added) += 1;
    return MLPBWD_OK;
}

/* Before anything is written, so that a bad last row does not cost the compilation of all earlier ones. */
static mlpbwd_status check_rows(importing *i, bool can_complete, mlp_message *why) {
    i->store = false;
    for (size_t r = 0; r < i->file->row_count; ++r) {
        const import_row *in = &i->file->rows[r];
        mlpbwd_status status = MLPBWD_OK;
        if (in->plan_json)
            status = plan_each_blob(in->plan_json, take_blob, i, why);
        else if (!can_complete)
            status = no_plan(why);
        if (status != MLPBWD_OK) {
            mlp_prefix(why, "row %zu", r);
            return status;
        }
    }
    i->store = true;
    return MLPBWD_OK;
}

mlpbwd_status db_import(db *database, const char *path, db_complete complete, void *user, db_report *report,
                        mlp_message *why) {
    if (!path || !*path)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "the path of the file to import is empty");
    import_file file;
    mlpbwd_status status = import_read(path, &file, why);
    if (status != MLPBWD_OK)
        return status;
    db_report counts = {0};
    if (report)
        counts = (db_report){.line = report->line, .user = report->user};
    importing i = {.database = database, .file = &file};
    sql_scope scope;
    status = sql_scope_begin(&scope, database, why);
    if (status == MLPBWD_OK) {
        status = check_rows(&i, complete != NULL, why);
        for (size_t r = 0; r < file.row_count && status == MLPBWD_OK; ++r) {
            status = import_one(&i, &file.rows[r], complete, user, &counts, why);
            if (status != MLPBWD_OK)
                mlp_prefix(why, "row %zu", r);
        }
        if (status != MLPBWD_OK)
            mlp_prefix(why, "%s", path);
        status = sql_scope_end(&scope, status, why);
    }
    import_free(&file);
    if (status == MLPBWD_OK && report) {
        report->added += counts.added;
        report->replaced += counts.replaced;
        report->kept += counts.kept;
    }
    return status;
}
