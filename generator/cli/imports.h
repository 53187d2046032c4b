/* Winners as text into a database: rows that hold parameters only get their plan from the templates, compiled where
 * the compiler exists. Used by `mlpbwd db import` and `mlpbwd db ship`. */
#ifndef MLP_CLI_IMPORTS_H
#define MLP_CLI_IMPORTS_H

#include "build_set.h"
#include "db.h"
#include "generator.h"

typedef struct imports {
    gen *generator;
    build_set *set;
    size_t incomplete; /* plans stored with a module that has no machine code */
} imports;

/* Validates every file against a throw-away database and adds what its rows need to the set. */
mlpbwd_status imports_collect(imports *work, const char *const *files, size_t count, mlp_message *why);
/* After build_set_compile: the real import, one transaction a file. */
mlpbwd_status imports_store(imports *work, const char *const *files, size_t count, db *into, db_report *report,
                            mlp_message *why);

#endif
