#include "where.h"

#include <stdio.h>
#include <string.h>

static bool append(where *w, const char *column) {
    size_t used = strlen(w->text);
    int length = snprintf(w->text + used, sizeof w->text - used, "%s %s = ?", w->count ? " AND" : " WHERE", column);
    return length > 0 && (size_t)length < sizeof w->text - used && w->count < WHERE_MOST;
}

void where_text(where *w, const char *column, const char *value) {
    if (value && append(w, column))
        w->values[w->count++].text = value;
}

void where_integer(where *w, const char *column, int64_t value) {
    if (value >= 0 && append(w, column))
        w->values[w->count++].integer = value;
}

mlpbwd_status where_open(const where *w, sql *s, const db *database, const char *doing, const char *before,
                         const char *after, mlp_message *why) {
    char text[2560];
    int length = snprintf(text, sizeof text, "%s%s%s", before, w->text, after);
    if (length < 0 || (size_t)length >= sizeof text)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: the statement is too long", doing);
    mlpbwd_status status = sql_open(s, database, doing, text, why);
    if (status != MLPBWD_OK)
        return status;
    for (int i = 0; i < w->count; ++i) {
        if (w->values[i].text)
            sql_add_text(s, w->values[i].text);
        else
            sql_add_integer(s, w->values[i].integer);
    }
    return MLPBWD_OK;
}
