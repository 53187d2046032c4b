/* Judging rows and walking the ladder. */
#include "lookup_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

enum { MOST_DATABASES = 8 }; /* a choice is one bit of 32 */

int64_t lookup_tokens(const lookup_request *request) {
    return request->problem->batch_size * request->problem->seq_len;
}

const char *lookup_rung_name(lookup_rung rung) {
    static const char *const names[] = {"exact", "nearest", "architecture", "default"};
    return names[rung];
}

static lookup_rank missed(lookup_miss miss) {
    return (lookup_rank){.rung = RUNG_NONE, .miss = miss};
}

lookup_rank lookup_judge(const lookup_request *request, const db_plan_row *row) {
    const mlpbwd_problem *problem = request->problem;
    const dev_info *device = request->device;
    int64_t tokens = lookup_tokens(request);
    lookup_rank rank = {.rung = RUNG_DEFAULT, .tokens = row->tokens, .units = row->units};
    if (row->accuracy != problem->accuracy)
        return missed(MISS_ACCURACY);
    if ((row->hidden_size != 0 && row->hidden_size != problem->hidden_size) ||
        (row->intermediate_size != 0 && row->intermediate_size != problem->intermediate_size))
        return missed(MISS_SIZES);
    rank.any_sizes = (row->hidden_size == 0) + (row->intermediate_size == 0);
    while (rank.ladder < device->ladder_length && strcmp(device->ladder[rank.ladder], row->arch) != 0)
        rank.ladder++;
    if (rank.ladder == device->ladder_length)
        return missed(MISS_ARCH);
    if (tokens < row->min_tokens || tokens > row->max_tokens)
        return missed(MISS_TOKENS);
    if (row->device_name[0] == '\0') {
        rank.tokens = 0; /* what a default was chosen for says nothing against one of a better architecture */
        return rank;
    }
    if (row->tokens <= 0)
        return missed(MISS_TOKENS);
    rank.larger = tokens > row->tokens ? tokens : row->tokens;
    rank.smaller = tokens > row->tokens ? row->tokens : tokens;
    const bool replayed = row->measurement && strstr(row->measurement, "\"replayed\":true") != NULL;
    if (strcmp(row->device_name, device->name) == 0 && row->units == device->units &&
        row->compute_capability == device->compute_capability) {
        rank.rung = row->tokens == tokens ? RUNG_EXACT : RUNG_NEAREST;
    } else if (strcmp(row->arch, device->arch) == 0 && !replayed) { /* a test's recorded times choose for no one else */
        rank.rung = RUNG_ARCHITECTURE;
        rank.unit_distance = abs(row->units - device->units);
    } else { /* its machine code runs here all the same: only "forced" may take it */
        rank.rung = RUNG_NONE;
        rank.miss = MISS_DEVICE;
    }
    return rank;
}

bool lookup_better(const lookup_rank *a, const lookup_rank *b) {
    if (a->unit_distance != b->unit_distance)
        return a->unit_distance < b->unit_distance;
    if (a->rung == RUNG_ARCHITECTURE && a->units != b->units)
        return a->units < b->units;
    /* |log(T/T')| by its ratio, in whole numbers below 2^62: ties are exact. */
    int64_t a_ratio = a->larger * b->smaller, b_ratio = b->larger * a->smaller;
    if (a_ratio != b_ratio)
        return a_ratio < b_ratio;
    if (a->tokens != b->tokens)
        return a->tokens < b->tokens;
    if (a->ladder != b->ladder)
        return a->ladder < b->ladder;
    return a->any_sizes < b->any_sizes;
}

/* ---- one pass over a database keeps the best row of each rung ---- */

typedef struct visiting {
    const lookup_request *request;
    lookup_answer best[RUNG_NONE];
    lookup_rank rank[RUNG_NONE];
    int64_t rows, misses[MISS_TOKENS + 1];
} visiting;

static mlpbwd_status visit(void *user, const db_plan_row *row, mlp_message *why) {
    visiting *v = user;
    lookup_rank rank = lookup_judge(v->request, row);
    v->rows++;
    v->misses[rank.miss]++;
    if (rank.rung == RUNG_NONE)
        return MLPBWD_OK;
    lookup_answer *best = &v->best[rank.rung];
    if (best->plan_json && !lookup_better(&rank, &v->rank[rank.rung]))
        return MLPBWD_OK;
    v->rank[rank.rung] = rank;
    return lookup_keep_row(best, row, why);
}

static mlpbwd_status visit_database(const lookup_request *request, db *database, visiting *v, mlp_message *why) {
    const db_plan_filter filter = {
        .units = -1, .accuracy = -1, .tokens = -1, .hidden_size = -1, .intermediate_size = -1};
    v->request = request;
    return db_each_plan(database, &filter, visit, v, why);
}

