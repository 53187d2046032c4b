/* Opening: judge the place, let SQLite recover what a killed writer left, refuse what is not ours or newer, create or
 * migrate the schema. */
#include <stdlib.h>
#include <string.h>

#include "names.h"
#include "place.h"
#include "sql.h"

enum { APPLICATION_ID = 0x6D6C7062 /* "mlpb" */, CURRENT_VERSION = 1 };

extern const char db_schema[]; /* schema.sql, made by CMake */

/* migrations[v] leads from version v to v + 1. */
static const char *const migrations[CURRENT_VERSION] = {db_schema};

static mlpbwd_status migrate(db *database, mlp_message *why);

static mlpbwd_status read_identity(db *database, int64_t *application, int64_t *version, int64_t *objects,
                                   mlp_message *why) {
    const char *doing = "reading the file's identity";
    mlpbwd_status status = sql_number(database, doing, "PRAGMA application_id", application, why);
    if (status == MLPBWD_OK)
        status = sql_number(database, doing, "PRAGMA user_version", version, why);
    if (status == MLPBWD_OK)
        status = sql_number(database, doing, "SELECT count(*) FROM sqlite_schema", objects, why);
    return status;
}

/* Every statement used later compiles only if its tables and columns are there. */
static mlpbwd_status check_tables(db *database, mlp_message *why) {
    static const char *const probes[] = {
        "SELECT hash, format, bytes FROM blobs",
        "SELECT device_name, arch, units, compute_capability, accuracy, hidden_size, intermediate_size, tokens, "
        "min_tokens, max_tokens, pipeline, parameters, plan, median_us, measurement, origin, date FROM plans",
        "SELECT device_name, arch, units, accuracy, hidden_size, intermediate_size, tokens, pipeline, slot, kernel, "
        "parameters, source_hash, outcome, reason, median_us, measurement, code_hash, date FROM candidates",
        "SELECT source_hash, arch, compiler, code_hash, log FROM compiled",
    };
    for (size_t i = 0; i < sizeof probes / sizeof *probes; ++i) {
        sql s;
        mlpbwd_status status = sql_open(&s, database, "looking for its tables", probes[i], why);
        if (status != MLPBWD_OK)
            return status;
        sql_close(&s);
    }
    return MLPBWD_OK;
}

/* SQLite counts a last page that is cut off as whole. Inside a transaction, so that no writer shortens the file between
 * the two looks. */
static mlpbwd_status check_length(db *database, mlp_message *why) {
    int64_t pages = 0, page_size = 0, expected = 0;
    sqlite3_file *file = NULL;
    sqlite3_int64 length = 0;
    mlpbwd_status status = sql_exec(database, "measuring the file", "BEGIN", why);
    if (status != MLPBWD_OK)
        return status;
    status = sql_number(database, "measuring the file", "PRAGMA page_size", &page_size, why);
    if (status == MLPBWD_OK) /* reads the first page, which takes the lock */
        status = sql_number(database, "measuring the file", "SELECT page_count FROM pragma_page_count", &pages, why);
    if (status == MLPBWD_OK) {
        int code = sqlite3_file_control(database->handle, "main", SQLITE_FCNTL_FILE_POINTER, (void *)&file);
        if (code == SQLITE_OK)
            code = file->pMethods->xFileSize(file, &length);
        if (code != SQLITE_OK)
            status = sql_fail(database, "measuring the file", code, why);
        expected = pages * page_size;
        if (status == MLPBWD_OK && length < expected)
            status =
                mlp_fail(why, MLPBWD_DATABASE_ERROR,
                         "%s: the file is damaged: it has %lld bytes and should have %lld. Restore it from a copy or "
                         "tune again into a new file",
                         database->path, (long long)length, (long long)expected);
    }
    db_rollback(database);
    return status;
}

