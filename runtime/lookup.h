/* The look-up ladder: forced -> exact -> nearest -> architecture -> default. Rungs are the outer loop, databases the
 * inner one (user's, then shipped). */
#ifndef MLP_LOOKUP_H
#define MLP_LOOKUP_H

#include <stdbool.h>

#include "db.h"
#include "device/device.h"

typedef struct lookup_request {
    const dev_info *device; /* id, name, arch, ladder, units and compute_capability are read */
    const mlpbwd_problem *problem;
    db *const *databases; /* in order */
    size_t database_count;
    const char *forced_path; /* MLPBWD_FORCE or NULL */
    unsigned by_default;     /* bit i: nobody named databases[i]; damage there is a log line, not an error */
    unsigned left_out;       /* choices of earlier answers that turned out unusable (or-ed); 0: none */
} lookup_request;

typedef struct lookup_answer {
    const char *match;          /* "forced", "exact", "nearest", "architecture", "default" */
    unsigned choice;            /* one bit: this rung in this database, for lookup_request.left_out; forced: 0 */
    char *row_json;             /* malloc'ed: {"pipeline","parameters","arch","device","tokens","units",
                                 * "hidden_size","intermediate_size","measurement","origin","date"} */
    char *plan_json;            /* malloc'ed stored plan */
    double median_us;           /* < 0: never measured */
    int64_t measured_tokens;    /* T of the row; 0 for a default */
    char *database_path;        /* malloc'ed; the file that answered */
    db *database;               /* where its blobs are (NULL: forced_path) */
    struct import_file *forced; /* forced: the file as read, with its embedded blobs; else NULL */
} lookup_answer;

/* Nothing serves the problem: UNSUPPORTED naming every rung tried and why it gave nothing. T must be > 0. */
mlpbwd_status lookup_find(const lookup_request *request, lookup_answer *answer, mlp_message *why);
/* The first answer that `use` accepts. A row whose plan cannot be used here (UNSUPPORTED: no machine code, say; or
 * damage in a database that nobody named) is told in the log, and the next place on the ladder is asked; only "forced"
 * is taken at its word. When nothing is left, the first reason is the one to report. */
typedef mlpbwd_status (*lookup_use)(void *user, const lookup_request *request, const lookup_answer *answer,
                                    mlp_message *why);
mlpbwd_status lookup_find_usable(lookup_request request, lookup_use use, void *user, lookup_answer *answer,
                                 mlp_message *why);
void lookup_answer_free(lookup_answer *answer);

/* Machine code or source text that the answer's plan names by hash: from the forced file, the answer's database, then
 * the other ones. malloc'ed, NUL-terminated behind size; OK and NULL if absent. Fits plan_blob_source when user is a
 * lookup_blobs. */
typedef struct lookup_blobs {
    const lookup_request *request;
    const lookup_answer *answer;
} lookup_blobs;
mlpbwd_status lookup_get_blob(void *user, const char *hash, void **bytes, size_t *size, mlp_message *why);

/* The databases in the order of the ladder, as mlpbwd_open and `mlpbwd query` use them: explicit_path alone, or the
 * user's and the shipped one. At most 2. Owned by the caller. */
mlpbwd_status lookup_open_databases(const char *explicit_path, db *databases[2], size_t *count, mlp_message *why);
/* lookup_request.by_default for databases opened so: those that neither explicit_path nor $MLPBWD_DATABASE named. */
unsigned lookup_found_by_default(const char *explicit_path, size_t count);
/* DATABASE_ERROR met in such a database: says so in the log and returns true; whoever asked goes on without it. */
bool lookup_forgive(const lookup_request *request, const db *database, mlpbwd_status status, const mlp_message *why);
/* Path of the shipped database, or "" if there is none: $MLPBWD_SHIPPED_DATABASE if it is set (also to nothing; tests
 * and relocated installations use it), else the installed place relative to the library or program that holds this
 * code, else the build's, else mlpbwd.sqlite beside it. */
void lookup_shipped_path(char *path, size_t capacity);

/* The same answer as JSON, for mlpbwd_plan_describe and `query` (malloc'ed): tokens, device, match, median_us,
 * measured_tokens, measured (false also for recorded times that a test replayed), predicted_us (where the row has it:
 * by a model, for the T that it was chosen for), database, pipeline, parameters, ...; NULL: no memory. */
char *lookup_answer_json(const lookup_request *request, const lookup_answer *answer);

#endif
