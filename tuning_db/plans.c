/* Rows of table plans. */
#include "rows.h"

#define PLAN_KEY "device_name, arch, units, compute_capability, accuracy, hidden_size, intermediate_size, tokens"

mlpbwd_status db_put_plan(db *database, const db_plan_row *row, mlp_message *why) {
    mlpbwd_status status = plan_row_check(row, true, why);
    if (status == MLPBWD_OK && !row->plan)
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "plan is missing");
    if (status != MLPBWD_OK) {
        mlp_prefix(why, "plan row");
        return status;
    }
    sql s;
    status = sql_open(&s, database, "storing a plan",
                      "INSERT OR REPLACE INTO plans (" PLAN_COLUMNS
                      ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                      why);
    if (status != MLPBWD_OK)
        return status;
    sql_add_text(&s, row->device_name);
    sql_add_text(&s, row->arch);
    sql_add_integer(&s, row->units);
    sql_add_integer(&s, row->compute_capability);
    sql_add_integer(&s, row->accuracy);
    sql_add_integer(&s, row->hidden_size);
    sql_add_integer(&s, row->intermediate_size);
    sql_add_integer(&s, row->tokens);
    sql_add_integer(&s, row->min_tokens);
    sql_add_integer(&s, row->max_tokens);
    sql_add_text(&s, row->pipeline);
    sql_add_text(&s, row->parameters);
    sql_add_text(&s, row->plan);
    sql_add_median(&s, row->median_us);
    sql_add_text(&s, row->measurement);
    sql_add_text(&s, row->origin);
    sql_add_text(&s, row->date);
    return sql_finish(&s, why);
}

mlpbwd_status plan_row_read(const sql *s, db_plan_row *row, mlp_message *why) {
    *row = (db_plan_row){
        .device_name = sql_text(s, 0),
        .arch = sql_text(s, 1),
        .units = sqlite3_column_int(s->statement, 2),
        .compute_capability = sqlite3_column_int(s->statement, 3),
        .accuracy = sqlite3_column_int(s->statement, 4),
        .hidden_size = sqlite3_column_int64(s->statement, 5),
        .intermediate_size = sqlite3_column_int64(s->statement, 6),
        .tokens = sqlite3_column_int64(s->statement, 7),
        .min_tokens = sqlite3_column_int64(s->statement, 8),
        .max_tokens = sqlite3_column_int64(s->statement, 9),
        .pipeline = sql_text(s, 10),
        .parameters = sql_text(s, 11),
        .plan = sql_text(s, 12),
        .median_us = sql_median(s, 13),
        .measurement = sql_text(s, 14),
        .origin = sql_text(s, 15),
        .date = sql_text(s, 16),
    };
    mlpbwd_status status = plan_row_check(row, false, why);
    if (status == MLPBWD_OK && !row->plan)
        status = mlp_fail(why, MLPBWD_DATABASE_ERROR, "plan is missing");
    if (status == MLPBWD_OK)
        return MLPBWD_OK;
    mlp_prefix(why, "%s: a stored plan row is damaged", s->database->path);
    return MLPBWD_DATABASE_ERROR;
}

mlpbwd_status plans_open(sql *s, const db *database, const db_plan_filter *filter, mlp_message *why) {
    where w = {0};
    if (filter) {
        where_text(&w, "device_name", filter->device_name);
        where_text(&w, "arch", filter->arch);
        where_integer(&w, "units", filter->units);
        where_integer(&w, "accuracy", filter->accuracy);
        where_integer(&w, "hidden_size", filter->hidden_size);
        where_integer(&w, "intermediate_size", filter->intermediate_size);
        where_integer(&w, "tokens", filter->tokens);
    }
    return where_open(&w, s, database, "reading plans", "SELECT " PLAN_COLUMNS " FROM plans", " ORDER BY " PLAN_KEY,
                      why);
}

mlpbwd_status db_each_plan(db *database, const db_plan_filter *filter, db_plan_visitor visit, void *user,
                           mlp_message *why) {
    sql s;
    mlpbwd_status status = plans_open(&s, database, filter, why);
    bool found = status == MLPBWD_OK;
    while (status == MLPBWD_OK && found) {
        status = sql_next(&s, &found, why);
        db_plan_row row;
        if (found)
            status = plan_row_read(&s, &row, why);
        if (found && status == MLPBWD_OK)
            status = visit(user, &row, why);
    }
    sql_close(&s);
    return status;
}

mlpbwd_status plan_rank(const db *database, const db_plan_row *row, row_rank *rank, mlp_message *why) {
    *rank = (row_rank){0};
    where w = {0};
    where_text(&w, "device_name", row->device_name);
    where_text(&w, "arch", row->arch);
    where_integer(&w, "units", row->units);
    where_integer(&w, "compute_capability", row->compute_capability);
    where_integer(&w, "accuracy", row->accuracy);
    where_integer(&w, "hidden_size", row->hidden_size);
    where_integer(&w, "intermediate_size", row->intermediate_size);
    where_integer(&w, "tokens", row->tokens);
    return rank_read(database, &w, "plans", rank, why);
}
