#include "rows.h"

/* Names of blobs that must stay, collected from the JSON of the plans. */
static mlpbwd_status name_blob(void *user, const char *hash, mlp_message *why) {
    const db *database = user;
    sql s;
    mlpbwd_status status =
        sql_open(&s, database, "noting the blobs of plans", "INSERT OR IGNORE INTO temp.named (hash) VALUES (?)", why);
    if (status != MLPBWD_OK)
        return status;
    sql_add_text(&s, hash);
    return sql_finish(&s, why);
}

static mlpbwd_status name_plan(void *user, const db_plan_row *row, mlp_message *why) {
    json_t *plan = json_parse_object(row->plan, why);
    mlpbwd_status status = plan ? plan_each_blob(plan, name_blob, user, why) : MLPBWD_DATABASE_ERROR;
    json_decref(plan);
    if (status != MLPBWD_OK) { /* what cannot be read names nothing, and its blobs would be lost */
        char name[ROW_NAME_CAPACITY];
        plan_row_name(row, name);
        mlp_prefix(why, "%s: nothing was removed, because the plan of %s is damaged", db_path(user), name);
    }
    return status == MLPBWD_INVALID_ARGUMENT ? MLPBWD_DATABASE_ERROR : status;
}

static mlpbwd_status remove_candidates(db *database, int older_than_days, int64_t *removed, mlp_message *why) {
    sql s;
    mlpbwd_status status = sql_open(
        &s, database, "removing candidates",
        "DELETE FROM candidates WHERE ?1 <= 0 OR date < strftime('%Y-%m-%dT%H:%M:%SZ', 'now', -?1 || ' days')", why);
    if (status != MLPBWD_OK)
        return status;
    sql_add_integer(&s, older_than_days);
    status = sql_finish(&s, why);
    *removed = sqlite3_changes64(database->handle);
    return status;
}

static mlpbwd_status remove_rows(db *database, int older_than_days, int64_t *candidates, int64_t *blobs,
                                 mlp_message *why) {
    mlpbwd_status status = sql_exec(database, "preparing to remove",
                                    "CREATE TEMP TABLE IF NOT EXISTS named (hash TEXT PRIMARY KEY);"
                                    "CREATE TEMP TABLE IF NOT EXISTS forgotten (hash TEXT PRIMARY KEY);"
                                    "DELETE FROM temp.named; DELETE FROM temp.forgotten;"
                                    "INSERT OR IGNORE INTO temp.forgotten SELECT source_hash FROM candidates",
                                    why);
    if (status == MLPBWD_OK)
        status = db_each_plan(database, NULL, name_plan, database, why);
    if (status == MLPBWD_OK)
        status = remove_candidates(database, older_than_days, candidates, why);
    if (status == MLPBWD_OK)
        status = sql_exec(database, "removing compiled kernels",
                          "DELETE FROM compiled WHERE source_hash IN (SELECT hash FROM temp.forgotten) AND "
                          "source_hash NOT IN (SELECT source_hash FROM candidates) AND "
                          "source_hash NOT IN (SELECT hash FROM temp.named)",
                          why);
    if (status == MLPBWD_OK)
        status = sql_exec(database, "removing blobs",
                          "DELETE FROM blobs WHERE hash NOT IN (SELECT hash FROM temp.named UNION ALL "
                          "SELECT source_hash FROM candidates UNION ALL SELECT code_hash FROM candidates UNION ALL "
                          "SELECT source_hash FROM compiled UNION ALL SELECT code_hash FROM compiled)",
                          why);
    *blobs = sqlite3_changes64(database->handle);
    return status;
}

mlpbwd_status db_prune(db *database, int older_than_days, db_report *report, mlp_message *why) {
    if (!sqlite3_get_autocommit(database->handle))
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s cannot be pruned inside a transaction", database->path);
    int64_t candidates = 0, blobs = 0, kept = 0;
    sql_scope scope;
    mlpbwd_status status = sql_scope_begin(&scope, database, why);
    if (status != MLPBWD_OK)
        return status;
    status = remove_rows(database, older_than_days, &candidates, &blobs, why);
    if (status == MLPBWD_OK)
        status = sql_number(database, "counting candidates", "SELECT count(*) FROM candidates", &kept, why);
    status = sql_scope_end(&scope, status, why);
    if (status != MLPBWD_OK)
        return status;
    if (report) {
        report->rejected += candidates;
        report->kept += kept;
        report_line(report, "removed %lld candidates and %lld blobs; %lld candidates stay", (long long)candidates,
                    (long long)blobs, (long long)kept);
    }
    return sql_exec(database, "shrinking the file (what was to be removed is removed)", "VACUUM", why);
}
