/* The tuning database: one SQLite file with machine code (by SHA-256), stored plans (winners and defaults) and every
 * candidate's outcome. The tuner's parent process is its only writer; the runtime opens it read-only.
 * DELETE journal, never WAL; a file in a folder that cannot be written opens immutable and leaves no side file.
 * A file that is newer than this build, damaged, owned by another user (root aside) or writable by others is refused
 * with a message (MLPBWD_DATABASE_ERROR). A db is for one thread at a time. Strings handed out are valid until the
 * callback returns. */
#ifndef MLP_DB_H
#define MLP_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "message.h"

typedef struct db db;
typedef enum { DB_READ_ONLY, DB_READ_WRITE /* created with its schema when missing, parent folders too */ } db_mode;

/* DATABASE_ERROR with the reason: missing, damaged, newer than this build, not a tuning database, or unsafe (owned by
 * another user than this one and root, or writable by others). *out is the caller's to close. */
mlpbwd_status db_open(const char *path, db_mode mode, db **out, mlp_message *why);
void db_close(db *database);             /* NULL is harmless */
const char *db_path(const db *database); /* as it was opened, but UTF-8: to be shown; the database's */
/* $MLPBWD_DATABASE (*from_environment), else $XDG_DATA_HOME/mlpbwd/tuning.sqlite, else ~/.local/share/mlpbwd/...
 * Without any: OK, path "" and the reason in *why. Empty variables and a relative XDG_DATA_HOME or HOME count as not
 * set. */
mlpbwd_status db_default_user_path(char *path, size_t capacity, bool *from_environment, mlp_message *why);

/* ---- blobs: sources and machine code, stored once by SHA-256 (lower-case hex) ---- */
enum { DB_HASH_CAPACITY = 65 };
void db_hash(const void *bytes, size_t size, char hash[DB_HASH_CAPACITY]);
/* format: "cubin", "ptx", "elf-so", "emulated-so" (for emulated devices), "source". Fills hash. */
mlpbwd_status db_put_blob(db *database, const char *format, const void *bytes, size_t size, char hash[DB_HASH_CAPACITY],
                          mlp_message *why);
/* *bytes is malloc'ed, NUL-terminated behind size; its hash is verified. Absent: OK and *bytes = NULL. */
mlpbwd_status db_get_blob(db *database, const char *hash, void **bytes, size_t *size, char format[16],
                          mlp_message *why);

/* ---- stored plans ---- */
/* A row serves (device, tokens, hidden_size, intermediate_size, accuracy); equal keys replace each other.
 * The device of a key is device_name, arch, units and compute_capability. Values are checked (INVALID_ARGUMENT names
 * the field); plan must be JSON, whether its blobs are there is db_check's business. A default row has device_name "",
 * units 0, hidden_size 0 (any), intermediate_size 0 (any); tokens 0 for the smallest T of an architecture and class,
 * and for further ranges the T that they were chosen for. */
typedef struct db_plan_row {
    const char *arch;        /* machine code's architecture: "sm_90a", "compute_80", "x86-64-v3" */
    const char *device_name; /* "NVIDIA H200"; "" for a default row */
    int units;               /* SM count */
    int compute_capability;
    int64_t tokens, hidden_size, intermediate_size;
    int accuracy;                   /* mlpbwd_accuracy */
    int64_t min_tokens, max_tokens; /* valid range of T, inclusive */
    const char *pipeline;
    const char *parameters; /* JSON object: slot -> {kernel, parameter values} */
    const char *plan;       /* JSON: see templates/README.md, "stored plan"; names its blobs by hash */
    double median_us;       /* < 0: never measured */
    /* JSON object: spread_us, protocol, clock_mhz, driver, power_limit_w, errors, date; or "" */
    const char *measurement;
    const char *origin; /* "tune", "import", "build" */
    const char *date;   /* ISO 8601 UTC, of the measurement (or of the build for defaults) */
} db_plan_row;

typedef mlpbwd_status (*db_plan_visitor)(void *user, const db_plan_row *row, mlp_message *why); /* not OK: stops */
mlpbwd_status db_put_plan(db *database, const db_plan_row *row, mlp_message *why);
/* Visits rows whose non-NULL / non-negative filter fields are equal, ordered by all key fields. */
typedef struct db_plan_filter {
    const char *arch, *device_name;                 /* NULL: any */
    int units;                                      /* < 0: any */
    int accuracy;                                   /* < 0: any */
    int64_t tokens, hidden_size, intermediate_size; /* < 0: any */
} db_plan_filter;
mlpbwd_status db_each_plan(db *database, const db_plan_filter *filter, db_plan_visitor visit, void *user,
                           mlp_message *why);

/* ---- candidates: every variant tried, also the failures ---- */
/* Outcomes, stored as text: "in_flight", "compiled", "ok", "invalid", "compile_failed", "compile_timeout", "spilled",
 * "wrong", "crashed", "timeout", "impossible_time", "device_error". */
