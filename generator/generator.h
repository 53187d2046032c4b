/* Lua templates -> kernel variants and stored plans. The rules of the templates are in templates/README.md.
 * A gen is for one thread at a time. JSON values are jansson's; a returned json_t is a new reference for the caller. */
#ifndef MLP_GENERATOR_H
#define MLP_GENERATOR_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "message.h"
#include "mlpbwd.h"

typedef struct gen gen;

typedef struct gen_limits {
    size_t memory_bytes;  /* of the Lua state; 0: 256 MiB */
    int64_t instructions; /* per call into a template; 0: 200 million */
} gen_limits;

/* folders: searched in order (user's first), each with arch/, kernels/, pipelines/, lib/; a file in an earlier one
 * hides its namesake. Every file is loaded and checked now; the first broken one is an error naming file and line. */
mlpbwd_status gen_open(const char *const *folders, size_t count, const gen_limits *limits, gen **out, mlp_message *why);
void gen_close(gen *generator);

/* Descriptions: {"name":{"doc":..,"params":[{"name","doc","values","default"}],..}}: from the same tables, for --help,
 * docs and tests. */
json_t *gen_describe_archs(gen *generator);     /* name -> all fields, inherited ones resolved */
json_t *gen_describe_kernels(gen *generator);   /* name -> doc, roles, needs, accuracies, rank, params (names, docs) */
json_t *gen_describe_pipelines(gen *generator); /* name -> doc, needs, accuracies, rank, slots [{slot, role, kernel}] */

typedef struct gen_target {
    const char *arch; /* a templates/arch name */
    int accuracy;     /* mlpbwd_accuracy */
} gen_target;

/* Pipelines that can run on the target, default first; array of names. */
mlpbwd_status gen_pipelines_for(gen *generator, const gen_target *target, json_t **names, mlp_message *why);
/* slots of a pipeline on a target: array of {"slot","role","kernels":[names, default first]}. */
mlpbwd_status gen_slots(gen *generator, const char *pipeline, const gen_target *target, json_t **slots,
                        mlp_message *why);

/* Every variant of one kernel in one role: array of {"kernel":..., params...} objects, default first, then in the order
 * of the values. *rejected (may be NULL): object reason -> count, for valid and prune. tokens < 0: no prune. */
typedef struct gen_problem {
    int64_t tokens, hidden_size, intermediate_size;
    int units;
} gen_problem;
mlpbwd_status gen_space(gen *generator, const char *kernel, const char *role, const gen_target *target,
                        const gen_problem *problem, json_t **variants, json_t **rejected, mlp_message *why);

/* One variant's source text; parameters: {"name":value}, missing ones default, "kernel" is ignored. *source is
 * malloc'ed. INVALID_ARGUMENT: unknown kernel, role, parameter, value or an invalid combination (with its reason). */
mlpbwd_status gen_emit(gen *generator, const char *kernel, const char *role, const gen_target *target,
                       const json_t *parameters, char **source, mlp_message *why);

/* A whole pass. selection: {"slot":{"kernel":"...","param":value}}, anything missing is the default. *plan is the
 * stored plan with "code":null, *sources an object hash -> source text. */
mlpbwd_status gen_build_plan(gen *generator, const char *pipeline, const gen_target *target, const json_t *selection,
                             json_t **plan, json_t **sources, mlp_message *why);

/* ---- predicted times: the model stands at the head of cost.c ---- */
/* Microseconds of a variant ("kernel" in parameters is ignored) at a problem; < 0: the kernel does not say what its
 * tiles are, the role is no product, or too little is known of the architecture. units 0: the architecture's. */
mlpbwd_status gen_predict(gen *generator, const char *kernel, const char *role, const gen_target *target,
                          const json_t *parameters, const gen_problem *problem, double *us, mlp_message *why);
/* *selection (for gen_build_plan): what is predicted to be fastest in every slot of a product, the defaults elsewhere
 * and where nothing can be predicted. *us: of the whole pass, one slot after the other; < 0: not predicted. */
mlpbwd_status gen_choose(gen *generator, const char *pipeline, const gen_target *target, const gen_problem *problem,
                         json_t **selection, double *us, mlp_message *why);

/* The default plans of an architecture: a choice for each range of T, by the model at the sizes of the benchmark; one
 * for all where it says nothing, or always the same. */
enum { GEN_MOST_DEFAULTS = 3 };
typedef struct gen_default {
    int64_t tokens; /* chosen for; 0: not by the model */
    int64_t min_tokens, max_tokens;
    double predicted_us; /* of the whole pass there; < 0: not predicted */
    json_t *selection;   /* for gen_build_plan */
} gen_default;
mlpbwd_status gen_defaults(gen *generator, const char *pipeline, const gen_target *target,
                           gen_default list[GEN_MOST_DEFAULTS], size_t *count, mlp_message *why);
/* {"measured":false,"predicted_us",...}: the measurement of its row. New reference; NULL without memory. */
json_t *gen_default_measurement(const gen_default *item);
void gen_defaults_free(gen_default *list, size_t count);

/* SHA-256 over all template files that can take part in plans (names and bytes), hex: stored with measurements so that
 * a changed template tells the tuner what to retune. */
const char *gen_templates_hash(const gen *generator);

/* Where templates are when none are named: $MLPBWD_TEMPLATES, the build's or the installed folder beside the tool. */
mlpbwd_status gen_default_folder(char *path, size_t capacity, mlp_message *why);

#endif
