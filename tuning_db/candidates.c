/* Rows of table candidates, and the rule for equal keys. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

enum { LARGEST_REASON = 65536 };

#define CANDIDATE_COLUMNS                                                                                              \
    "device_name, arch, units, accuracy, hidden_size, intermediate_size, tokens, pipeline, slot, kernel, parameters, " \
    "source_hash, outcome, reason, median_us, measurement, code_hash, date"
#define CANDIDATE_KEY                                                                                                  \
    "device_name, arch, units, accuracy, hidden_size, intermediate_size, tokens, pipeline, slot, kernel, parameters"

mlpbwd_status db_record_candidate(db *database, const db_candidate *candidate, mlp_message *why) {
    mlpbwd_status status = candidate_check(candidate, true, why);
    if (status != MLPBWD_OK) {
        mlp_prefix(why, "candidate");
        return status;
    }
    char *reason = text_utf8(candidate->reason, LARGEST_REASON);
    if (!reason)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "%s: out of memory", database->path);
    sql s;
    status = sql_open(&s, database, "recording a candidate",
                      "INSERT OR REPLACE INTO candidates (" CANDIDATE_COLUMNS
                      ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                      why);
    if (status != MLPBWD_OK) {
        free(reason);
        return status;
    }
    sql_add_text(&s, candidate->device_name);
    sql_add_text(&s, candidate->arch);
    sql_add_integer(&s, candidate->units);
    sql_add_integer(&s, candidate->accuracy);
    sql_add_integer(&s, candidate->hidden_size);
    sql_add_integer(&s, candidate->intermediate_size);
    sql_add_integer(&s, candidate->tokens);
    sql_add_text(&s, candidate->pipeline);
    sql_add_text(&s, candidate->slot);
    sql_add_text(&s, candidate->kernel);
    sql_add_text(&s, candidate->parameters);
    sql_add_text(&s, candidate->source_hash);
    sql_add_text(&s, candidate->outcome);
    sql_add_text(&s, reason);
    sql_add_median(&s, candidate->median_us);
    sql_add_text(&s, candidate->measurement);
    sql_add_text(&s, candidate->code_hash);
    sql_add_text(&s, candidate->date);
    status = sql_finish(&s, why);
    free(reason);
    return status;
}

mlpbwd_status candidate_read(const sql *s, db_candidate *candidate, mlp_message *why) {
    *candidate = (db_candidate){
        .device_name = sql_text(s, 0),
        .arch = sql_text(s, 1),
        .units = sqlite3_column_int(s->statement, 2),
        .accuracy = sqlite3_column_int(s->statement, 3),
        .hidden_size = sqlite3_column_int64(s->statement, 4),
        .intermediate_size = sqlite3_column_int64(s->statement, 5),
        .tokens = sqlite3_column_int64(s->statement, 6),
        .pipeline = sql_text(s, 7),
        .slot = sql_text(s, 8),
        .kernel = sql_text(s, 9),
        .parameters = sql_text(s, 10),
        .source_hash = sql_text(s, 11),
        .outcome = sql_text(s, 12),
        .reason = sql_text(s, 13),
        .median_us = sql_median(s, 14),
        .measurement = sql_text(s, 15),
        .code_hash = sql_text(s, 16),
        .date = sql_text(s, 17),
    };
    mlpbwd_status status = candidate_check(candidate, false, why);
    if (status == MLPBWD_OK)
        return MLPBWD_OK;
    mlp_prefix(why, "%s: a stored candidate is damaged", s->database->path);
    return MLPBWD_DATABASE_ERROR;
}

mlpbwd_status candidates_open(sql *s, const db *database, const db_candidate *like, mlp_message *why) {
    where w = {0};
    if (like) {
        where_text(&w, "device_name", like->device_name);
        where_text(&w, "arch", like->arch);
        where_integer(&w, "units", like->units);
        where_integer(&w, "accuracy", like->accuracy);
        where_integer(&w, "hidden_size", like->hidden_size);
        where_integer(&w, "intermediate_size", like->intermediate_size);
        where_integer(&w, "tokens", like->tokens);
        where_text(&w, "pipeline", like->pipeline);
        where_text(&w, "slot", like->slot);
        where_text(&w, "kernel", like->kernel);
        where_text(&w, "parameters", like->parameters);
        where_text(&w, "source_hash", like->source_hash);
        where_text(&w, "outcome", like->outcome);
        where_text(&w, "reason", like->reason);
        where_text(&w, "measurement", like->measurement);
        where_text(&w, "code_hash", like->code_hash);
        where_text(&w, "date", like->date);
    }
    return where_open(&w, s, database, "reading candidates", "SELECT " CANDIDATE_COLUMNS " FROM candidates",
                      " ORDER BY " CANDIDATE_KEY, why);
}

mlpbwd_status db_each_candidate(db *database, const db_candidate *like, db_candidate_visitor visit, void *user,
                                mlp_message *why) {
    sql s;
    mlpbwd_status status = candidates_open(&s, database, like, why);
    bool found = status == MLPBWD_OK;
    while (status == MLPBWD_OK && found) {
        status = sql_next(&s, &found, why);
        db_candidate candidate;
        if (found)
            status = candidate_read(&s, &candidate, why);
        if (found && status == MLPBWD_OK)
            status = visit(user, &candidate, why);
    }
    sql_close(&s);
    return status;
}

mlpbwd_status rank_read(const db *database, const where *w, const char *table, row_rank *rank, mlp_message *why) {
    char before[64];
    snprintf(before, sizeof before, "SELECT median_us, date FROM %s", table);
    sql s;
    mlpbwd_status status = where_open(w, &s, database, "comparing with the row that is there", before, "", why);
    bool found = false;
    if (status == MLPBWD_OK)
        status = sql_next(&s, &found, why);
    if (found) {
        const char *date = sql_text(&s, 1);
        rank->present = true;
        rank->median_us = sql_median(&s, 0);
        snprintf(rank->date, sizeof rank->date, "%s", date ? date : "");
    }
    sql_close(&s);
    return status;
}

mlpbwd_status candidate_rank(const db *database, const db_candidate *candidate, row_rank *rank, mlp_message *why) {
    *rank = (row_rank){0};
    where w = {0};
    where_text(&w, "device_name", candidate->device_name);
    where_text(&w, "arch", candidate->arch);
    where_integer(&w, "units", candidate->units);
    where_integer(&w, "accuracy", candidate->accuracy);
    where_integer(&w, "hidden_size", candidate->hidden_size);
    where_integer(&w, "intermediate_size", candidate->intermediate_size);
    where_integer(&w, "tokens", candidate->tokens);
    where_text(&w, "pipeline", candidate->pipeline);
    where_text(&w, "slot", candidate->slot);
    where_text(&w, "kernel", candidate->kernel);
    where_text(&w, "parameters", candidate->parameters);
    return rank_read(database, &w, "candidates", rank, why);
}

bool rank_beaten(const row_rank *present, double median_us, const char *date) {
    bool measured = median_us >= 0, present_measured = present->median_us >= 0;
    if (!present->present || measured != present_measured)
        return !present->present || measured;
    int order = strcmp(date, present->date);
    if (order != 0)
        return order > 0;
    return measured && median_us < present->median_us;
}
