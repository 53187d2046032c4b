#include "import.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static mlpbwd_status bad(mlp_message *why, const char *field, const json_t *value, const char *right) {
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)) : NULL;
    mlpbwd_status status;
    if (!value)
        status = mlp_fail(why, MLPBWD_DATABASE_ERROR, "field \"%s\" is missing; it must be %s", field, right);
    else
        status = mlp_fail(why, MLPBWD_DATABASE_ERROR, "field \"%s\" is %.80s; it must be %s", field,
                          text ? text : "(unprintable)", right);
    free(text);
    return status;
}

static mlpbwd_status only_fields(const json_t *object, const char *const *known, mlp_message *why) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        const char *const *field = known;
        while (*field && strcmp(*field, key) != 0)
            ++field;
        if (!*field)
            return mlp_fail(why, MLPBWD_DATABASE_ERROR, "field \"%.80s\" is not known", key);
    }
    return MLPBWD_OK;
}

static mlpbwd_status read_text(const json_t *object, const char *field, const char **text, mlp_message *why) {
    const json_t *value = json_object_get(object, field);
    *text = json_string_value(value);
    return *text ? MLPBWD_OK : bad(why, field, value, "text");
}

static mlpbwd_status read_integer(const json_t *object, const char *field, int64_t *number, mlp_message *why) {
    const json_t *value = json_object_get(object, field);
    *number = json_integer_value(value);
    if (json_is_integer(value) && *number >= 0 && *number <= INT_MAX)
        return MLPBWD_OK;
    return bad(why, field, value, "a whole number from 0 to 2147483647");
}

static mlpbwd_status read_int(const json_t *object, const char *field, int *number, mlp_message *why) {
    int64_t wide;
    mlpbwd_status status = read_integer(object, field, &wide, why);
    *number = (int)wide;
    return status;
}

/* *text: malloc'ed canonical JSON, NULL if the field is absent and optional. */
static mlpbwd_status read_object(const json_t *object, const char *field, bool optional, char **text,
                                 mlp_message *why) {
    const json_t *value = json_object_get(object, field);
    if (!value && optional)
        return MLPBWD_OK;
    if (!json_is_object(value))
        return bad(why, field, value, "an object");
    *text = json_canonical(value);
    return *text ? MLPBWD_OK : mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory while importing");
}

static mlpbwd_status read_accuracy(const json_t *object, int *accuracy, mlp_message *why) {
    const json_t *value = json_object_get(object, "accuracy");
    *accuracy = json_is_string(value) ? accuracy_from_name(json_string_value(value)) : -1;
    return *accuracy >= 0 ? MLPBWD_OK : bad(why, "accuracy", value, "\"tf32\", \"fp32\" or \"bf16\"");
}

static mlpbwd_status read_median(const json_t *object, double *median_us, mlp_message *why) {
    const json_t *value = json_object_get(object, "median_us");
    *median_us = json_is_null(value) ? -1 : json_number_value(value);
    if (json_is_null(value) || (json_is_number(value) && *median_us > 0))
        return MLPBWD_OK;
    return bad(why, "median_us", value, "a number above 0, or null if never measured");
}

static mlpbwd_status read_row(const json_t *object, import_row *out, mlp_message *why) {
    static const char *const known[] = {
        "arch",   "device_name",       "units",      "compute_capability", "accuracy", "hidden_size",
        "tokens", "intermediate_size", "min_tokens", "max_tokens",         "pipeline", "parameters",
        "plan",   "median_us",         "origin",     "measurement",        "date",     NULL};
    if (!json_is_object(object))
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "a row must be an object");
    db_plan_row *row = &out->row;
    struct {
        const char *field;
        const char **text;
    } texts[] = {{"arch", &row->arch},
                 {"device_name", &row->device_name},
                 {"pipeline", &row->pipeline},
                 {"origin", &row->origin},
                 {"date", &row->date}};
    struct {
        const char *field;
        int64_t *number;
    } numbers[] = {{"tokens", &row->tokens},
                   {"hidden_size", &row->hidden_size},
                   {"intermediate_size", &row->intermediate_size},
                   {"min_tokens", &row->min_tokens},
                   {"max_tokens", &row->max_tokens}};
    mlpbwd_status status = only_fields(object, known, why);
    for (size_t i = 0; i < sizeof texts / sizeof *texts && status == MLPBWD_OK; ++i)
        status = read_text(object, texts[i].field, texts[i].text, why);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && status == MLPBWD_OK; ++i)
        status = read_integer(object, numbers[i].field, numbers[i].number, why);
    if (status == MLPBWD_OK)
        status = read_int(object, "units", &row->units, why);
    if (status == MLPBWD_OK)
        status = read_int(object, "compute_capability", &row->compute_capability, why);
    if (status == MLPBWD_OK)
        status = read_accuracy(object, &row->accuracy, why);
    if (status == MLPBWD_OK)
        status = read_median(object, &row->median_us, why);
    if (status == MLPBWD_OK)
        status = read_object(object, "parameters", false, &out->parameters, why);
    if (status == MLPBWD_OK)
        status = read_object(object, "measurement", true, &out->measurement, why);
    if (status == MLPBWD_OK)
        status = read_object(object, "plan", true, &out->plan, why);
    if (status != MLPBWD_OK)
        return status;
    row->parameters = out->parameters;
    row->measurement = out->measurement ? out->measurement : "";
    row->plan = out->plan;
    out->plan_json = json_object_get(object, "plan");
    status = plan_row_check(row, true, why);
    return status == MLPBWD_INVALID_ARGUMENT ? MLPBWD_DATABASE_ERROR : status;
}