static mlpbwd_status nothing_serves(const lookup_request *request, const visiting *found, mlp_message *why) {
    const dev_info *device = request->device;
    char ladder[DEV_MAX_LADDER * 34] = "", databases[1024] = "";
    size_t used = 0;
    for (size_t i = 0; i < device->ladder_length; i++) {
        strcat(ladder, i > 0 ? ", " : "");
        strcat(ladder, device->ladder[i]);
    }
    for (size_t i = 0; i < request->database_count && used < sizeof databases; i++) {
        const visiting *v = &found[i];
        int length = snprintf(databases + used, sizeof databases - used,
                              "; %.300s holds %lld rows: %lld of another accuracy, %lld of other sizes, %lld of other "
                              "architectures, %lld of other devices, %lld for other T",
                              db_path(request->databases[i]), (long long)v->rows, (long long)v->misses[MISS_ACCURACY],
                              (long long)v->misses[MISS_SIZES], (long long)v->misses[MISS_ARCH],
                              (long long)v->misses[MISS_DEVICE], (long long)v->misses[MISS_TOKENS]);
        used += length > 0 ? (size_t)length : 0;
    }
    return mlp_fail(why, MLPBWD_UNSUPPORTED,
                    "no stored plan serves T = %lld, H = %lld, I = %lld, accuracy %s on %s (%s, %d units). exact: no "
                    "row of this device with this T; nearest: none whose range holds this T; architecture: no row of "
                    "another %s device; default: none for %s%s%s",
                    (long long)lookup_tokens(request), (long long)request->problem->hidden_size,
                    (long long)request->problem->intermediate_size, accuracy_name(request->problem->accuracy),
                    device->id, device->name, device->units, device->arch,
                    ladder[0] ? ladder : "a device that runs no known architecture",
                    request->database_count == 0 ? "; no database is open" : "", databases);
}

/* A rung is asked in every database before the next one is. */
static bool take_best(const lookup_request *request, visiting *found, lookup_answer *answer) {
    for (int rung = RUNG_EXACT; rung < RUNG_NONE; rung++)
        for (size_t i = 0; i < request->database_count && i < MOST_DATABASES; i++) {
            lookup_answer *best = &found[i].best[rung];
            const unsigned choice = 1U << (rung * MOST_DATABASES + (int)i);
            if (!best->plan_json || (request->left_out & choice))
                continue;
            *answer = *best;
            answer->choice = choice;
            *best = (lookup_answer){0};
            answer->match = lookup_rung_name((lookup_rung)rung);
            answer->database = request->databases[i];
            return true;
        }
    return false;
}

static void forget(visiting *found) {
    for (int rung = 0; rung < RUNG_NONE; rung++)
        lookup_answer_free(&found->best[rung]);
}

static mlpbwd_status climb(const lookup_request *request, lookup_answer *answer, mlp_message *why) {
    size_t count = request->database_count;
    visiting *found = calloc(count ? count : 1, sizeof *found);
    if (!found)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory to look plans up");
    mlpbwd_status status = MLPBWD_OK;
    for (size_t i = 0; i < count && status == MLPBWD_OK; i++) {
        mlp_message reason = {0};
        status = visit_database(request, request->databases[i], &found[i], &reason);
        if (lookup_forgive(request, request->databases[i], status, &reason)) { /* its rows so far may not be its best */
            forget(&found[i]);
            status = MLPBWD_OK;
        } else if (status != MLPBWD_OK && why) {
            *why = reason;
        }
    }
    if (status == MLPBWD_OK && !take_best(request, found, answer))
        status = nothing_serves(request, found, why);
    for (size_t i = 0; i < count; i++)
        forget(&found[i]);
    free(found);
    if (status == MLPBWD_OK) {
        answer->database_path = strdup(db_path(answer->database));
        if (!answer->database_path)
            status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for a stored plan");
    }
    return status;
}

mlpbwd_status lookup_find(const lookup_request *request, lookup_answer *answer, mlp_message *why) {
    *answer = (lookup_answer){.median_us = -1};
    mlpbwd_status status = request->forced_path ? lookup_forced(request, answer, why) : climb(request, answer, why);
    if (status != MLPBWD_OK)
        lookup_answer_free(answer);
    return status;
}

mlpbwd_status lookup_find_usable(lookup_request request, lookup_use use, void *user, lookup_answer *answer,
                                 mlp_message *why) {
    mlp_message reason = {0};
    for (;;) {
        mlpbwd_status status = lookup_find(&request, answer, &reason);
        if (status != MLPBWD_OK) {
            if (request.left_out == 0 || status != MLPBWD_UNSUPPORTED)
                *why = reason;
            return status;
        }
        status = use(user, &request, answer, &reason);
        if (status == MLPBWD_OK)
            return status;
        if (request.left_out == 0)
            *why = reason;
        const unsigned choice = answer->choice;
        const bool forgiven = lookup_forgive(&request, answer->database, status, &reason);
        lookup_answer_free(answer);
        if (choice == 0 || (status != MLPBWD_UNSUPPORTED && !forgiven)) {
            *why = reason;
            return status;
        }
        if (!forgiven)
            log_message("left out: %s", reason.text);
        request.left_out |= choice;
    }
}
