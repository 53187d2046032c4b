#include "rows.h"

/* The two columns (text, number) of a query as an object; NULL on failure. */
static json_t *count_by_name(const db *database, const char *text, mlpbwd_status *status, mlp_message *why) {
    json_t *object = json_object();
    sql s = {0};
    bool found = object != NULL;
    *status = object ? sql_open(&s, database, "counting rows", text, why)
                     : mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "%s: out of memory", database->path);
    while (*status == MLPBWD_OK && found) {
        *status = sql_next(&s, &found, why);
        const char *name = found ? sql_text(&s, 0) : NULL;
        if (found && !name)
            *status = mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s: a stored name is damaged", database->path);
        else if (found && json_object_set_new(object, name, json_integer(sqlite3_column_int64(s.statement, 1))) != 0)
            *status =
                mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s: a stored name is damaged or memory is out", database->path);
    }
    sql_close(&s);
    if (*status == MLPBWD_OK)
        return object;
    json_decref(object);
    return NULL;
}

mlpbwd_status db_stats(db *database, char **json, mlp_message *why) {
    static const struct {
        const char *field, *text;
    } parts[] = {
        {"tables", "SELECT 'blobs', count(*) FROM blobs UNION ALL SELECT 'plans', count(*) FROM plans UNION ALL "
                   "SELECT 'candidates', count(*) FROM candidates UNION ALL SELECT 'compiled', count(*) FROM compiled"},
        {"blob_bytes", "SELECT format, sum(length(bytes)) FROM blobs GROUP BY format"},
        {"plans", "SELECT CASE device_name WHEN '' THEN 'default ' || arch ELSE device_name END, count(*) FROM plans "
                  "GROUP BY 1"},
        {"outcomes", "SELECT outcome, count(*) FROM candidates GROUP BY outcome"},
    };
    *json = NULL;
    json_t *all = json_object();
    if (!all)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "%s: out of memory", database->path);
    mlpbwd_status status = MLPBWD_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && status == MLPBWD_OK; ++i) {
        json_t *part = count_by_name(database, parts[i].text, &status, why);
        if (part && json_object_set_new(all, parts[i].field, part) != 0)
            status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "%s: out of memory", database->path);
    }
    if (status == MLPBWD_OK) {
        *json = json_canonical(all);
        if (!*json)
            status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "%s: out of memory", database->path);
    }
    json_decref(all);
    return status;
}
