/* A WHERE clause of equalities, only over the fields that are given, so that SQLite can use the keys: private to
 * tuning_db. */
#ifndef MLP_WHERE_H
#define MLP_WHERE_H

#include "sql.h"

enum { WHERE_MOST = 20 };

typedef struct where {
    char text[1024]; /* "" or " WHERE a = ? AND b = ?" */
    int count;
    struct {
        const char *text; /* NULL: integer */
        int64_t integer;
    } values[WHERE_MOST];
} where;

/* NULL and negative values are left out. */
void where_text(where *w, const char *column, const char *value);
void where_integer(where *w, const char *column, int64_t value);
/* Prepares before + clause + after and binds the values, which must outlive s. */
mlpbwd_status where_open(const where *w, sql *s, const db *database, const char *doing, const char *before,
                         const char *after, mlp_message *why);

#endif
