/* A file of db_export, read and checked: for tuning_db and the runtime's forced look-up. */
#ifndef MLP_IMPORT_H
#define MLP_IMPORT_H

#include "rows.h"

typedef struct import_row {
    db_plan_row row; /* plan NULL: parameters only; measurement "" if absent; other texts belong to `file` */
    char *parameters, *plan, *measurement;
    json_t *plan_json; /* borrowed from file */
} import_row;

typedef struct import_blob {
    const char *hash, *format;
    void *bytes;
    size_t size;
} import_blob;

typedef struct import_file {
    json_t *file;
    import_row *rows;
    size_t row_count;
    import_blob *blobs;
    size_t blob_count;
    json_t *blob_index; /* hash -> position in blobs */
} import_file;

/* DATABASE_ERROR naming row, field and value of the first thing wrong. import_free is harmless after a failure. */
mlpbwd_status import_read(const char *path, import_file *out, mlp_message *why);
void import_free(import_file *file);
/* NULL if the file has no such blob. */
const import_blob *import_find_blob(const import_file *file, const char *hash);

#endif
