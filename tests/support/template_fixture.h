/* Folders of templates for tests: a small valid set (one feature, one architecture, two kernels, one pipeline) of which
 * a test replaces single files. */
#ifndef TEMPLATE_FIXTURE_H
#define TEMPLATE_FIXTURE_H

#include "generator.h"

/* cmocka set-up: *state is the path of a fresh folder with the set; fixture_remove of db_fixture.h is the teardown. */
int template_folder(void **state);
/* Replaces or adds a file; folders are made. */
void template_write(void *const *state, const char *path, const char *text);
/* Opens the set; on success *out must be closed. */
mlpbwd_status template_open(void *const *state, const gen_limits *limits, gen **out, mlp_message *why);
/* A kernel file "k" (role fc1_dgrad, operands a, b, parameters tile and fast) whose functions' bodies are given; NULL:
 * those of the set. Static storage. */
const char *template_kernel(const char *valid, const char *source, const char *launches);
/* The target of the set: architecture "test", tf32. */
extern const gen_target template_target;

#endif
