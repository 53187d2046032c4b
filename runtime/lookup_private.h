/* What the parts of the look-up share: how a row is judged and how an answer is made from one. */
#ifndef MLP_LOOKUP_PRIVATE_H
#define MLP_LOOKUP_PRIVATE_H

#include <jansson.h>

#include "lookup.h"
#include "names.h"

/* From the best rung to the last; "forced" stands before them and is no choice among rows. */
typedef enum { RUNG_EXACT, RUNG_NEAREST, RUNG_ARCHITECTURE, RUNG_DEFAULT, RUNG_NONE } lookup_rung;

/* Why a row serves no rung. */
typedef enum { MISS_NONE, MISS_ACCURACY, MISS_SIZES, MISS_ARCH, MISS_DEVICE, MISS_TOKENS } lookup_miss;

/* A row's place; lookup_better compares two of one rung. */
typedef struct lookup_rank {
    lookup_rung rung;
    lookup_miss miss;
    int unit_distance;       /* rung architecture */
    int units;               /* tie: fewer */
    int64_t larger, smaller; /* of T and the row's T'; 0 for defaults */
    int64_t tokens;          /* tie: smaller */
    size_t ladder;           /* index of the row's arch */
    int any_sizes;           /* how many of H and I the row leaves open */
} lookup_rank;

/* T of the request. */
int64_t lookup_tokens(const lookup_request *request);
/* On which rung the row serves the request and how near it is, or why it does not (RUNG_NONE and a miss). */
lookup_rank lookup_judge(const lookup_request *request, const db_plan_row *row);
/* Of two rows on one rung: a is taken before b. */
bool lookup_better(const lookup_rank *a, const lookup_rank *b);
/* "exact" and so on; not for RUNG_NONE. */
const char *lookup_rung_name(lookup_rung rung);

/* Copies what an answer keeps of a row; match and database fields are left alone. OUT_OF_MEMORY. Frees what was there.
 */
mlpbwd_status lookup_keep_row(lookup_answer *answer, const db_plan_row *row, mlp_message *why);

/* The rung "forced": DATABASE_ERROR with the reason when the file cannot serve. */
mlpbwd_status lookup_forced(const lookup_request *request, lookup_answer *answer, mlp_message *why);

#endif
