#include "sql.h"

#include <errno.h>
#include <string.h>

static bool no_room(int system_error) {
    return system_error == ENOSPC || system_error == EDQUOT || system_error == EFBIG;
}

/* sqlite3_system_errno alone is not enough: undoing a failed change may have reset errno before it was noted. */
static int system_error_of(const db *database) {
    int error = 0;
    if (!database->handle)
        return 0;
    if (sqlite3_file_control(database->handle, "main", SQLITE_FCNTL_LAST_ERRNO, &error) == SQLITE_OK && error != 0)
        return error;
    return sqlite3_system_errno(database->handle);
}

mlpbwd_status sql_fail(const db *database, const char *doing, int code, mlp_message *why) {
    const char *path = database->path;
    const char *detail = database->handle ? sqlite3_errmsg(database->handle) : sqlite3_errstr(code);
    int system_error = system_error_of(database);
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "%s: %s: out of memory", path, doing);
    case SQLITE_FULL:
        return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                        "%s: %s: the disk is full. Nothing of this change was kept; earlier rows are intact", path,
                        doing);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                        "%s: %s: another process is using the database (waited %d seconds). Try again when it is done",
                        path, doing, SQL_BUSY_MILLISECONDS / 1000);
    case SQLITE_NOTADB:
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s: %s: the file is no SQLite database, or its start is damaged",
                        path, doing);
    case SQLITE_CORRUPT:
        return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                        "%s: %s: the file is damaged (%s). Restore it from a copy or tune again into a new file", path,
                        doing, detail);
    case SQLITE_READONLY:
        if (code == SQLITE_READONLY_ROLLBACK)
            return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                            "%s: %s: a writer was interrupted and its journal (%s-journal) waits to be undone, which "
                            "cannot happen here because the folder or the file cannot be written. Open it once, with "
                            "its journal beside it, where it can be written: `mlpbwd db check --db FILE`",
                            path, doing, path);
        if (code == SQLITE_READONLY_DBMOVED)
            return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                            "%s: %s: the file was removed, moved or replaced while it was in use", path, doing);
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s: %s: the database is open for reading only", path, doing);
    case SQLITE_IOERR:
        if (no_room(system_error))
            return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                            "%s: %s: there is no room for the file to grow (%s). Nothing of this change was kept; "
                            "earlier rows are intact",
                            path, doing, strerror(system_error));
        return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                        "%s: %s: %s (SQLite's code %d, %s). Nothing of this change was kept; earlier rows are intact "
                        "unless the disk is failing",
                        path, doing, detail, code, system_error ? strerror(system_error) : "no system error was noted");
    case SQLITE_CANTOPEN:
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s: %s: %s (%s)", path, doing, detail,
                        system_error ? strerror(system_error) : "the file, its folder or its journal cannot be opened");
    default:
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s: %s: %s", path, doing, detail);
    }
}

mlpbwd_status sql_exec(const db *database, const char *doing, const char *text, mlp_message *why) {
    int code = sqlite3_exec(database->handle, text, NULL, NULL, NULL);
    return code == SQLITE_OK ? MLPBWD_OK : sql_fail(database, doing, code, why);
}

mlpbwd_status sql_open(sql *s, const db *database, const char *doing, const char *text, mlp_message *why) {
    *s = (sql){.database = database, .doing = doing};
    int code = sqlite3_prepare_v2(database->handle, text, -1, &s->statement, NULL);
    return code == SQLITE_OK ? MLPBWD_OK : sql_fail(database, doing, code, why);
}

void sql_close(sql *s) {
    /* The result repeats the error of the last step, which has been reported. */
    (void)sqlite3_finalize(s->statement);
    s->statement = NULL;
}

static void keep_error(sql *s, int code) {
    if (code != SQLITE_OK && s->error == SQLITE_OK)
        s->error = code;
}

void sql_add_text(sql *s, const char *text) {
    keep_error(s, sqlite3_bind_text(s->statement, ++s->bound, text, -1, SQLITE_STATIC));
}

void sql_add_integer(sql *s, int64_t value) {
    keep_error(s, sqlite3_bind_int64(s->statement, ++s->bound, value));
}

void sql_add_median(sql *s, double median_us) {
    ++s->bound;
    keep_error(s, median_us < 0 ? sqlite3_bind_null(s->statement, s->bound)
                                : sqlite3_bind_double(s->statement, s->bound, median_us));
}

void sql_add_bytes(sql *s, const void *bytes, size_t size) {
    keep_error(s, sqlite3_bind_blob64(s->statement, ++s->bound, size ? bytes : "", size, SQLITE_STATIC));
}

mlpbwd_status sql_next(sql *s, bool *row, mlp_message *why) {
    *row = false;
    int code = s->error;
    if (code == SQLITE_OK) {
        code = sqlite3_step(s->statement);
        if (code == SQLITE_ROW) {
            *row = true;
            return MLPBWD_OK;
        }
        if (code == SQLITE_DONE)
            return MLPBWD_OK;
    }
    return sql_fail(s->database, s->doing, code, why);
}

mlpbwd_status sql_finish(sql *s, mlp_message *why) {
    mlpbwd_status status = MLPBWD_OK;
    bool row = true;
    while (status == MLPBWD_OK && row)
        status = sql_next(s, &row, why);
    sql_close(s);
    return status;
}

const char *sql_text(const sql *s, int column) {
    if (sqlite3_column_type(s->statement, column) != SQLITE_TEXT)
        return NULL;
    const char *text = (const char *)sqlite3_column_text(s->statement, column);
    if (!text || strlen(text) != (size_t)sqlite3_column_bytes(s->statement, column))
        return NULL;
    return text;
}

double sql_median(const sql *s, int column) {
    if (sqlite3_column_type(s->statement, column) == SQLITE_NULL)
        return -1;
    double median_us = sqlite3_column_double(s->statement, column);
    return median_us > 0 ? median_us : 0;
}

mlpbwd_status sql_number(const db *database, const char *doing, const char *text, int64_t *value, mlp_message *why) {
    *value = 0;
    sql s;
    mlpbwd_status status = sql_open(&s, database, doing, text, why);
    if (status != MLPBWD_OK)
        return status;
    bool row;
    status = sql_next(&s, &row, why);
    if (row)
        *value = sqlite3_column_int64(s.statement, 0);
    sql_close(&s);
    return status;
}

mlpbwd_status sql_scope_begin(sql_scope *scope, db *database, mlp_message *why) {
    *scope = (sql_scope){.database = database, .nested = !sqlite3_get_autocommit(database->handle)};
    if (scope->nested)
        return sql_exec(database, "starting a savepoint", "SAVEPOINT mlpbwd_scope", why);
    return db_begin(database, why);
}

mlpbwd_status sql_scope_end(sql_scope *scope, mlpbwd_status status, mlp_message *why) {
    db *database = scope->database;
    if (status == MLPBWD_OK) {
        if (!scope->nested)
            return db_commit(database, why);
        return sql_exec(database, "ending a savepoint", "RELEASE mlpbwd_scope", why);
    }
    if (!scope->nested)
        db_rollback(database);
    else if (!sqlite3_get_autocommit(database->handle)) /* a full disk has undone the whole transaction already */
        (void)sqlite3_exec(database->handle, "ROLLBACK TO mlpbwd_scope; RELEASE mlpbwd_scope", NULL, NULL, NULL);
    return status;
}