static mlpbwd_status check_identity(db *database, mlp_message *why) {
    int64_t application, version, objects;
    mlpbwd_status status = read_identity(database, &application, &version, &objects, why);
    if (status != MLPBWD_OK)
        return status;
    if (application == 0 && version == 0 && objects == 0) {
        if (database->read_only)
            return mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s: the file is empty; `mlpbwd tune --db FILE` fills one",
                            database->path);
        return migrate(database, why);
    }
    if (application != APPLICATION_ID)
        return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                        "%s: an SQLite database of another program (application id %lld, a tuning database has %d)",
                        database->path, (long long)application, APPLICATION_ID);
    if (version > CURRENT_VERSION)
        return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                        "%s: the database has schema version %lld, this build knows versions up to %d. Use a newer "
                        "mlpbwd, or `mlpbwd db export` with the newer one and `mlpbwd db import` with this one",
                        database->path, (long long)version, CURRENT_VERSION);
    if (version < 1)
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s: the database has schema version %lld; versions start at 1",
                        database->path, (long long)version);
    if (version < CURRENT_VERSION) {
        if (database->read_only)
            return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                            "%s: the database has schema version %lld and this build reads version %d. "
                            "`mlpbwd db import` into it, or any other writing command, brings it up to date",
                            database->path, (long long)version, CURRENT_VERSION);
        status = migrate(database, why);
        if (status != MLPBWD_OK)
            return status;
    }
    return check_tables(database, why);
}

static mlpbwd_status migrate(db *database, mlp_message *why) {
    mlpbwd_status status = db_begin(database, why);
    if (status != MLPBWD_OK)
        return status;
    /* Another process may have done it while this one waited for the lock. */
    int64_t application = 0, version = 0, objects = 0;
    status = read_identity(database, &application, &version, &objects, why);
    for (int64_t next = version; status == MLPBWD_OK && next < CURRENT_VERSION; ++next)
        status = sql_exec(database, "creating its tables", migrations[next], why);
    if (status == MLPBWD_OK) {
        char text[96];
        sqlite3_snprintf(sizeof text, text, "PRAGMA application_id = %d; PRAGMA user_version = %d", APPLICATION_ID,
                         CURRENT_VERSION);
        status = sql_exec(database, "setting its version", text, why);
    }
    if (status == MLPBWD_OK)
        return db_commit(database, why);
    db_rollback(database);
    return status;
}

static void close_handle(db *database) {
    /* close_v2 cannot fail: it waits for statements, of which there are none. */
    (void)sqlite3_close_v2(database->handle);
    database->handle = NULL;
}

static mlpbwd_status open_handle(db *database, const char *uri, bool write, mlp_message *why) {
    int flags = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    flags |= write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
    int code = sqlite3_open_v2(uri, &database->handle, flags, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_busy_timeout(database->handle, SQL_BUSY_MILLISECONDS);
    /* A damaged or hostile file must not run triggers, views or functions of its own. */
    static const struct {
        int option, value;
    } options[] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},
                   {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                   {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                   {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                   {SQLITE_DBCONFIG_ENABLE_FKEY, 1}};
    for (size_t i = 0; i < sizeof options / sizeof *options && code == SQLITE_OK; ++i)
        code = sqlite3_db_config(database->handle, options[i].option, options[i].value, (int *)NULL);
    if (code == SQLITE_OK)
        return MLPBWD_OK;
    mlpbwd_status status = sql_fail(database, "opening", code, why);
    close_handle(database);
    return status;
}

static mlpbwd_status open_uri(db *database, const place *where, const char *query, bool write, mlp_message *why) {
    char *uri = place_uri(where, query);
    if (!uri)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "%s: out of memory", database->path);
    mlpbwd_status status = open_handle(database, uri, write, why);
    free(uri);
    return status;
}

/* Bytes 18 and 19 of the header are 2 in WAL mode. Read through SQLite's own descriptor: closing one of ours would drop
 * the locks that another connection of this process holds on the file. */
static bool is_wal(const db *database) {
    sqlite3_file *file = NULL;
    unsigned char header[20];
    int code = sqlite3_file_control(database->handle, "main", SQLITE_FCNTL_FILE_POINTER, (void *)&file);
    if (code != SQLITE_OK || !file || !file->pMethods)
        return false;
    if (file->pMethods->xRead(file, header, sizeof header, 0) != SQLITE_OK)
        return false; /* too short: the first statement says so */
    return header[18] == 2 || header[19] == 2;
}

/* Undoes what an interrupted writer left and takes a file that another tool switched to WAL back to a plain journal:
 * both need a writing connection, once. */
static mlpbwd_status settle(db *database, const place *where, mlp_message *why) {
    mlpbwd_status status = open_uri(database, where, "", true, why);
    if (status == MLPBWD_OK)
        status = sql_exec(database, "recovering after an interrupted writer",
                          "PRAGMA journal_mode = DELETE; SELECT count(*) FROM sqlite_schema", why);
    close_handle(database);
    return status;
}

static mlpbwd_status open_reader(db *database, const place *where, mlp_message *why) {
    mlpbwd_status status = open_uri(database, where, "", false, why);
    if (status != MLPBWD_OK)
        return status;
    bool in_wal = is_wal(database);
    if (where->writable) {
        if (!where->journal && !in_wal)
            return MLPBWD_OK;
        close_handle(database);
        status = settle(database, where, why);
        return status == MLPBWD_OK ? open_uri(database, where, "", false, why) : status;
    }
    if (in_wal && where->wal)
        return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                        "%s: changes wait in %s-wal and cannot be taken in here, because the folder or the file cannot "
                        "be written. Run `sqlite3 FILE 'PRAGMA journal_mode=DELETE'` where it can be written",
                        database->path, where->real);
    /* With a journal beside it the file may be half changed, which immutable would not notice: read with locks, and let
     * SQLite tell a running writer from a dead one. */
    if (where->journal)
        return MLPBWD_OK;
    close_handle(database);
    return open_uri(database, where, "?immutable=1", false, why);
}

