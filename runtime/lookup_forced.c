/* The rung "forced": one file from `mlpbwd db export` decides, and is never silently ignored. */
#include "lookup_private.h"

#include <stdlib.h>
#include <string.h>

#include "import.h"
#include "place.h"

/* The file carries code, like a database: the same rules say whether it may be trusted. */
static mlpbwd_status read_trusted(const char *path, import_file *file, mlp_message *why) {
    place found;
    mlpbwd_status status = place_find(path, &found, why);
    if (status != MLPBWD_OK)
        return status;
    place_free(&found);
    return import_read(path, file, why);
}

static mlpbwd_status no_row_serves(const lookup_request *request, const import_file *file,
                                   const size_t misses[MISS_TOKENS + 1], mlp_message *why) {
    const mlpbwd_problem *problem = request->problem;
    return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                    "%s: none of its %zu rows serves T = %lld, H = %lld, I = %lld, accuracy %s on %s (%s): %zu of "
                    "another accuracy, %zu of other sizes, %zu of architectures that the device does not run, %zu "
                    "whose range does not hold this T",
                    request->forced_path, file->row_count, (long long)lookup_tokens(request),
                    (long long)problem->hidden_size, (long long)problem->intermediate_size,
                    accuracy_name(problem->accuracy), request->device->id, request->device->arch, misses[MISS_ACCURACY],
                    misses[MISS_SIZES], misses[MISS_ARCH], misses[MISS_TOKENS]);
}

/* The best row, as on the ladder; a row of a device of another architecture serves too if its machine code runs here.
 */
static const import_row *choose(const lookup_request *request, const import_file *file,
                                size_t misses[MISS_TOKENS + 1]) {
    const import_row *best = NULL;
    lookup_rank best_rank = {0};
    for (size_t i = 0; i < file->row_count; i++) {
        lookup_rank rank = lookup_judge(request, &file->rows[i].row);
        misses[rank.miss]++;
        if (rank.miss != MISS_NONE && rank.miss != MISS_DEVICE)
            continue;
        if (best && (rank.rung > best_rank.rung || (rank.rung == best_rank.rung && !lookup_better(&rank, &best_rank))))
            continue;
        best = &file->rows[i];
        best_rank = rank;
    }
    return best;
}

/* ---- rows without a plan: a database may have it ---- */

typedef struct plan_search {
    const db_plan_row *wanted;
    json_t *parameters;
    char *plan; /* malloc'ed */
} plan_search;

static mlpbwd_status match_plan(void *user, const db_plan_row *row, mlp_message *why) {
    plan_search *search = user;
    if (search->plan || strcmp(row->pipeline, search->wanted->pipeline) != 0)
        return MLPBWD_OK;
    json_t *parameters = json_loads(row->parameters, 0, NULL);
    if (parameters && json_equal(parameters, search->parameters)) {
        search->plan = strdup(row->plan);
        if (!search->plan) {
            json_decref(parameters);
            return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for a stored plan");
        }
    }
    json_decref(parameters);
    return MLPBWD_OK;
}

static mlpbwd_status find_plan(const lookup_request *request, const db_plan_row *row, lookup_answer *answer,
                               mlp_message *why) {
    plan_search search = {.wanted = row, .parameters = json_loads(row->parameters, 0, NULL)};
    const db_plan_filter filter = {.arch = row->arch,
                                   .device_name = row->device_name,
                                   .units = row->units,
                                   .accuracy = row->accuracy,
                                   .tokens = row->tokens,
                                   .hidden_size = row->hidden_size,
                                   .intermediate_size = row->intermediate_size};
    mlpbwd_status status = MLPBWD_OK;
    for (size_t i = 0; i < request->database_count && status == MLPBWD_OK && !search.plan; i++) {
        status = db_each_plan(request->databases[i], &filter, match_plan, &search, why);
        answer->database = request->databases[i];
    }
    json_decref(search.parameters);
    answer->plan_json = search.plan;
    if (status == MLPBWD_OK && !search.plan)
        status = mlp_fail(why, MLPBWD_DATABASE_ERROR,
                          "%s: the row for T = %lld of \"%s\" has no machine code, and no open database has its plan; "
                          "export it with its code",
                          request->forced_path, (long long)row->tokens, row->device_name);
    return status;
}

mlpbwd_status lookup_forced(const lookup_request *request, lookup_answer *answer, mlp_message *why) {
    import_file *file = calloc(1, sizeof *file);
    size_t misses[MISS_TOKENS + 1] = {0};
    if (!file)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory to read %s", request->forced_path);
    mlpbwd_status status = read_trusted(request->forced_path, file, why);
    const import_row *chosen = status == MLPBWD_OK ? choose(request, file, misses) : NULL;
    if (status == MLPBWD_OK && !chosen)
        status = no_row_serves(request, file, misses, why);
    if (status == MLPBWD_OK)
        status = lookup_keep_row(answer, &chosen->row, why);
    answer->forced = file;
    if (status == MLPBWD_OK && !answer->plan_json)
        status = find_plan(request, &chosen->row, answer, why);
    if (status != MLPBWD_OK) {
        mlp_prefix(why, "MLPBWD_FORCE");
        return status;
    }
    answer->match = "forced";
    answer->database_path = text_utf8(request->forced_path, SIZE_MAX);
    return answer->database_path ? MLPBWD_OK : mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for a stored plan");
}

/* ---- blobs ---- */

static mlpbwd_status copy_embedded(const import_blob *blob, void **bytes, size_t *size, mlp_message *why) {
    char *copy = malloc(blob->size + 1);
    if (!copy)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for %zu bytes of machine code", blob->size);
    memcpy(copy, blob->bytes, blob->size);
    copy[blob->size] = '\0';
    *bytes = copy;
    *size = blob->size;
    return MLPBWD_OK;
}

static mlpbwd_status get_from_other(const lookup_request *request, db *database, const char *hash, void **bytes,
                                    size_t *size, mlp_message *why) {
    char format[16];
    mlp_message reason = {0};
    mlpbwd_status status = db_get_blob(database, hash, bytes, size, format, &reason);
    if (lookup_forgive(request, database, status, &reason))
        return MLPBWD_OK;
    if (status != MLPBWD_OK && why)
        *why = reason;
    return status;
}

mlpbwd_status lookup_get_blob(void *user, const char *hash, void **bytes, size_t *size, mlp_message *why) {
    const lookup_blobs *from = user;
    const import_blob *embedded = from->answer->forced ? import_find_blob(from->answer->forced, hash) : NULL;
    char format[16];
    *bytes = NULL;
    *size = 0;
    if (embedded)
        return copy_embedded(embedded, bytes, size, why);
    mlpbwd_status status = MLPBWD_OK;
    if (from->answer->database)
        status = db_get_blob(from->answer->database, hash, bytes, size, format, why);
    for (size_t i = 0; i < from->request->database_count && status == MLPBWD_OK && !*bytes; i++)
        if (from->request->databases[i] != from->answer->database)
            status = get_from_other(from->request, from->request->databases[i], hash, bytes, size, why);
    return status;
}
