/* The template files, read once: so that what is emitted and gen_templates_hash always speak of the same bytes. */
#ifndef MLP_FILES_H
#define MLP_FILES_H

#include <stddef.h>

#include "message.h"

typedef struct template_file {
    char *path;  /* under its folder: "lib/mma.cuh" */
    char *bytes; /* NUL-terminated; a byte order mark is dropped, CRLF is LF */
    size_t size;
} template_file;

typedef struct template_files {
    template_file *items; /* sorted by path */
    size_t count;
    char hash[65]; /* over paths and bytes of all */
} template_files;

/* Reads arch/, kernels/, pipelines/ and lib/ of every folder (links are followed, names with a leading dot left out);
 * a file in an earlier folder hides its namesake. On failure nothing is left to free. */
mlpbwd_status files_read(const char *const *folders, size_t count, template_files *files, mlp_message *why);
void files_free(template_files *files);
/* NULL: no such file. */
const template_file *files_find(const template_files *files, const char *path);

#endif
