/* Where verify and bench get the plan they run: the databases' ladder, as mlpbwd_plan_create would, or the templates.
 */
#ifndef MLP_CLI_PLAN_SOURCE_H
#define MLP_CLI_PLAN_SOURCE_H

#include <jansson.h>

#include "build_set.h"
#include "cli.h"
#include "db.h"
#include "device/device.h"
#include "generator.h"
#include "plan_image.h"

typedef enum { PLANS_LADDER, PLANS_DEFAULT, PLANS_EVERY_PIPELINE } plan_choice;

typedef struct plan_source {
    plan_choice choice;
    dev *device;
    dev_context *context;
    dev_info info;
    db *databases[2];
    size_t database_count;
    unsigned by_default; /* lookup_request.by_default */
    gen *generator;      /* PLANS_DEFAULT, PLANS_EVERY_PIPELINE */
    build_set *set;
} plan_source;

/* Opens databases or templates, then the device (`spec` as dev_open takes it). Fills *source also on failure: close it.
 */
mlpbwd_status plan_source_open(plan_source *source, const cli_options *options, plan_choice choice, mlp_message *why);
void plan_source_close(plan_source *source);

/* One plan, ready to run. */
typedef struct ready_plan {
    plan_image *image;
    char *pipeline, *match; /* match: a rung of the ladder, or "templates" */
    json_t *description;    /* what `query` would answer, or {"pipeline","parameters"} */
} ready_plan;

/* The names of the pipelines to run for a class: one JSON null for the ladder. New reference. */
mlpbwd_status plan_source_pipelines(const plan_source *source, int accuracy, json_t **names, mlp_message *why);
/* Loads the plan for the problem; compiles where the templates are the source, or where no row of the databases has
 * machine code that runs here. */
mlpbwd_status plan_source_load(plan_source *source, const char *pipeline, const mlpbwd_problem *problem,
                               ready_plan *plan, mlp_message *why);
void ready_plan_free(ready_plan *plan);

#endif
