/* A folder with an exported solution for tests: stored plans of two pipelines, and programs compiled from the
 * solution's own C++. */
#ifndef EXPORT_FIXTURE_H
#define EXPORT_FIXTURE_H

#include <jansson.h>
#include <stdint.h>

#include "run_tool.h"

/* cmocka set-up and teardown: a fresh folder, removed afterwards. */
int export_set_up(void **state);
int export_tear_down(void **state);

/* The tool sees no database but those that a command names, and no compiler: an export compiles nothing. */
extern const run_surroundings export_surroundings;

/* The folder's file of that name, as path_in gives it. */
const char *export_path(const char *name);
void export_save(const char *name, const char *content);

/* Standard output of a shell command run in the folder (malloc'ed); fails the test unless it succeeds. */
char *export_shell(const char *command);

/* Text or whole number of a field; "" or 0 if there is none. */
const char *export_text(const json_t *object, const char *key);
int64_t export_number(const json_t *object, const char *key);

/* Exports into "solution", for sm_90a, what a database of two rows has for the suite: T = 256 (a pipeline on one
 * stream) and T = 4096 (one with a side stream). New reference: both rows with their stored "plan", as `db export
 * --with-code` gives them. */
json_t *export_make_solution(void);
/* The plan of those that serves T in the solution: T of the suite takes the nearer row, any other T what the nearest of
 * the suite takes, each by ratio. */
const json_t *export_plan_for(const json_t *rows, int64_t tokens);

/* New reference: the names in the table of kernels ("ENTRY of FILE"), in its order. */
json_t *export_kernel_names(void);

#endif