static mlpbwd_status open_writer(db *database, const place *where, mlp_message *why) {
    if (!where->writable)
        return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                        "%s: cannot be opened for writing: the file, its folder or its filesystem is read-only. Name "
                        "another file with --db or MLPBWD_DATABASE, or chmod u+w file and folder",
                        database->path);
    mlpbwd_status status = open_uri(database, where, "", true, why);
    if (status != MLPBWD_OK)
        return status;
    /* Without spilling, a long transaction (an import that compiles) keeps readers out only while it commits. */
    return sql_exec(database, "preparing for writing",
                    "PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL; PRAGMA cache_spill = OFF", why);
}

static mlpbwd_status open_at(db *database, const place *where, db_mode mode, mlp_message *why) {
    mlpbwd_status status =
        mode == DB_READ_WRITE ? open_writer(database, where, why) : open_reader(database, where, why);
    if (status != MLPBWD_OK)
        return status;
    int moved = 0;
    int code = sqlite3_file_control(database->handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    if ((code == SQLITE_OK && moved) || !place_unchanged(where))
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s: the file was replaced while it was being opened; try again",
                        database->path);
    status = sql_exec(database, "opening", "PRAGMA cell_size_check = ON", why);
    if (status == MLPBWD_OK)
        status = check_length(database, why);
    return status == MLPBWD_OK ? check_identity(database, why) : status;
}

static db *new_db(const char *path, bool read_only) {
    db *database = calloc(1, sizeof *database);
    if (!database)
        return NULL;
    database->path = strdup(path);
    database->shown = text_utf8(path, SIZE_MAX);
    database->read_only = read_only;
    if (database->path && database->shown)
        return database;
    db_close(database);
    return NULL;
}

mlpbwd_status db_open(const char *path, db_mode mode, db **out, mlp_message *why) {
    if (!out)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "db_open: out is NULL");
    *out = NULL;
    if (!path || !*path)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "the path of the database is empty");
    if (mode == DB_READ_WRITE) {
        mlpbwd_status status = place_create(path, why);
        if (status != MLPBWD_OK)
            return status;
    }
    place where;
    mlpbwd_status status = place_find(path, &where, why);
    if (status != MLPBWD_OK)
        return status;
    db *database = new_db(path, mode == DB_READ_ONLY);
    if (database)
        status = open_at(database, &where, mode, why);
    else
        status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "%s: out of memory", path);
    place_free(&where);
    if (status != MLPBWD_OK) {
        db_close(database);
        return status;
    }
    *out = database;
    return MLPBWD_OK;
}

void db_close(db *database) {
    if (!database)
        return;
    close_handle(database);
    free(database->path);
    free(database->shown);
    free(database);
}

const char *db_path(const db *database) {
    return database->shown;
}

mlpbwd_status db_begin(db *database, mlp_message *why) {
    return sql_exec(database, "starting a transaction", "BEGIN IMMEDIATE", why);
}

mlpbwd_status db_commit(db *database, mlp_message *why) {
    mlpbwd_status status = sql_exec(database, "committing", "COMMIT", why);
    /* A commit that failed for lack of room or locks leaves the transaction open: end it, so that the next one can. */
    if (status != MLPBWD_OK)
        db_rollback(database);
    return status;
}

void db_rollback(db *database) {
    if (!sqlite3_get_autocommit(database->handle))
        (void)sqlite3_exec(database->handle, "ROLLBACK", NULL, NULL, NULL);
}