static mlpbwd_status read_blob(const json_t *object, import_blob *blob, mlp_message *why) {
    static const char *const known[] = {"hash", "format", "base64", NULL};
    const char *text = NULL;
    if (!json_is_object(object))
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "a blob must be an object");
    mlpbwd_status status = only_fields(object, known, why);
    if (status == MLPBWD_OK)
        status = read_text(object, "hash", &blob->hash, why);
    if (status == MLPBWD_OK && !hash_is_valid(blob->hash))
        status = bad(why, "hash", json_object_get(object, "hash"), "a SHA-256 in 64 small hex digits");
    if (status == MLPBWD_OK)
        status = read_text(object, "format", &blob->format, why);
    if (status == MLPBWD_OK && !blob_format_is_known(blob->format))
        status = bad(why, "format", json_object_get(object, "format"), "cubin, ptx, elf-so, emulated-so or source");
    if (status == MLPBWD_OK)
        status = read_text(object, "base64", &text, why);
    if (status != MLPBWD_OK)
        return status;
    blob->bytes = base64_decode(text, strlen(text), &blob->size);
    if (!blob->bytes)
        return bad(why, "base64", json_object_get(object, "base64"), "base64 text with padding and without line ends");
    char actual[DB_HASH_CAPACITY];
    db_hash(blob->bytes, blob->size, actual);
    if (strcmp(actual, blob->hash) != 0)
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "field \"hash\" is %s, but the bytes have the SHA-256 %s",
                        blob->hash, actual);
    return MLPBWD_OK;
}

static mlpbwd_status read_blobs(const json_t *array, import_file *out, mlp_message *why) {
    size_t count = json_array_size(array);
    out->blobs = calloc(count + 1, sizeof *out->blobs);
    out->blob_index = json_object();
    if (!out->blobs || !out->blob_index)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory while importing");
    for (size_t i = 0; i < count; ++i) {
        import_blob *blob = &out->blobs[out->blob_count++];
        mlpbwd_status status = read_blob(json_array_get(array, i), blob, why);
        if (status == MLPBWD_OK && json_object_get(out->blob_index, blob->hash))
            status = mlp_fail(why, MLPBWD_DATABASE_ERROR, "hash %s stands in the file twice", blob->hash);
        if (status == MLPBWD_OK && json_object_set_new(out->blob_index, blob->hash, json_integer((json_int_t)i)) != 0)
            status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory while importing");
        if (status != MLPBWD_OK) {
            mlp_prefix(why, "blob %zu", i);
            return status;
        }
    }
    return MLPBWD_OK;
}

static mlpbwd_status read_rows(const json_t *array, import_file *out, mlp_message *why) {
    size_t count = json_array_size(array);
    out->rows = calloc(count + 1, sizeof *out->rows);
    if (!out->rows)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory while importing");
    for (size_t i = 0; i < count; ++i) {
        mlpbwd_status status = read_row(json_array_get(array, i), &out->rows[out->row_count++], why);
        if (status != MLPBWD_OK) {
            mlp_prefix(why, "row %zu", i);
            return status;
        }
    }
    return MLPBWD_OK;
}

static mlpbwd_status read_file(const char *path, import_file *out, mlp_message *why) {
    static const char *const known[] = {"format", "version", "rows", "blobs", NULL};
    json_error_t error;
    FILE *text = fopen(path, "re");
    struct stat info;
    int failed = !text || fstat(fileno(text), &info) != 0 ? errno : S_ISDIR(info.st_mode) ? EISDIR : 0;
    out->file = failed ? NULL : json_loadf(text, JSON_REJECT_DUPLICATES, &error);
    if (text)
        (void)fclose(text); /* only read */
    if (failed)
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "cannot be read: %s", strerror(failed));
    if (!out->file)
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "%s (line %d, column %d)", error.text, error.line, error.column);
    if (!json_is_object(out->file))
        return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                        "the file must hold one JSON object, as `mlpbwd db export` writes it");
    const json_t *format = json_object_get(out->file, "format"), *version = json_object_get(out->file, "version");
    if (!json_is_string(format) || strcmp(json_string_value(format), "mlpbwd-winners") != 0)
        return bad(why, "format", format, "\"mlpbwd-winners\"");
    if (!json_is_integer(version) || json_integer_value(version) != 1)
        return bad(why, "version", version, "1, the only version that this build knows");
    mlpbwd_status status = only_fields(out->file, known, why);
    const json_t *rows = json_object_get(out->file, "rows"), *blobs = json_object_get(out->file, "blobs");
    if (status == MLPBWD_OK && !json_is_array(rows))
        status = bad(why, "rows", rows, "an array");
    if (status == MLPBWD_OK && blobs && !json_is_array(blobs))
        status = bad(why, "blobs", blobs, "an array");
    if (status == MLPBWD_OK)
        status = read_blobs(blobs, out, why);
    return status == MLPBWD_OK ? read_rows(rows, out, why) : status;
}

mlpbwd_status import_read(const char *path, import_file *out, mlp_message *why) {
    *out = (import_file){0};
    mlpbwd_status status = read_file(path, out, why);
    if (status == MLPBWD_OK)
        return MLPBWD_OK;
    mlp_prefix(why, "%s", path);
    import_free(out);
    return status;
}

void import_free(import_file *file) {
    for (size_t i = 0; i < file->row_count; ++i) {
        free(file->rows[i].parameters);
        free(file->rows[i].plan);
        free(file->rows[i].measurement);
    }
    for (size_t i = 0; i < file->blob_count; ++i)
        free(file->blobs[i].bytes);
    free(file->rows);
    free(file->blobs);
    json_decref(file->blob_index);
    json_decref(file->file);
    *file = (import_file){0};
}

const import_blob *import_find_blob(const import_file *file, const char *hash) {
    const json_t *position = json_object_get(file->blob_index, hash);
    return position ? &file->blobs[json_integer_value(position)] : NULL;
}
