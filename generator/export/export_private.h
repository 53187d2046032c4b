/* What the parts of an export share. */
#ifndef MLP_EXPORT_PRIVATE_H
#define MLP_EXPORT_PRIVATE_H

#include <stdio.h>

#include "export.h"

/* One entry of one source text: what a launch names. */
typedef struct export_kernel {
    size_t source;     /* index of the source */
    const char *entry; /* the plan's */
} export_kernel;

enum { EXPORT_MAX_KERNELS = 1024, EXPORT_MAX_PLANS = 64 };

typedef struct export_state {
    const export_request *request;
    json_t *files;            /* [{"path","content"}]: solution.json's "sources" */
    const char **source_hash; /* of each source, in the order of first use; the plans' */
    const char **source_slot; /* the slot that used it first */
    size_t source_count;
    export_kernel kernels[EXPORT_MAX_KERNELS];
    size_t kernel_count;
    const json_t *distinct[EXPORT_MAX_PLANS]; /* the plans, equal ones once */
    size_t distinct_count;
} export_state;

/* Texts of fixed files, embedded at build time; ends in {0}. */
typedef struct export_text {
    const char *path, *content;
} export_text;
extern const export_text export_texts[];

/* True for a C identifier. */
int export_is_identifier(const char *text);

/* Adds a file; the text is freed. OUT_OF_MEMORY also where text is NULL. */
mlpbwd_status export_add_file(export_state *state, const char *path, char *text, mlp_message *why);

/* Index of a launch's kernel, which is added if it is new. UNSUPPORTED: a module that nvcc cannot compile;
 * DATABASE_ERROR: a source that the request does not hold. */
mlpbwd_status export_find_kernel(export_state *state, const json_t *plan, const json_t *launch, size_t *kernel,
                                 mlp_message *why);
/* Every source as a .cu file, and the table of kernels. */
mlpbwd_status export_kernel_files(export_state *state, mlp_message *why);
/* mlpbwd_plans.cpp: every plan as a function of T and the number of multiprocessors. Finds the kernels. */
mlpbwd_status export_plan_file(export_state *state, mlp_message *why);

#endif
