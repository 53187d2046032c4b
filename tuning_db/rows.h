/* What a valid row is, and the JSON inside it: private to tuning_db. */
#ifndef MLP_ROWS_H
#define MLP_ROWS_H

#include <jansson.h>

#include "db.h"
#include "names.h"
#include "sql.h"
#include "where.h"

/* Columns in the order that plan_row_read and plan_row_add expect. */
#define PLAN_COLUMNS                                                                                                   \
    "device_name, arch, units, compute_capability, accuracy, hidden_size, intermediate_size, tokens, min_tokens, "     \
    "max_tokens, pipeline, parameters, plan, median_us, measurement, origin, date"

/* INVALID_ARGUMENT naming field, value and what would be right. deep: also the JSON and the hashes inside. plan may be
 * NULL where a row without a plan is being checked (imports). */
mlpbwd_status plan_row_check(const db_plan_row *row, bool deep, mlp_message *why);
mlpbwd_status candidate_check(const db_candidate *candidate, bool deep, mlp_message *why);

/* Texts live until the statement's next step. DATABASE_ERROR: the stored row is damaged. */
mlpbwd_status plan_row_read(const sql *s, db_plan_row *row, mlp_message *why);
mlpbwd_status candidate_read(const sql *s, db_candidate *candidate, mlp_message *why);
/* Statements over the rows of a filter (NULL: all), in the order of the keys, for plan_row_read and candidate_read. */
mlpbwd_status plans_open(sql *s, const db *database, const db_plan_filter *filter, mlp_message *why);
mlpbwd_status candidates_open(sql *s, const db *database, const db_candidate *like, mlp_message *why);
/* The row with the same key: *present false if there is none; row->median_us and a copy of its date otherwise. */
typedef struct row_rank {
    bool present;
    double median_us;
    char date[32];
} row_rank;
mlpbwd_status rank_read(const db *database, const where *w, const char *table, row_rank *rank, mlp_message *why);
mlpbwd_status plan_rank(const db *database, const db_plan_row *row, row_rank *rank, mlp_message *why);
mlpbwd_status candidate_rank(const db *database, const db_candidate *candidate, row_rank *rank, mlp_message *why);
/* db_merge's rule: does a new row with this median and date beat the present one? */
bool rank_beaten(const row_rank *present, double median_us, const char *date);

/* 64 lower-case hexadecimal digits; one of the formats of db_put_blob. */
bool hash_is_valid(const char *hash);
bool blob_format_is_known(const char *format);

/* A short text for messages: device, arch, accuracy, sizes. */
enum { ROW_NAME_CAPACITY = 512 };
void plan_row_name(const db_plan_row *row, char name[ROW_NAME_CAPACITY]);

/* Parses an object (duplicates and NULs refused): a new reference, or NULL and the parser's message in *why. */
json_t *json_parse_object(const char *text, mlp_message *why);
/* Compact, sorted keys, locale-free; reals with as few of 15 or 17 digits as keep the value. malloc'ed, NULL: no
 * memory. */
char *json_canonical(const json_t *value);

/* Every hash that a plan names (sources and machine code), in order, repeats included. */
typedef mlpbwd_status (*hash_visitor)(void *user, const char *hash, mlp_message *why);
mlpbwd_status plan_each_blob(const json_t *plan, hash_visitor visit, void *user, mlp_message *why);

/* malloc'ed, NUL-terminated; NULL: no memory, or (decode) text that is not canonical base64. */
char *base64_encode(const void *bytes, size_t size);
void *base64_decode(const char *text, size_t length, size_t *size);

/* Sends a line to the report (which may be NULL, or without a function). */
void report_line(const db_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
