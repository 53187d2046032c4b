/* Where a database file lies and whether it may be trusted: for tuning_db and the
 * runtime's forced look-up. */
#ifndef MLP_PLACE_H
#define MLP_PLACE_H

#include <stdbool.h>
#include <sys/types.h>

#include "message.h"

typedef struct place {
    char *real; /* malloc'ed: links resolved, so that a journal is looked for where SQLite puts it */
    dev_t device;
    ino_t inode;
    bool journal, wal; /* a non-empty file real-journal, real-wal is there */
    bool writable;     /* file, folder and filesystem; "no write bit at all" counts as not writable even for root */
} place;

/* Resolves and judges an existing file. DATABASE_ERROR: missing, no regular file, owned by another user (root aside)
 * or writable by others, or with a journal beside it of which that is true; the message names owner or mode and what
 * would put it right. */
mlpbwd_status place_find(const char *path, place *out, mlp_message *why);
void place_free(place *where);

/* Makes missing parent folders (0700) and an empty file (0644 less the umask) unless the file is there. */
mlpbwd_status place_create(const char *path, mlp_message *why);

/* Is the name still the file that place_find judged? */
bool place_unchanged(const place *where);

/* malloc'ed "file://..." URI of where->real with every unusual byte percent-encoded, and its query; NULL: no memory. */
char *place_uri(const place *where, const char *query);

#endif
