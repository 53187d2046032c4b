#include <stdlib.h>
#include <string.h>

#include "rows.h"

/* What one export is doing. named: the hashes of all blobs written so far as keys of an object. */
typedef struct exporting {
    db *database;
    bool with_code;
    FILE *out;
    json_t *named;
    bool first;
} exporting;

static mlpbwd_status no_memory(const exporting *e, mlp_message *why) {
    return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "%s: out of memory while exporting", e->database->path);
}

/* One value on a line of its own. Takes the reference. */
static mlpbwd_status write_line(exporting *e, json_t *value, mlp_message *why) {
    char *text = value ? json_canonical(value) : NULL;
    json_decref(value);
    if (!text)
        return no_memory(e, why);
    fputs(e->first ? "\n" : ",\n", e->out);
    fputs(text, e->out);
    e->first = false;
    free(text);
    return MLPBWD_OK;
}

static mlpbwd_status note_hash(void *user, const char *hash, mlp_message *why) {
    exporting *e = user;
    if (json_object_set_new(e->named, hash, json_true()) != 0)
        return no_memory(e, why);
    return MLPBWD_OK;
}

/* Adds the object in `text` to the row as `field`. */
static mlpbwd_status add_object(json_t *object, const char *field, const char *text, json_t **value, mlp_message *why) {
    json_t *parsed = json_parse_object(text, why);
    if (!parsed) {
        mlp_prefix(why, "a stored row is damaged: %s", field);
        return MLPBWD_DATABASE_ERROR;
    }
    if (value)
        *value = parsed;
    if (json_object_set_new(object, field, parsed) != 0)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory while exporting");
    return MLPBWD_OK;
}

static mlpbwd_status add_objects(exporting *e, json_t *object, const db_plan_row *row, mlp_message *why) {
    mlpbwd_status status = add_object(object, "parameters", row->parameters, NULL, why);
    if (status == MLPBWD_OK && *row->measurement)
        status = add_object(object, "measurement", row->measurement, NULL, why);
    if (status != MLPBWD_OK || !e->with_code)
        return status;
    json_t *plan = NULL;
    status = add_object(object, "plan", row->plan, &plan, why);
    if (status == MLPBWD_OK && plan_each_blob(plan, note_hash, e, why) != MLPBWD_OK) {
        mlp_prefix(why, "a stored row is damaged");
        status = MLPBWD_DATABASE_ERROR;
    }
    return status;
}

static mlpbwd_status export_row(void *user, const db_plan_row *row, mlp_message *why) {
    exporting *e = user;
    json_t *median = row->median_us < 0 ? json_null() : json_real(row->median_us);
    json_t *object = json_pack(
        "{ss ss si si ss sI sI sI sI sI ss so ss ss}", "arch", row->arch, "device_name", row->device_name, "units",
        row->units, "compute_capability", row->compute_capability, "accuracy", accuracy_name(row->accuracy),
        "hidden_size", (json_int_t)row->hidden_size, "intermediate_size", (json_int_t)row->intermediate_size, "tokens",
        (json_int_t)row->tokens, "min_tokens", (json_int_t)row->min_tokens, "max_tokens", (json_int_t)row->max_tokens,
        "pipeline", row->pipeline, "median_us", median, "origin", row->origin, "date", row->date);
    if (!object)
        return no_memory(e, why);
    mlpbwd_status status = add_objects(e, object, row, why);
    if (status == MLPBWD_OK)
        return write_line(e, object, why);
    json_decref(object);
    char name[ROW_NAME_CAPACITY];
    plan_row_name(row, name);
    mlp_prefix(why, "%s: %s", e->database->path, name);
    return status;
}

static mlpbwd_status export_blob(exporting *e, const char *hash, mlp_message *why) {
    void *bytes;
    size_t size;
    char format[16];
    mlpbwd_status status = db_get_blob(e->database, hash, &bytes, &size, format, why);
    if (status != MLPBWD_OK)
        return status;
    if (!bytes)
        return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                        "%s: a plan names blob %s, which is not stored. `mlpbwd db check` lists all such plans; export "
                        "without code, or tune again",
                        e->database->path, hash);
    char *text = base64_encode(bytes, size);
    free(bytes);
    if (!text)
        return no_memory(e, why);
    json_t *object = json_pack("{ss ss ss}", "hash", hash, "format", format, "base64", text);
    free(text);
    return write_line(e, object, why);
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static mlpbwd_status export_blobs(exporting *e, mlp_message *why) {
    size_t count = json_object_size(e->named), used = 0;
    const char **hashes = calloc(count + 1, sizeof *hashes);
    if (!hashes)
        return no_memory(e, why);
    const char *key;
    json_t *value;
    json_object_foreach(e->named, key, value) hashes[used++] = key;
    qsort(hashes, used, sizeof *hashes, compare_texts);
    mlpbwd_status status = MLPBWD_OK;
    for (size_t i = 0; i < used && status == MLPBWD_OK; ++i)
        status = export_blob(e, hashes[i], why);
    free(hashes);
    return status;
}

static mlpbwd_status write_all(exporting *e, const db_plan_filter *filter, mlp_message *why) {
    fputs("{\"format\":\"mlpbwd-winners\",\"version\":1,\"rows\":[", e->out);
    e->first = true;
    mlpbwd_status status = db_each_plan(e->database, filter, export_row, e, why);
    if (status != MLPBWD_OK)
        return status;
    fputs(e->first ? "]" : "\n]", e->out);
    if (e->with_code) {
        fputs(",\"blobs\":[", e->out);
        e->first = true;
        status = export_blobs(e, why);
        if (status != MLPBWD_OK)
            return status;
        fputs(e->first ? "]" : "\n]", e->out);
    }
    fputs("}\n", e->out);
    if (fflush(e->out) != 0 || ferror(e->out))
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s: the export could not be written completely: %m",
                        e->database->path);
    return MLPBWD_OK;
}

mlpbwd_status db_export(db *database, const db_plan_filter *filter, bool with_code, FILE *out, mlp_message *why) {
    exporting e = {.database = database, .with_code = with_code, .out = out, .named = json_object()};
    if (!e.named)
        return no_memory(&e, why);
    /* A savepoint outside a transaction begins one: rows and blobs are of one moment though others may write. */
    mlpbwd_status status = sql_exec(database, "exporting", "SAVEPOINT mlpbwd_export", why);
    if (status == MLPBWD_OK) {
        status = write_all(&e, filter, why);
        mlp_message ignored;
        mlpbwd_status released = sql_exec(database, "exporting", "RELEASE mlpbwd_export", &ignored);
        if (status == MLPBWD_OK && released != MLPBWD_OK)
            status = mlp_fail(why, released, "%s", ignored.text);
    }
    json_decref(e.named);
    return status;
}
