/* Blobs and the compile cache that points at them. */
#include <nettle/sha2.h>
#include <nettle/version.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

enum { LARGEST_BLOB = 1 << 29 };

void db_hash(const void *bytes, size_t size, char hash[DB_HASH_CAPACITY]) {
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[SHA256_DIGEST_SIZE];
    struct sha256_ctx context;
    sha256_init(&context);
    if (size)
        sha256_update(&context, size, bytes);
#if NETTLE_VERSION_MAJOR >= 4 /* since then a digest is always whole */
    sha256_digest(&context, digest);
#else
    sha256_digest(&context, sizeof digest, digest);
#endif
    for (size_t i = 0; i < sizeof digest; ++i) {
        hash[2 * i] = digits[digest[i] >> 4];
        hash[2 * i + 1] = digits[digest[i] & 15];
    }
    hash[DB_HASH_CAPACITY - 1] = 0;
}

mlpbwd_status db_put_blob(db *database, const char *format, const void *bytes, size_t size, char hash[DB_HASH_CAPACITY],
                          mlp_message *why) {
    if (!blob_format_is_known(format))
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "blob format is \"%.40s\"; known are cubin, ptx, elf-so, emulated-so and source",
                        format ? format : "NULL");
    if (size > LARGEST_BLOB)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "a blob of %zu bytes is too large; at most %d are stored", size,
                        LARGEST_BLOB);
    db_hash(bytes, size, hash);
    /* Content decides the key, so a row that is there already is this one. */
    sql s;
    mlpbwd_status status =
        sql_open(&s, database, "storing a blob",
                 "INSERT INTO blobs (hash, format, bytes) VALUES (?, ?, ?) ON CONFLICT (hash) DO NOTHING", why);
    if (status != MLPBWD_OK)
        return status;
    sql_add_text(&s, hash);
    sql_add_text(&s, format);
    sql_add_bytes(&s, bytes, size);
    return sql_finish(&s, why);
}

static mlpbwd_status take_blob(const sql *s, const char *hash, void **bytes, size_t *size, char format[16],
                               mlp_message *why) {
    const char *path = s->database->path;
    const char *stored_format = sql_text(s, 0);
    if (!blob_format_is_known(stored_format))
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s: blob %s is damaged: its format is \"%.20s\"", path, hash,
                        stored_format ? stored_format : "(no text)");
    const void *stored = sqlite3_column_blob(s->statement, 1); /* NULL for size 0 and without memory */
    size_t length = (size_t)sqlite3_column_bytes(s->statement, 1);
    char actual[DB_HASH_CAPACITY];
    db_hash(stored, stored ? length : 0, actual);
    if (strcmp(actual, hash) != 0)
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s: blob %s is damaged: its bytes have the SHA-256 %s", path, hash,
                        actual);
    char *copy = malloc(length + 1);
    if (!copy)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "%s: no memory for a blob of %zu bytes", path, length);
    if (stored)
        memcpy(copy, stored, length);
    copy[length] = 0;
    *bytes = copy;
    if (size)
        *size = length;
    if (format)
        snprintf(format, 16, "%s", stored_format); /* a known one: at most 6 letters */
    return MLPBWD_OK;
}

mlpbwd_status db_get_blob(db *database, const char *hash, void **bytes, size_t *size, char format[16],
                          mlp_message *why) {
    *bytes = NULL;
    if (size)
        *size = 0;
    if (format)
        *format = 0;
    if (!hash_is_valid(hash))
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "\"%.80s\" is no SHA-256 in 64 small hex digits",
                        hash ? hash : "NULL");
    sql s;
    mlpbwd_status status =
        sql_open(&s, database, "reading a blob", "SELECT format, bytes FROM blobs WHERE hash = ?", why);
    if (status != MLPBWD_OK)
        return status;
    sql_add_text(&s, hash);
    bool row;
    status = sql_next(&s, &row, why);
    if (row)
        status = take_blob(&s, hash, bytes, size, format, why);
    sql_close(&s);
    return status;
}

mlpbwd_status db_put_compiled(db *database, const char *source_hash, const char *arch, const char *compiler,
                              const char *code_hash, const char *log, mlp_message *why) {
    if (!hash_is_valid(source_hash) || !hash_is_valid(code_hash))
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "compile cache: %s hash is no SHA-256 in 64 small hex digits",
                        hash_is_valid(source_hash) ? "the code's" : "the source's");
    if (!arch || !*arch || !compiler || !*compiler)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "compile cache: %s is missing",
                        arch && *arch ? "compiler" : "arch");
    sql s;
    mlpbwd_status status = sql_open(&s, database, "storing a compiled kernel",
                                    "INSERT OR REPLACE INTO compiled (source_hash, arch, compiler, code_hash, log) "
                                    "SELECT ?, ?, ?, hash, ? FROM blobs WHERE hash = ?",
                                    why);
    if (status != MLPBWD_OK)
        return status;
    sql_add_text(&s, source_hash);
    sql_add_text(&s, arch);
    sql_add_text(&s, compiler);
    sql_add_text(&s, log ? log : "");
    sql_add_text(&s, code_hash);
    status = sql_finish(&s, why);
    if (status == MLPBWD_OK && sqlite3_changes(database->handle) == 0)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "compile cache: machine code %s is not stored; db_put_blob comes first", code_hash);
    return status;
}

mlpbwd_status db_get_compiled(db *database, const char *source_hash, const char *arch, const char *compiler,
                              char code_hash[DB_HASH_CAPACITY], mlp_message *why) {
    *code_hash = 0;
    sql s;
    mlpbwd_status status =
        sql_open(&s, database, "looking up a compiled kernel",
                 "SELECT code_hash FROM compiled WHERE source_hash = ? AND arch = ? AND compiler = ?", why);
    if (status != MLPBWD_OK)
        return status;
    sql_add_text(&s, source_hash);
    sql_add_text(&s, arch);
    sql_add_text(&s, compiler);
    bool row;
    status = sql_next(&s, &row, why);
    if (row) {
        const char *found = sql_text(&s, 0);
        if (hash_is_valid(found))
            memcpy(code_hash, found, DB_HASH_CAPACITY);
        else
            status = mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s: the compile cache's row of source %.64s is damaged",
                              database->path, source_hash);
    }
    sql_close(&s);
    return status;
}

mlpbwd_status db_ready_compiler(db *database, const char *arch, const char *format, char *compiler, size_t capacity,
                                mlp_message *why) {
    *compiler = 0;
    sql s;
    mlpbwd_status status =
        sql_open(&s, database, "looking for ready machine code",
                 "SELECT compiler FROM compiled JOIN blobs ON hash = code_hash WHERE arch = ? AND format = ? "
                 "GROUP BY compiler ORDER BY count(*) DESC, compiler DESC LIMIT 1",
                 why);
    if (status != MLPBWD_OK)
        return status;
    sql_add_text(&s, arch);
    sql_add_text(&s, format);
    bool row;
    status = sql_next(&s, &row, why);
    const char *found = row ? sql_text(&s, 0) : NULL;
    if (found)
        snprintf(compiler, capacity, "%s", found);
    sql_close(&s);
    return status;
}
