/* Looks at everything a file says and holds it against what it should say. */
#include <stdlib.h>
#include <string.h>

#include "rows.h"

extern const char db_schema[];

typedef struct checking {
    db *database;
    db_report *report;
    const char *row; /* name of the row whose blobs are being looked for */
} checking;

#define PROBLEM(c, ...)                                                                                                \
    do {                                                                                                               \
        (c)->report->rejected += 1;                                                                                    \
        report_line((c)->report, __VA_ARGS__);                                                                         \
    } while (0)

/* A part that cannot be read is itself a finding; the other parts are still looked at. */
static void unreadable(checking *c, mlpbwd_status status, const mlp_message *reason) {
    if (status != MLPBWD_OK)
        PROBLEM(c, "%s", reason->text);
}

static void check_pages(checking *c) {
    mlp_message reason;
    sql s;
    bool found = true;
    mlpbwd_status status = sql_open(&s, c->database, "checking the file", "PRAGMA integrity_check(100)", &reason);
    while (status == MLPBWD_OK && found) {
        status = sql_next(&s, &found, &reason);
        const char *text = found ? sql_text(&s, 0) : NULL;
        if (found && (!text || strcmp(text, "ok") != 0))
            PROBLEM(c, "integrity: %s", text ? text : "unreadable");
    }
    sql_close(&s);
    unreadable(c, status, &reason);
    status = sql_open(&s, c->database, "checking references", "PRAGMA foreign_key_check", &reason);
    for (found = true; status == MLPBWD_OK && found;) {
        status = sql_next(&s, &found, &reason);
        if (found)
            PROBLEM(c, "references: a row of table %s names a blob that is not stored", sql_text(&s, 0));
    }
    sql_close(&s);
    unreadable(c, status, &reason);
}

/* Name and definition of every object, as one text. */
static mlpbwd_status read_schema(const db *database, char **text, mlp_message *why) {
    *text = NULL;
    sql s;
    mlpbwd_status status = sql_open(&s, database, "reading the schema",
                                    "SELECT group_concat(name || ': ' || sql, char(10)) FROM (SELECT name, sql FROM "
                                    "sqlite_schema WHERE sql IS NOT NULL ORDER BY name)",
                                    why);
    bool found = false;
    if (status == MLPBWD_OK)
        status = sql_next(&s, &found, why);
    if (status == MLPBWD_OK) {
        const char *value = found ? sql_text(&s, 0) : NULL;
        *text = strdup(value ? value : "");
        if (!*text)
            status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "%s: out of memory", database->path);
    }
    sql_close(&s);
    return status;
}

static mlpbwd_status check_schema(checking *c, mlp_message *why) {
    db fresh = {.path = c->database->path};
    char *expected = NULL, *actual = NULL;
    int code = sqlite3_open_v2(":memory:", &fresh.handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    mlpbwd_status status = code == SQLITE_OK ? sql_exec(&fresh, "making the schema to compare with", db_schema, why)
                                             : sql_fail(&fresh, "making the schema to compare with", code, why);
    if (status == MLPBWD_OK)
        status = read_schema(&fresh, &expected, why);
    if (status == MLPBWD_OK) {
        mlp_message reason;
        mlpbwd_status readable = read_schema(c->database, &actual, &reason);
        unreadable(c, readable, &reason);
        if (readable == MLPBWD_OK && strcmp(expected, actual) != 0)
            PROBLEM(c, "schema: the tables are not those that this version of the schema has");
    }
    free(expected);
    free(actual);
    (void)sqlite3_close_v2(fresh.handle);
    return status;
}

static void check_blobs(checking *c) {
    mlp_message reason;
    sql s;
    bool found = true;
    mlpbwd_status status =
        sql_open(&s, c->database, "reading blobs", "SELECT hash, format, bytes FROM blobs ORDER BY hash", &reason);
    while (status == MLPBWD_OK && found) {
        status = sql_next(&s, &found, &reason);
        if (status != MLPBWD_OK || !found)
            break;
        const char *hash = sql_text(&s, 0);
        char actual[DB_HASH_CAPACITY];
        const void *bytes = sqlite3_column_blob(s.statement, 2);
        size_t size = (size_t)sqlite3_column_bytes(s.statement, 2);
        db_hash(bytes, bytes ? size : 0, actual);
        if (!hash || strcmp(hash, actual) != 0)
            PROBLEM(c, "blob %s: its bytes have the SHA-256 %s", hash ? hash : "(no text)", actual);
        else if (!blob_format_is_known(sql_text(&s, 1)))
            PROBLEM(c, "blob %s: its format is not known", hash);
    }
    sql_close(&s);
    unreadable(c, status, &reason);
}

static mlpbwd_status look_for_blob(void *user, const char *hash, mlp_message *why) {
    checking *c = user;
    sql s;
    mlpbwd_status status = sql_open(&s, c->database, "looking for a blob", "SELECT 1 FROM blobs WHERE hash = ?", why);
    bool found = false;
    if (status == MLPBWD_OK) {
        sql_add_text(&s, hash);
        status = sql_next(&s, &found, why);
    }
    sql_close(&s);
    if (status == MLPBWD_OK && !found)
        PROBLEM(c, "plan of %s: blob %s is not stored", c->row, hash);
    return status;
}

static void check_plan(checking *c, const db_plan_row *row, mlp_message *reason) {
    char name[ROW_NAME_CAPACITY];
    plan_row_name(row, name);
    mlpbwd_status status = plan_row_check(row, true, reason);
    json_t *plan = status == MLPBWD_OK ? json_parse_object(row->plan, reason) : NULL;
    if (plan) {
        c->row = name;
        status = plan_each_blob(plan, look_for_blob, c, reason);
        json_decref(plan);
    }
    if (status != MLPBWD_OK)
        PROBLEM(c, "plan of %s: %s", name, reason->text);
}

static void check_plans(checking *c) {
    mlp_message reason;
    sql s;
    bool found = true;
    mlpbwd_status status = plans_open(&s, c->database, NULL, &reason);
    while (status == MLPBWD_OK && found) {
        status = sql_next(&s, &found, &reason);
        db_plan_row row;
        if (status != MLPBWD_OK || !found)
            break;
        if (plan_row_read(&s, &row, &reason) == MLPBWD_OK)
            check_plan(c, &row, &reason);
        else
            PROBLEM(c, "%s", reason.text);
    }
    sql_close(&s);
    unreadable(c, status, &reason);
}

static void check_candidates(checking *c) {
    mlp_message reason;
    sql s;
    bool found = true;
    mlpbwd_status status = candidates_open(&s, c->database, NULL, &reason);
    while (status == MLPBWD_OK && found) {
        status = sql_next(&s, &found, &reason);
        db_candidate candidate;
        if (status != MLPBWD_OK || !found)
            break;
        if (candidate_read(&s, &candidate, &reason) != MLPBWD_OK ||
            candidate_check(&candidate, true, &reason) != MLPBWD_OK)
            PROBLEM(c, "candidate: %s", reason.text);
    }
    sql_close(&s);
    unreadable(c, status, &reason);
}

mlpbwd_status db_check(db *database, db_report *report, mlp_message *why) {
    db_report unseen = {0};
    checking c = {.database = database, .report = report ? report : &unseen};
    mlpbwd_status status = check_schema(&c, why);
    if (status != MLPBWD_OK)
        return status;
    check_pages(&c);
    check_blobs(&c);
    check_plans(&c);
    check_candidates(&c);
    return MLPBWD_OK;
}
