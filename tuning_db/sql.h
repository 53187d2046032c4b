/* Statements with messages: private to tuning_db (and its tests). */
#ifndef MLP_SQL_H
#define MLP_SQL_H

#include <sqlite3.h>

#include "db.h"

enum { SQL_BUSY_MILLISECONDS = 5000 };

struct db {
    sqlite3 *handle;
    char *path;  /* as the caller gave it */
    char *shown; /* the same as UTF-8 */
    bool read_only;
};

/* A prepared statement. Binding goes from left to right; the first failure is kept and reported by the next step. */
typedef struct sql {
    const db *database;
    sqlite3_stmt *statement;
    const char *doing; /* static text for messages, "reading plans" */
    int bound;
    int error;
} sql;

/* Turns an SQLite result code into a sentence with the path and what it means for the rows. SQLITE_NOMEM is
 * OUT_OF_MEMORY, everything else DATABASE_ERROR. */
mlpbwd_status sql_fail(const db *database, const char *doing, int code, mlp_message *why);

/* Runs statements without parameters or results. */
mlpbwd_status sql_exec(const db *database, const char *doing, const char *text, mlp_message *why);

/* On failure there is nothing to close, but sql_close is harmless. */
mlpbwd_status sql_open(sql *s, const db *database, const char *doing, const char *text, mlp_message *why);
void sql_close(sql *s);

/* Bound memory must live until the statement is closed. sql_add_median binds NULL for negative values. */
void sql_add_text(sql *s, const char *text);
void sql_add_integer(sql *s, int64_t value);
void sql_add_median(sql *s, double median_us);
void sql_add_bytes(sql *s, const void *bytes, size_t size);

/* *row: there is a row to read. */
mlpbwd_status sql_next(sql *s, bool *row, mlp_message *why);
/* Steps to the end and closes, also on failure. */
mlpbwd_status sql_finish(sql *s, mlp_message *why);

/* Text of a column until the next step; NULL if it is no text or has a NUL inside (a damaged file). */
const char *sql_text(const sql *s, int column);
/* The stored median, -1 for NULL, or 0 (which no row may have) for anything else. */
double sql_median(const sql *s, int column);

/* One integer of a statement without parameters. */
mlpbwd_status sql_number(const db *database, const char *doing, const char *text, int64_t *value, mlp_message *why);

/* A transaction of its own, or a savepoint inside the caller's. scope_end commits (status OK) or undoes, and returns
 * status, or why the commit failed. */
typedef struct sql_scope {
    db *database;
    bool nested;
} sql_scope;
mlpbwd_status sql_scope_begin(sql_scope *scope, db *database, mlp_message *why);
mlpbwd_status sql_scope_end(sql_scope *scope, mlpbwd_status status, mlp_message *why);

#endif
