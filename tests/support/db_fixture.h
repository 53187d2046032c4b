/* Databases for tests: a folder of its own for every test, sample rows, and a report that keeps its lines. */
#ifndef DB_FIXTURE_H
#define DB_FIXTURE_H

#include "db.h"

/* cmocka set-up and teardown: *state is the path of a fresh folder (under $TMPDIR, else /tmp), removed afterwards. */
int fixture_folder(void **state);
int fixture_remove(void **state);

/* folder/name; static storage, good for the next seven calls. */
const char *fixture_path(void *const *state, const char *name);

/* Opens or fails the test with the message. */
db *fixture_open(const char *path, db_mode mode);

/* A measured row of device "Test GPU" (16 units) for T tokens, with source and machine code stored. The texts live in
 * *out. */
typedef struct fixture_plan {
    db_plan_row row;
    char plan[1024], parameters[256], measurement[256];
    char source_hash[DB_HASH_CAPACITY], code_hash[DB_HASH_CAPACITY];
} fixture_plan;
void fixture_make_plan(db *database, int64_t tokens, double median_us, fixture_plan *out);
void fixture_put_plan(db *database, int64_t tokens, double median_us);

/* The number-th candidate of an endless sequence of different ones; texts are static, or in parameters. */
db_candidate fixture_candidate(int number, char parameters[64]);

/* All rows of all kinds as JSON of counts (malloc'ed), and the export with code (malloc'ed, "" if it fails). */
char *fixture_counts(db *database);
char *fixture_export(db *database, bool with_code);

void fixture_write(const char *path, const void *bytes, size_t size);
/* malloc'ed, NUL-terminated. */
char *fixture_read(const char *path, size_t *size);

/* Report whose lines are joined in text. */
typedef struct fixture_report {
    db_report report;
    char text[16384];
} fixture_report;
void fixture_start_report(fixture_report *out);

/* Names in a folder other than . and .., joined by spaces and sorted (malloc'ed). */
char *fixture_list(const char *folder);

#endif
