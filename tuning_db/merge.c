#include <stdlib.h>
#include <string.h>

#include "rows.h"

typedef struct merging {
    db *into, *from;
    db_report counts;
    bool must_exist; /* a plan without its blobs is of no use; a candidate may name what was never kept */
    bool broken;     /* `into` failed: the merge ends; whatever is wrong with a row of `from` only rejects that row */
} merging;

static mlpbwd_status stored(merging *m, mlpbwd_status status) {
    if (status != MLPBWD_OK && status != MLPBWD_INVALID_ARGUMENT)
        m->broken = true;
    return status;
}

static mlpbwd_status copy_blob(void *user, const char *hash, mlp_message *why) {
    merging *m = user;
    if (!hash_is_valid(hash))
        return MLPBWD_OK; /* a candidate that never got that far */
    void *bytes;
    size_t size;
    char format[16], same_hash[DB_HASH_CAPACITY];
    mlpbwd_status status = db_get_blob(m->from, hash, &bytes, &size, format, why);
    if (status != MLPBWD_OK)
        return status;
    if (bytes)
        status = stored(m, db_put_blob(m->into, format, bytes, size, same_hash, why));
    else if (m->must_exist)
        status = mlp_fail(why, MLPBWD_DATABASE_ERROR, "its plan names blob %s, which is not stored", hash);
    free(bytes);
    return status;
}

static mlpbwd_status copy_plan(merging *m, const db_plan_row *row, mlp_message *why) {
    json_t *plan = json_parse_object(row->plan, why);
    if (!plan) {
        mlp_prefix(why, "plan");
        return MLPBWD_DATABASE_ERROR;
    }
    m->must_exist = true;
    mlpbwd_status status = plan_each_blob(plan, copy_blob, m, why);
    json_decref(plan);
    return status == MLPBWD_OK ? stored(m, db_put_plan(m->into, row, why)) : status;
}

static void count(merging *m, const row_rank *rank) {
    *(rank->present ? &m->counts.replaced : &m->counts.added) += 1;
}

static mlpbwd_status merge_plan(void *user, const db_plan_row *row, mlp_message *why) {
    merging *m = user;
    row_rank rank;
    mlpbwd_status status = plan_rank(m->into, row, &rank, why);
    if (status != MLPBWD_OK)
        return status;
    char name[ROW_NAME_CAPACITY];
    plan_row_name(row, name);
    if (!rank_beaten(&rank, row->median_us, row->date)) {
        m->counts.kept += 1;
        report_line(&m->counts, "kept the row that is there: %s", name);
        return MLPBWD_OK;
    }
    mlp_message reason;
    status = copy_plan(m, row, &reason);
    if (status == MLPBWD_OK) {
        count(m, &rank);
        if (rank.present)
            report_line(&m->counts, "replaced: %s", name);
        return MLPBWD_OK;
    }
    if (m->broken)
        return mlp_fail(why, status, "%s", reason.text);
    m->counts.rejected += 1;
    report_line(&m->counts, "rejected: %s: %s", name, reason.text);
    return MLPBWD_OK;
}

static mlpbwd_status merge_candidate(void *user, const db_candidate *candidate, mlp_message *why) {
    merging *m = user;
    row_rank rank;
    mlpbwd_status status = candidate_rank(m->into, candidate, &rank, why);
    if (status != MLPBWD_OK)
        return status;
    if (!rank_beaten(&rank, candidate->median_us, candidate->date)) {
        m->counts.kept += 1;
        return MLPBWD_OK;
    }
    mlp_message reason;
    m->must_exist = false;
    status = copy_blob(m, candidate->source_hash, &reason);
    if (status == MLPBWD_OK)
        status = copy_blob(m, candidate->code_hash, &reason);
    if (status == MLPBWD_OK)
        status = stored(m, db_record_candidate(m->into, candidate, &reason));
    if (status == MLPBWD_OK) {
        count(m, &rank);
        return MLPBWD_OK;
    }
    if (m->broken)
        return mlp_fail(why, status, "%s", reason.text);
    m->counts.rejected += 1;
    report_line(&m->counts, "rejected: candidate of kernel \"%s\", T %lld: %s", candidate->kernel,
                (long long)candidate->tokens, reason.text);
    return MLPBWD_OK;
}

/* The compile cache: an entry says the same wherever it was made, so one that is there stays. */
static mlpbwd_status merge_compiled(merging *m, mlp_message *why) {
    sql s;
    mlpbwd_status status = sql_open(&s, m->from, "reading the compile cache",
                                    "SELECT source_hash, arch, compiler, code_hash, log FROM compiled", why);
    bool found = status == MLPBWD_OK;
    while (status == MLPBWD_OK && found) {
        status = sql_next(&s, &found, why);
        if (status != MLPBWD_OK || !found)
            break;
        char present[DB_HASH_CAPACITY];
        mlp_message reason;
        const char *source = sql_text(&s, 0), *arch = sql_text(&s, 1), *compiler = sql_text(&s, 2);
        const char *code = sql_text(&s, 3);
        status =
            db_get_compiled(m->into, source ? source : "", arch ? arch : "", compiler ? compiler : "", present, why);
        if (status != MLPBWD_OK || *present)
            continue;
        m->must_exist = false;
        status = copy_blob(m, source ? source : "", &reason);
        if (status == MLPBWD_OK)
            status = copy_blob(m, code ? code : "", &reason);
        if (status == MLPBWD_OK)
            status = stored(m, db_put_compiled(m->into, source, arch, compiler, code, sql_text(&s, 4), &reason));
        if (m->broken) {
            (void)mlp_fail(why, status, "%s", reason.text);
        } else if (status != MLPBWD_OK) {
            report_line(&m->counts, "rejected: an entry of the compile cache: %s", reason.text);
            m->counts.rejected += 1;
            status = MLPBWD_OK;
        }
    }
    sql_close(&s);
    return status;
}

static bool same_file(const db *a, const db *b) {
    const char *name_a = sqlite3_db_filename(a->handle, "main"), *name_b = sqlite3_db_filename(b->handle, "main");
    if (!name_a || !name_b || !*name_a || !*name_b) /* in memory */
        return a == b;
    char *real_a = realpath(name_a, NULL), *real_b = realpath(name_b, NULL);
    bool same = real_a && real_b && strcmp(real_a, real_b) == 0;
    free(real_a);
    free(real_b);
    return same;
}

mlpbwd_status db_merge(db *into, db *from, db_report *report, mlp_message *why) {
    if (same_file(into, from)) /* it would wait for itself */
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s cannot be merged into itself", into->path);
    merging m = {.into = into, .from = from};
    if (report)
        m.counts = (db_report){.line = report->line, .user = report->user};
    sql_scope scope;
    mlpbwd_status status = sql_scope_begin(&scope, into, why);
    if (status != MLPBWD_OK)
        return status;
    status = db_each_plan(from, NULL, merge_plan, &m, why);
    if (status == MLPBWD_OK)
        status = db_each_candidate(from, NULL, merge_candidate, &m, why);
    if (status == MLPBWD_OK)
        status = merge_compiled(&m, why);
    status = sql_scope_end(&scope, status, why);
    if (status == MLPBWD_OK && report) {
        report->added += m.counts.added;
        report->replaced += m.counts.replaced;
        report->kept += m.counts.kept;
        report->rejected += m.counts.rejected;
    }
    return status;
}