typedef struct db_candidate {
    const char *device_name, *arch; /* device_name "" for compile-only rows */
    int units;
    int64_t tokens, hidden_size, intermediate_size;
    int accuracy;
    const char *pipeline, *slot; /* slot "" = the whole pass */
    const char *kernel;
    const char *parameters;  /* canonical JSON (sorted keys, compact) */
    const char *source_hash; /* of the emitted text */
    const char *outcome, *reason;
    double median_us;        /* < 0: not timed */
    const char *measurement; /* JSON: times_us, spread_us, errors, protocol, clock_mhz, driver, compiler; or "" */
    const char *code_hash;   /* or "" */
    const char *date;
} db_candidate;

/* Inserts or replaces by (device_name, arch, units, problem, pipeline, slot, kernel, parameters); commits. Of reason,
 * at most 64 KiB are kept, and bytes that are no UTF-8 become "?". */
mlpbwd_status db_record_candidate(db *database, const db_candidate *candidate, mlp_message *why);
typedef mlpbwd_status (*db_candidate_visitor)(void *user, const db_candidate *candidate, mlp_message *why);
/* Equal fields of *like; NULL text, negative tokens/sizes/accuracy/units: any. */
mlpbwd_status db_each_candidate(db *database, const db_candidate *like, db_candidate_visitor visit, void *user,
                                mlp_message *why);
/* compile cache: machine code of (source_hash, arch, compiler version), so that a resumed or repeated sweep compiles
 * nothing twice. put records success; get: absent -> OK and code_hash "". */
mlpbwd_status db_put_compiled(db *database, const char *source_hash, const char *arch, const char *compiler,
                              const char *code_hash, const char *log, mlp_message *why);
mlpbwd_status db_get_compiled(db *database, const char *source_hash, const char *arch, const char *compiler,
                              char code_hash[DB_HASH_CAPACITY], mlp_message *why);
/* The version of the compiler that made most of the cached machine code of this format ("cubin", ...) for arch; "":
 * there is none. */
mlpbwd_status db_ready_compiler(db *database, const char *arch, const char *format, char *compiler, size_t capacity,
                                mlp_message *why);

/* ---- whole-file operations (the `mlpbwd db ...` commands) ---- */
typedef struct db_report {
    int64_t added, replaced, kept, rejected;
    void (*line)(void *user, const char *text); /* one line per rejected or conflicting row; may be NULL */
    void *user;
} db_report;

/* Writes {"format":"mlpbwd-winners","version":1,"rows":[...]}: sorted, one row a line, byte-for-byte reproducible. A
 * row has the fields of db_plan_row by name; accuracy is "tf32", "fp32" or "bf16", median_us null if never measured,
 * parameters and measurement are objects (measurement is left out if ""). with_code adds "plan" (an object) to every
 * row and, behind the rows, "blobs":[{"hash","format","base64"}], each blob once; without it, parameters and
 * measurements only. */
mlpbwd_status db_export(db *database, const db_plan_filter *filter, bool with_code, FILE *out, mlp_message *why);
/* All or nothing, in one transaction; every row is validated; a bad one names its index, field and value.
 * complete (may be NULL: rows without a plan are then refused) makes the stored plan of a row that has parameters only;
 * it puts the blobs itself and returns malloc'ed JSON in *plan. Equal keys: db_merge's rule. */
typedef mlpbwd_status (*db_complete)(void *user, db *database, const db_plan_row *row, char **plan, mlp_message *why);
mlpbwd_status db_import(db *database, const char *path, db_complete complete, void *user, db_report *report,
                        mlp_message *why);
/* Equal keys: a measured row beats an unmeasured one, then the later date wins, then the smaller median_us, then the
 * row already there. One transaction. */
mlpbwd_status db_merge(db *into, db *from, db_report *report, mlp_message *why);
/* integrity_check, schema, every blob's hash, every plan's JSON and the presence of its blobs, value ranges. Problems
 * are report lines and counted in rejected; OK means the check ran. */
mlpbwd_status db_check(db *database, db_report *report, mlp_message *why);
/* Removes candidates (older_than_days <= 0: all) and the compile cache's entries for their sources unless a plan or a
 * remaining candidate names them, then blobs that nothing names; vacuums. rejected counts the candidates removed, kept
 * those that stay; a report line says the rest. Not inside a transaction. */
mlpbwd_status db_prune(db *database, int older_than_days, db_report *report, mlp_message *why);
/* Counts by table and outcome as JSON text (malloc'ed). */
mlpbwd_status db_stats(db *database, char **json, mlp_message *why);

mlpbwd_status db_begin(db *database, mlp_message *why); /* explicit transaction for bulk writers */
mlpbwd_status db_commit(db *database, mlp_message *why);
void db_rollback(db *database);

#endif
